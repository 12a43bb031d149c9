"""A few true labels beside candidates."""

import numpy as np
import pytest

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.exceptions import DataError


def pairs(seed=0, n_rows=240):
    """Rows of four classes that were always labelled in two pairs: candidates tell no two apart."""
    generator = np.random.default_rng(seed)
    truth = np.arange(n_rows) % 4
    rows = 2 * np.eye(4)[truth] + 0.5 * generator.normal(size=(n_rows, 4))
    names = np.array(list("abcd"))
    candidates = [{names[2 * (y // 2)], names[2 * (y // 2) + 1]} for y in truth]
    return rows, candidates, names[truth]


def some_known(truth, n_known):
    return [label if number < n_known else None for number, label in enumerate(truth.tolist())]


@pytest.mark.parametrize(
    "model",
    [
        MaxMatchingPartialLabelClassifier.fixed(encoder="kernel", random_state=0),
        MaxMatchingPartialLabelClassifier.fixed(encoder="linear", max_epochs=30, random_state=0),
        MaxMatchingPartialLabelClassifier(encoder="kernel", random_state=0),
    ],
    ids=["kernel", "linear", "searched"],
)
def test_a_few_true_labels_tell_apart_what_candidates_never_do(model):
    rows, candidates, truth = pairs()
    without = model.fit(rows, candidates).score(rows[40:], truth[40:])
    taught = model.fit(rows, candidates, truth=some_known(truth, 40)).score(rows[40:], truth[40:])
    assert taught > 0.9 > without


def test_gaps_may_be_none_nan_or_empty_and_change_nothing():
    rows, candidates, _ = pairs(n_rows=60)
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="kernel", random_state=0)
    plain = model.fit(rows, candidates).predict_proba(rows)
    gaps = [None, float("nan"), ""] * 20
    assert np.array_equal(model.fit(rows, candidates, truth=gaps).predict_proba(rows), plain)


def test_a_true_label_stands_where_it_was_no_candidate_and_had_no_weight():
    rows, _, truth = pairs(n_rows=80)
    wrong = [{"a", "b"} if label in "cd" else {"c", "d"} for label in truth]
    weights = np.array([[label in each for label in "abcd"] for each in wrong], dtype=float)
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="kernel", random_state=0)
    model.fit(rows, wrong, candidate_weights=weights, truth=truth)
    assert model.score(rows, truth) > 0.9


@pytest.mark.parametrize(
    ("truth", "sentence"),
    [
        (["a"], "truth has length 1 for 60 rows"),
        ([None] * 59 + ["x"], "truth says 'x' of number 59 of the rows, which is none of the lab"),
    ],
)
def test_what_cannot_be_the_truth_is_refused(truth, sentence):
    rows, candidates, _ = pairs(n_rows=60)
    with pytest.raises(DataError, match=sentence):
        MaxMatchingPartialLabelClassifier.fixed().fit(rows, candidates, truth=truth)


def test_rows_that_are_known_are_not_asked_about():
    rows, candidates, truth = pairs(n_rows=60)
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="kernel", random_state=0)
    model.fit(rows, candidates)
    first = model.query(rows, candidates, 10)
    known = [truth[row] if row in first else None for row in range(60)]
    assert not set(first) & set(model.query(rows, candidates, 50, truth=known))
