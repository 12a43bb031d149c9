"""Reliability and true labels from votes, held to plain loops."""

import numpy as np
import pytest

from groupnoise.exceptions import DataError
from groupnoise.votes import DawidSkene, Votes, krippendorff_alpha
from reference import dawid_skene_by_loops

LABELS = ["cat", "dog", "eel"]


def simulated(n_rows=200, skills=(0.9, 0.8, 0.55), seed=0, answered=0.8):
    generator = np.random.default_rng(seed)
    truth = generator.integers(3, size=n_rows)
    entries = []
    for row in range(n_rows):
        for who, skill in enumerate(skills):
            if generator.random() > answered:
                continue
            other = (truth[row] + generator.integers(1, 3)) % 3
            said = LABELS[truth[row] if generator.random() < skill else other]
            entries.append((row, f"a{who}", said, None))
    names = [f"a{who}" for who in range(len(skills))]
    votes = Votes.from_entries(entries, n_rows, class_names=LABELS, annotator_names=names)
    return votes, truth


def with_sets(votes, seed=1):
    """The same votes, some of them for two labels or with a confidence."""
    generator = np.random.default_rng(seed)
    weights = votes.weights.copy()
    for vote in range(len(votes)):
        if generator.random() < 0.3:
            weights[vote, generator.integers(3)] += 0.5
    weights /= weights.sum(axis=1, keepdims=True)
    return Votes(votes.rows, votes.annotators, weights, votes.n_rows, LABELS, votes.annotator_names)


@pytest.mark.parametrize("change", [lambda votes: votes, with_sets])
def test_three_steps_are_those_of_plain_loops(change):
    votes = change(simulated(n_rows=40)[0])
    model = DawidSkene(max_iterations=3, tolerance=1e-300).fit(votes)
    belief, confusion = dawid_skene_by_loops(votes, n_steps=3, smoothing=model.smoothing)
    np.testing.assert_allclose(model.probabilities_, belief, atol=1e-10)
    np.testing.assert_allclose(model.confusion_, confusion, atol=1e-10)


def test_good_annotators_outvote_bad_ones():
    votes, truth = simulated(n_rows=600, skills=(0.95, 0.5, 0.5, 0.5))
    majority = (votes.totals().argmax(axis=1) == truth).mean()
    model = DawidSkene().fit(votes)
    assert (model.probabilities_.argmax(axis=1) == truth).mean() > majority + 0.03
    accuracy = model.reliability(votes).accuracy
    assert accuracy.argmax() == 0


def test_intervals_hold_the_true_accuracies():
    skills = (0.9, 0.8, 0.7, 0.6)
    votes, _ = simulated(n_rows=800, skills=skills)
    reliability = DawidSkene().fit(votes).reliability(votes)
    assert (reliability.accuracy_low - 0.03 <= skills).all()
    assert (skills <= reliability.accuracy_high + 0.03).all()
    assert (reliability.confusion_low <= reliability.confusion).all()
    assert (reliability.confusion <= reliability.confusion_high).all()


def test_who_was_never_seen_to_miss_is_not_certain_to_be_right():
    entries = [(row, who, "xy"[row % 2], None) for row in range(40) for who in "ab"]
    votes = Votes.from_entries(entries, 40)
    reliability = DawidSkene().fit(votes).reliability(votes)
    assert (reliability.accuracy_low < 0.97).all()
    assert (reliability.accuracy_high > 0.999).all()
    assert (reliability.confusion <= reliability.confusion_high).all()


def test_an_annotator_of_one_label_changes_little():
    votes, truth = simulated(n_rows=400, skills=(0.85, 0.85))
    entries = [
        (int(row), votes.annotator_names[who], LABELS[int(weights.argmax())], None)
        for row, who, weights in zip(votes.rows, votes.annotators, votes.weights, strict=True)
    ]
    stuck = [(row, "stuck", "cat", None) for row in range(400)]
    with_stuck = Votes.from_entries([*entries, *stuck], 400, class_names=LABELS)
    alone = DawidSkene().fit(votes).probabilities_.argmax(axis=1)
    together = DawidSkene().fit(with_stuck).probabilities_.argmax(axis=1)
    assert (together == truth).mean() > (alone == truth).mean() - 0.05


