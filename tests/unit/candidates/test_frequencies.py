"""Labels of uneven frequency: estimated from candidates, and heeded only where it matters."""

import numpy as np
import pytest

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.candidates.trials import N_EM_STEPS, label_frequencies, label_offsets
from groupnoise.exceptions import ParameterError
from groupnoise.reproduce.unseen_sets import noisy_candidates

FREQUENCIES = np.array([0.7, 0.2, 0.1])


def answers(n_rows=2000, frequencies=FREQUENCIES, seed=0):
    """Return what a model that takes labels for equally frequent says, and candidates."""
    generator = np.random.default_rng(seed)
    truth = generator.choice(3, n_rows, p=frequencies)
    seen = np.eye(3)[truth] + 0.8 * generator.normal(size=(n_rows, 3))
    likelihood = np.exp(-((seen[:, None] - np.eye(3)) ** 2).sum(axis=2) / (2 * 0.8**2))
    candidates = np.eye(3, dtype=bool)[truth] | (generator.random((n_rows, 3)) < 0.3)
    return likelihood / likelihood.sum(axis=1, keepdims=True), candidates, truth


def test_frequencies_are_those_of_a_plain_loop():
    probabilities, candidates, _ = answers(40)
    answered = [float(np.mean(probabilities[:, c])) for c in range(3)]
    found = list(answered)
    for _ in range(N_EM_STEPS):
        total = [0.0, 0.0, 0.0]
        for row, holds in zip(probabilities, candidates, strict=True):
            shares = [row[c] * found[c] / answered[c] if holds[c] else 0.0 for c in range(3)]
            for c in range(3):
                total[c] += shares[c] / sum(shares) / len(probabilities)
        found = total
    np.testing.assert_allclose(label_frequencies(probabilities, candidates), found, rtol=1e-9)


def test_frequencies_of_labels_are_found_in_candidates():
    probabilities, candidates, _ = answers()
    assert np.abs(probabilities.mean(axis=0) - FREQUENCIES).max() > 0.1
    np.testing.assert_allclose(label_frequencies(probabilities, candidates), FREQUENCIES, atol=0.05)


def test_offsets_make_answers_right_more_often():
    probabilities, candidates, truth = answers()
    offsets = label_offsets(probabilities[:1000], candidates[:1000])
    heeded = (np.log(probabilities[1000:]) + offsets).argmax(axis=1)
    plain = probabilities[1000:].argmax(axis=1)
    assert (heeded == truth[1000:]).mean() > (plain == truth[1000:]).mean() + 0.03


def test_even_labels_and_few_rows_are_left_alone():
    assert label_offsets(*answers(frequencies=np.full(3, 1 / 3))[:2]) is None
    assert label_offsets(*answers(12, frequencies=[0.5, 0.25, 0.25])[:2]) is None


def test_offsets_are_part_of_answers_and_of_saved_models(tmp_path):
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, 4))
    candidates = np.eye(3, dtype=bool)[(rows[:, 0] > 0).astype(int)]
    candidates[:, 2] = True
    plain = MaxMatchingPartialLabelClassifier.fixed(max_epochs=2, random_state=0)
    offset = MaxMatchingPartialLabelClassifier.fixed(
        max_epochs=2, random_state=0, label_offsets=(0.0, 0.0, 1.0)
    )
    expected = plain.fit(rows, candidates).predict_proba(rows) * np.exp([0.0, 0.0, 1.0])
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(
        offset.fit(rows, candidates).predict_proba(rows), expected, atol=1e-5
    )
    offset.save(tmp_path / "model")
    again = MaxMatchingPartialLabelClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(rows), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("offsets", "said"), [((1.0,), "1 numbers for 3"), ((1.0, np.nan, 0.0), "finite")]
)
def test_offsets_that_do_not_fit_are_refused(offsets, said):
    rows, candidates = np.eye(9), np.eye(3, dtype=bool)[np.arange(9) % 3]
    model = MaxMatchingPartialLabelClassifier.fixed(max_epochs=1, label_offsets=offsets)
    with pytest.raises(ParameterError, match=said):
        model.fit(rows, candidates).predict_proba(rows)


def test_fit_heeds_frequencies_and_says_so():
    generator = np.random.default_rng(1)
    truth = generator.choice(6, 400, p=[0.6, *[0.08] * 5])
    words = 1 / np.arange(1, 201) / (1 / np.arange(1, 201)).sum()
    chances = 0.9 * words + 0.1 * generator.dirichlet(np.full(200, 0.1), size=6)
    rows = np.log1p([generator.multinomial(25, chances[label]) for label in truth])
    candidates = noisy_candidates(rows, truth, 6, "instance", generator)
    model = MaxMatchingPartialLabelClassifier(max_epochs=10, random_state=0)
    model.fit(rows[:200], candidates[:200])
    assert all(setting["label_offsets"] for _, setting in model.decisions_.members)
    assert "label_offsets" in model.decisions_.summary()
    assert model.score(rows[200:], truth[200:]) > 0.6  # .505 without
