"""Labels averaged over what annotators may be like: as sure as they are right."""

import numpy as np
import pandas as pd
import pytest

from groupnoise.votes import Votes, resolve
from groupnoise.votes.dawid_skene import expected_counts, vote_posterior
from groupnoise.votes.gibbs import VoteCounter, gibbs_posterior, grade_similarity
from groupnoise.votes.inference import infer_labels


def votes_of(skills, seed, *, n_lazy=0, n_classes=3, n_rows=200):
    """Rows of even classes, annotators of some skills, and some who say one thing."""
    generator = np.random.default_rng([seed, len(skills), n_lazy, n_classes])
    truth = generator.integers(n_classes, size=n_rows)
    entries = []
    for who, skill in enumerate(skills):
        other = (truth + generator.integers(1, n_classes, size=n_rows)) % n_classes
        said = np.where(generator.random(n_rows) < skill, truth, other)
        entries += [(row, f"a{who}", str(label), None) for row, label in enumerate(said)]
    for who in range(n_lazy):
        said = np.where(generator.random(n_rows) < 0.98, 0, truth)
        entries += [(row, f"lazy{who}", str(label), None) for row, label in enumerate(said)]
    return Votes.from_entries(entries, n_rows), truth


@pytest.mark.parametrize(("n_lazy", "most"), [(0, 0.04), (1, 0.05)])
def test_expected_and_real_errors_agree_with_and_without_somebody_lazy(n_lazy, most):
    gaps = []
    for seed, skills in enumerate([(0.85, 0.65), (0.8, 0.75), (0.9, 0.7, 0.65), (0.8, 0.8, 0.6)]):
        votes, truth = votes_of(skills, seed, n_lazy=n_lazy)
        probabilities = infer_labels(votes, None).probabilities
        is_right = probabilities.argmax(axis=1) == truth
        gaps.append(probabilities.max(axis=1).mean() - is_right.mean())
    assert abs(np.mean(gaps)) < most
    assert max(gaps) < 0.1


def test_of_two_who_differ_neither_is_taken_to_be_right():
    votes, _ = votes_of((0.75, 0.75), 0)
    said = votes.weights.argmax(axis=1).reshape(2, -1)
    differ = said[0] != said[1]
    probabilities = infer_labels(votes, None).probabilities[differ]
    assert 0.4 < probabilities.max(axis=1).mean() < 0.7


def test_somebody_lazy_makes_no_label_frequent():
    votes, _ = votes_of((0.72, 0.6), 1, n_lazy=1, n_classes=2)
    probabilities, confusion = gibbs_posterior(votes)
    assert 0.3 < probabilities[:, 0].mean() < 0.7
    assert confusion[2, 1, 0] > 0.8


def test_labels_that_nobody_names_change_nothing():
    votes, _ = votes_of((0.8, 0.7, 0.7), 0)
    spare = Votes.from_entries(
        [(row, votes.annotator_names[who], votes.class_names[k], None)
         for row, who, k in zip(votes.rows, votes.annotators, votes.weights.argmax(axis=1),
                                strict=True)],
        votes.n_rows, class_names=["none", *votes.class_names],
    )  # fmt: skip
    truth = np.full(votes.n_rows, -1)
    truth[:5] = 1
    plain = gibbs_posterior(votes, truth=np.where(truth >= 0, truth - 1, -1))
    wide = gibbs_posterior(spare, truth=truth)
    np.testing.assert_allclose(wide[0][:, 1:], plain[0])
    np.testing.assert_allclose(wide[1][:, 1:, 1:], plain[1])


def test_plain_votes_are_counted_as_any_others_are():
    votes, truth = votes_of((0.8, 0.7), 3, n_lazy=1)
    generator = np.random.default_rng(0)
    confusion = generator.dirichlet(np.ones(3), size=(3, 3))
    log_prior = np.log([0.2, 0.3, 0.5])
    counted = VoteCounter(votes)
    np.testing.assert_allclose(
        counted.posterior(confusion, log_prior), vote_posterior(votes, confusion, log_prior)
    )
    np.testing.assert_allclose(
        counted.counts(truth, confusion), expected_counts(votes, np.eye(3)[truth], confusion)
    )


def test_an_annotator_who_nearly_always_says_one_thing_is_named():
    votes, _ = votes_of((0.9, 0.8), 0, n_lazy=1)
    said = votes.weights.argmax(axis=1).reshape(3, -1)
    names = ["cat", "dog", "emu"]
    frame = pd.DataFrame({who: [names[k] for k in said[n]] for n, who in enumerate("abc")})
    (note,) = (note for note in resolve(frame, annotators="a,b,c").notes if "count little" in note)
    assert note.startswith("annotator 'c' said 'cat' in 199 of 200 votes, others in 35%")
    frame["a"] = frame["b"] = frame["c"]  # where all say it, it is frequent
    notes = resolve(frame, annotators="a,b,c").notes
    assert not any("count little" in note for note in notes)


def stars(n_rows=240, n_people=3, seed=0, n_lazy=0):
    """Grades from 1 to 5 that annotators miss by a little."""
    generator = np.random.default_rng([seed, n_people])
    truth = generator.integers(1, 6, size=n_rows)
    said = [
        np.clip(np.rint(truth + generator.normal(scale=0.8, size=n_rows)), 1, 5).astype(int)
        for _ in range(n_people)
    ] + [np.full(n_rows, 4)] * n_lazy
    return pd.DataFrame({f"rater{n}": votes for n, votes in enumerate(said)}), truth


@pytest.mark.parametrize("n_lazy", [0, 1])
def test_grades_that_annotators_miss_by_one_are_known_as_grades(n_lazy):
    table, truth = stars(n_lazy=n_lazy)
    found = resolve(table)
    assert any("labels '1' to '5' are taken as grades" in note for note in found.notes)
    label = np.array([int(cell) for cell in found.columns["label"]])
    majority = found.votes.totals().argmax(axis=1) + 1
    assert np.mean(label == truth) > np.mean(majority == truth) + 0.05
    assert abs(np.mean(found.columns["probability"]) - np.mean(label == truth)) < 0.08


def test_numbers_that_are_taken_for_any_other_are_no_grades():
    for seed in range(5):
        votes, _ = votes_of((0.7, 0.7, 0.6), seed, n_classes=5)
        assert grade_similarity(votes) is None
    words = stars()[0].map(lambda grade: "abcde"[grade - 1])
    assert not any("grades" in note for note in resolve(words).notes)


def test_grades_in_a_frame_are_votes_under_any_names_with_gaps():
    table, _ = stars()
    table.columns = ["Anna", "Ben", "Carl"]
    table.loc[::7, "Ben"] = np.nan
    found = resolve(table.assign(price=np.sin(range(240))))
    assert found.votes.annotator_names == ["Anna", "Ben", "Carl"]
    assert found.votes.class_names == [*"12345"]
    assert len(found.votes) == 3 * 240 - 35