def test_a_thousand_votes_on_one_row_stay_finite():
    entries = [(0, f"a{n}", LABELS[n % 3], None) for n in range(1000)]
    assert np.isfinite(DawidSkene().fit(Votes.from_entries(entries, 1)).probabilities_).all()


def test_rows_without_votes_are_as_frequent_as_the_classes():
    votes = Votes.from_entries([(0, "a", "x", None), (1, "a", "x", None)], 3)
    assert DawidSkene().fit(votes).probabilities_[2].sum() == pytest.approx(1)


def test_a_prior_speaks_where_votes_are_silent():
    votes = Votes.from_entries([(0, "a", "x", None), (1, "a", "y", None)], 3)
    prior = [[0.5, 0.5], [0.5, 0.5], [0.1, 0.9]]
    model = DawidSkene().fit(votes, prior=prior)
    np.testing.assert_allclose(model.probabilities_[2], prior[2])
    with pytest.raises(DataError, match="shape"):
        DawidSkene().fit(votes, prior=[[1.0, 0.0]])


KRIPPENDORFF = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""


def test_alpha_of_the_textbook_table():
    rows = [line.split() for line in KRIPPENDORFF.strip().splitlines()]
    entries = [
        (unit, f"coder {coder}", value, None)
        for coder, values in enumerate(rows)
        for unit, value in enumerate(values)
        if value != "."
    ]
    assert krippendorff_alpha(Votes.from_entries(entries, 12)) == pytest.approx(0.743, abs=5e-4)


def test_alpha_by_hand():
    # Units xx, xy, yy: o_xx = 2, o_yy = 2, o_xy = o_yx = 1, n_x = n_y = 3; 1 - 5 * 2 / 18.
    pairs = ["xx", "xy", "yy"]
    entries = [(row, who, pair[who == "b"], None) for row, pair in enumerate(pairs) for who in "ab"]
    assert krippendorff_alpha(Votes.from_entries(entries, 3)) == pytest.approx(1 - 5 * 2 / 18)
    assert np.isnan(krippendorff_alpha(Votes.from_entries(entries[:1], 3)))


def test_a_vote_may_be_several_labels_weights_or_nothing():
    entries = [
        (0, "llm", ["x", "y"], None),
        (0, "person", {"x": 3, "y": 1}, None),
        (1, "llm", [], None),
        (1, "person", "x", 0.6),
    ]
    votes = Votes.from_entries(entries, 2)
    assert votes.class_names == ["x", "y"]
    np.testing.assert_allclose(votes.weights, [[0.5, 0.5], [0.75, 0.25], [0.8, 0.2]])
    assert votes.counts.tolist() == [2, 1]
    # Doubt about one label names no other.
    assert votes.candidates().tolist() == [[True, True], [True, False]]
    assert votes.take(votes.rows == 1).candidates().tolist() == [[False, False], [True, False]]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([(0, "a", "x", None), (0, "a", "y", None)], "row 0: 'a' voted twice, for 'x' and for 'y'"),
        (
            [(0, "a", "x", 0.7), (0, "a", "x", 0.9)],
            "for 'x' with confidence 0.7 and for 'x' with confidence 0.9",
        ),
        ([(0, "a", "z", None)], "row 0: 'a' names 'z', which is not one of the 2 labels"),
        ([(9, "a", "x", None)], "a vote of 'a' is about row 9 of 2 rows"),
        ([(0, "a", "x", 7)], "confidence of 'a' is 7"),
        ([(0, "a", {"x": -1}, None)], "weights are numbers of 0 or more"),
    ],
)
def test_bad_votes_are_one_sentence(entries, said):
    with pytest.raises(DataError, match=said):
        Votes.from_entries(entries, 2, class_names=["x", "y"])


def test_the_same_vote_twice_counts_once():
    said = []
    votes = Votes.from_entries([(0, "a", "x", None)] * 3, 1, report=said.append)
    assert len(votes) == 1
    assert said == [
        "2 votes were given more than once alike and counted once, the first by 'a' at row 0"
    ]


def test_rows_of_one_vote_each_keep_the_labels_that_were_said():
    generator = np.random.default_rng(0)
    said = generator.integers(3, size=200)
    entries = [(row, f"a{generator.integers(9)}", LABELS[k], None) for row, k in enumerate(said)]
    found = DawidSkene().fit(Votes.from_entries(entries, 200)).probabilities_
    assert (found.argmax(axis=1) == said).all()
