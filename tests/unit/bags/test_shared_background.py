"""Background that bags of one label each have in common: found, learned, kept, and left alone."""

import math

import numpy as np
import pytest
import torch

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags.search.witness_rate import (
    SCALES,
    SHIFTS,
    background_share,
    fit_shared_background,
    with_background,
)

N_CLASSES = 3


def draw_bags(seed, *, with_rest=True, n_bags=36):
    """Bags of three classes, with rows of a fourth cloud in all of them or with none."""
    generator = np.random.default_rng(seed)
    centres = generator.normal(0.0, 2.5, (N_CLASSES + 1, 6))
    rows, bag, labels, truth = [], [], [], []
    for number in range(n_bags):
        label, size = number % N_CLASSES, int(generator.integers(4, 8))
        of_label = int(generator.integers(1, 4)) if with_rest else size
        kinds = [label] * of_label + [N_CLASSES] * (size - of_label)
        rows += [centres[kind] + generator.normal(size=6) for kind in kinds]
        bag += [number] * len(kinds)
        truth += kinds
        labels.append("abc"[label])
    names = np.array(["a", "b", "c", "none"])
    return np.array(rows), np.array(bag), labels, names[truth]


@pytest.fixture(scope="module")
def shared():
    drawn = draw_bags(11)
    rows, bag, labels, _ = drawn
    return MaxMatchingMILClassifier(random_state=0).fit(rows, labels, groups=bag), drawn


def test_what_bags_of_all_labels_share_is_background(shared):
    model, (rows, bag, _, truth) = shared
    answers = model.predict(rows, groups=bag, background="none")
    assert (answers == truth).mean() > 0.95
    assert "may be background" in " ".join(model.decisions_.reasons)


def test_bags_of_which_some_have_two_labels_share_a_background_too():
    rows, bag, labels, truth = draw_bags(11, n_bags=60)
    # Every sixth bag becomes one with the bag after it, which has another label.
    joined = np.where(bag % 6 == 1, bag - 1, bag)
    both = {n: [labels[n]] + ([labels[n + 1]] if n % 6 == 0 else []) for n in np.unique(joined)}
    model = MaxMatchingMILClassifier(random_state=0)
    model.fit(rows, [both[n] for n in np.unique(joined)], groups=joined)
    assert (model.predict(rows, groups=joined, background="none") == truth).mean() > 0.9
    assert "alike in bags of every label" in " ".join(model.decisions_.reasons)


def test_who_knows_the_frequencies_alone_is_judged_by_them(shared):
    model, _ = shared
    # Once for the bag, once for its instances.
    expected = 2 * math.log(1 / N_CLASSES)
    assert model.decisions_.baselines["label frequencies"] == pytest.approx(expected, abs=0.02)


def test_no_instance_is_background_where_every_one_has_the_label_of_its_bag():
    rows, bag, labels, truth = draw_bags(11, with_rest=False)
    model = MaxMatchingMILClassifier(random_state=0).fit(rows, labels, groups=bag)
    assert (model.predict(rows, groups=bag, background="none") == truth).mean() > 0.95
    assert model.background_proba(rows).max() == 0.0
    assert "show no need for a background" in " ".join(model.decisions_.reasons)


def test_a_background_that_is_refused_is_not_taken():
    rows, bag, labels, _ = draw_bags(11)
    model = MaxMatchingMILClassifier(random_state=0, background=False)
    model.fit(rows, labels, groups=bag)
    assert model.background_proba(rows).max() == 0.0


def test_a_saved_model_and_the_snippet_answer_alike(shared, tmp_path):
    model, (rows, bag, labels, _) = shared
    expected = model.predict_proba(rows, groups=bag, background=True)
    model.save(tmp_path / "model")
    read = MaxMatchingMILClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(read.predict_proba(rows, groups=bag, background=True), expected)
    names: dict = {}
    exec(model.decisions_.snippet("MaxMatchingMILClassifier", random_state=0), names)
    again = names["model"].fit(rows, labels, groups=bag)
    found = again.predict_proba(rows, groups=bag, background=True)
    assert (found.argmax(axis=1) == expected.argmax(axis=1)).mean() > 0.97


def draw_log_odds(seed, n_columns):
    generator = np.random.default_rng(seed)
    bag = np.repeat(np.arange(6), 4)
    labels = np.eye(N_CLASSES, dtype=bool)[np.arange(6) % N_CLASSES]
    return generator.normal(size=(len(bag), n_columns)), labels, bag


@pytest.mark.parametrize("n_second", [0, 2])
def test_scale_and_shift_agree_with_a_plain_loop(n_second):
    log_odds, labels, bag = draw_log_odds(0, N_CLASSES + 1)
    labels = np.array(labels, dtype=bool)
    labels[:n_second] |= np.roll(labels[:n_second], 1, axis=1)
    part = bag < 5
    counts = [0.5 + sum(labels[b, y] for b in bag[part]) for y in range(N_CLASSES)]
    prior = [count / sum(counts) for count in counts]
    best, most = None, -math.inf
    for scale in SCALES:
        for shift in SHIFTS:
            told = []
            for row, b in zip(log_odds, bag, strict=True):
                weights = [math.exp(scale * value) for value in row]
                weights[-1] *= math.exp(shift)
                own = [y for y in range(N_CLASSES) if labels[b, y]]
                mine = sum(weights[y] + weights[-1] * prior[y] for y in own)
                told.append(math.log(mine / sum(weights)))
            mean = float(np.mean([value for value, is_in in zip(told, part, strict=True) if is_in]))
            if mean > most:
                best, most = (scale, shift, told), mean
    found = fit_shared_background(log_odds, labels, bag, part)
    assert (found.scale, found.shift) == best[:2]
    np.testing.assert_allclose(found.log_likelihood, best[2], atol=1e-9)


def test_the_share_is_what_the_least_likely_label_leaves():
    _, labels, bag = draw_log_odds(0, N_CLASSES)
    everything = np.ones(len(bag), dtype=bool)
    own = labels.argmax(axis=1)[bag]
    certain = 8.0 * np.eye(N_CLASSES)[own]
    assert background_share(certain, labels, bag, everything)[1] < 0.01
    certain[::2] = certain.mean()  # every second instance tells nothing
    told, share = background_share(certain, labels, bag, everything)
    assert 0.4 < share < 0.6
    assert told > math.log(1 / N_CLASSES)


def test_a_level_of_background_is_its_odds_against_the_mean_of_classes():
    log_p = torch.tensor([[0.7, 0.2, 0.1]]).double().log()
    found = with_background(log_p, 0.5)[0]
    assert float(found[-1] - found[:-1].mean()) == pytest.approx(0.5)
    assert float(found.exp().sum()) == pytest.approx(1.0)
