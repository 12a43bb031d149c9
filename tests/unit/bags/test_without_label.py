"""Bags without any label: what they teach, and that a bag may be answered with none."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reference
from groupnoise import MaxMatchingMILClassifier, load_model
from groupnoise.bags.baselines import MiNetClassifier
from groupnoise.bags.evaluation import evaluate_bags
from groupnoise.bags.search.members import LIKELIHOODS, MemberSettings, bag_loss, make_problem
from groupnoise.core.groups import Groups
from groupnoise.exceptions import ParameterError
from groupnoise.io.datasets import BagDataset

CLASSES = np.array(["ant", "bee", "cat"])
CENTRES = np.array([[3.0, 0.0], [-3.0, 1.5], [0.0, -3.0], [0.0, 0.0]])
ONE = [(1.0, {"weight_decay": 0.03})]
"""One member, not chosen among many."""


def drawn(n_bags, seed, most=2):
    """Bags of six points: each label has one near its centre, the others lie in the middle."""
    generator = np.random.default_rng(seed)
    bags, labels, truth = [], np.zeros((n_bags, 3), dtype=bool), []
    for number in range(n_bags):
        own = generator.choice(3, size=generator.integers(most + 1), replace=False)
        kinds = np.concatenate([own, np.full(6 - len(own), 3)])
        bags.append(CENTRES[kinds] + 0.6 * generator.normal(size=(6, 2)))
        labels[number, own] = True
        truth.append(np.where(kinds == 3, -1, kinds))
    return bags, labels, np.concatenate(truth)


def named(labels):
    return [set(CLASSES[row]) for row in labels]


@pytest.fixture(scope="module")
def fitted():
    bags, labels, _ = drawn(60, 0)
    return MaxMatchingMILClassifier(ensemble=ONE, random_state=0).fit(bags, named(labels))


def test_a_bag_without_a_label_is_all_background(fitted, tmp_path):
    bags, labels, truth = drawn(150, 1)
    none = ~labels.any(axis=1)
    assert fitted.classes_.tolist() == CLASSES.tolist()
    assert fitted.negative_label_ is None
    assert "20 bags have no label: every instance of such a bag is background." in (
        fitted.decisions_.reasons
    )
    found = fitted.predict_bags(bags)
    assert (found == labels).all(axis=1).mean() > 0.9
    assert (~found.any(axis=1))[none].mean() > 0.9  # not the likeliest label in any case
    answers = fitted.predict(bags, background="nothing")
    expected = np.append(CLASSES, "nothing")[truth]
    assert (answers == expected).mean() > 0.95
    fitted.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_bags(bags), found)
    np.testing.assert_array_equal(loaded.background_proba(bags), fitted.background_proba(bags))


def test_a_matrix_of_labels_may_have_empty_rows(fitted):
    bags, labels, _ = drawn(60, 0)
    by_matrix = MaxMatchingMILClassifier(ensemble=ONE, random_state=0).fit(bags, labels.astype(int))
    np.testing.assert_allclose(by_matrix.bag_proba(bags), fitted.bag_proba(bags))


def test_bags_of_at_most_one_label_are_answered_with_one_or_none():
    bags, labels, _ = drawn(60, 2, most=1)
    model = MaxMatchingMILClassifier(ensemble=ONE, random_state=0).fit(bags, named(labels))
    new, expected, _ = drawn(150, 3, most=1)
    found = model.predict_bags(new)
    assert found.sum(axis=1).max() == 1
    assert (found == expected).all(axis=1).mean() > 0.9
    proba = model.bag_proba(new)
    assert (proba.sum(axis=1) < 1).all()
    np.testing.assert_array_equal(proba.sum(axis=1) < 0.5, ~found.any(axis=1))


def test_a_negative_class_is_answered_where_no_other_is_likelier_than_not():
    bags, labels, _ = drawn(60, 0)
    words = [set(CLASSES[row]) or {"none"} for row in labels]
    model = MaxMatchingMILClassifier(ensemble=ONE, random_state=0).fit(bags, words)
    assert model.negative_label_ == "none"
    column = model.classes_.tolist().index("none")
    found = model.predict_bags(bags)
    named_too = np.delete(found, column, axis=1).any(axis=1)
    np.testing.assert_array_equal(found[:, column], ~named_too)
    # Cells without a word mean the same beside that class.
    some = [each if number % 2 else each - {"none"} for number, each in enumerate(words)]
    again = MaxMatchingMILClassifier(ensemble=ONE, random_state=0).fit(bags, some)
    np.testing.assert_array_equal(again.predict_bags(bags), found)


def test_sets_and_questions_leave_bags_without_a_label_out(fitted):
    bags, labels, truth = drawn(150, 1)
    inside = fitted.predict_bag_set(bags, 0.1)
    assert inside[labels].mean() > 0.85
    assert not fitted.abstain(np.concatenate(bags)[truth >= 0], 0.2).all()
    fitted.calibrate(bags, named(labels))
    fitted.calibrate_sets(bags, named(labels))
    assert np.isfinite(fitted.set_calibration_.belief).all()
    assert np.isfinite(fitted.bag_set_calibration_.belief).all()
    asked = fitted.query(bags, named(labels), 20)
    assert labels[asked // 6].any(axis=1).all()


@pytest.mark.parametrize("likelihood", [each for each in LIKELIHOODS if each != "mixture"])
def test_the_likelihood_of_no_label_is_that_every_one_is_absent(likelihood):
    generator = torch.Generator().manual_seed(0)
    sizes, n_named = [2, 3, 1], 2
    logits = torch.randn(sum(sizes), 1, n_named + 1, generator=generator, dtype=torch.float64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    labels = np.zeros((3, n_named), dtype=bool)
    problem = make_problem(Groups(np.zeros((sum(sizes), 1)), offsets), labels, has_negative=True)
    found = bag_loss(
        logits,
        problem,
        torch.from_numpy(labels)[:, None],
        MemberSettings(likelihood),
        torch.ones(3, 1, dtype=torch.bool),
        0.5,
    )
    by_hand = []
    for part in torch.split(logits[:, 0].softmax(-1), sizes):
        free = part[:, -1]
        if likelihood == "label_set":
            loss = -reference.set_likelihood(list(part), [], 1).log()
        elif likelihood == "inherited":
            loss = -sum(p.log() for p in free) / len(free)
        elif likelihood == "matching":  # nothing to match: the absent-class term alone
            loss = -0.5 * sum(p.log() for p in free) / len(free)
        else:
            present = getattr(reference, f"present_{likelihood}")
            loss = -sum((1.0 - present(list(part[:, k]))).log() for k in range(n_named))
        by_hand.append(loss)
    torch.testing.assert_close(found[:, 0], torch.stack(by_hand))


def test_the_training_loop_learns_of_them_by_background_alone():
    bags, labels, _ = drawn(60, 0)
    loop = {"absent_strength": 1.0, "max_epochs": 30, "random_state": 0}
    new, _, truth = drawn(60, 1)
    right = []
    for kept in (labels.any(axis=1), np.ones(60, dtype=bool)):
        model = MaxMatchingMILClassifier(background=True, **loop)
        model.fit([bags[row] for row in np.flatnonzero(kept)], named(labels[kept]))
        outside = model.predict(new, background="nothing") == "nothing"
        right.append((outside == (truth < 0)).mean())
    assert right[0] < 0.5
    assert right[1] > 0.85
    loop["max_epochs"] = 1
    balanced = MaxMatchingMILClassifier(background=True, class_weight="balanced", **loop)
    assert np.isfinite(balanced.fit(bags, named(labels)).background_proba(new)).all()
    with pytest.warns(UserWarning, match="20 of 60 bags have no label.*background=True"):
        MaxMatchingMILClassifier(background=False, **loop).fit(bags, named(labels))


def test_a_word_for_no_label_is_no_class_to_name():
    bags, labels, _ = drawn(20, 0)
    model = MaxMatchingMILClassifier(ensemble=ONE, negative_label="none", random_state=0)
    model.fit(bags, named(labels))
    assert model.negative_label_ is None
    with pytest.raises(ParameterError, match="'elk' is none of the labels"):
        model.set_params(negative_label="elk").fit(bags, named(labels))


@pytest.mark.parametrize("baseline", [False, True])
def test_evaluation_counts_bags_without_a_label_in_sets(fitted, baseline):
    bags, labels, truth = drawn(80, 4)
    model = fitted
    if baseline:
        training, given, _ = drawn(60, 0)
        model = MiNetClassifier(max_epochs=30, hidden=16, learning_rate=0.01, random_state=0)
        model.fit(training, named(given))
    n_without = int((~labels.any(axis=1)).sum())
    data = BagDataset("drawn", Groups.from_lists(bags), labels, CLASSES.tolist(), truth)
    result = evaluate_bags(model, data)
    assert result.counts["bags without a label"] == n_without
    assert any(note.startswith(f"{n_without} of 80 bags have no label") for note in result.notes)
    found = model.predict_bags(data.bags)
    none, said = ~labels.any(axis=1), ~found.any(axis=1)
    figures = result.per_class["(no label)"]
    assert figures["bags"] == n_without
    assert figures["bag recall"] == pytest.approx(said[none].mean())
    assert figures["bag precision"] == pytest.approx(none[said].mean())
    assert result.metrics["bag exact match"] == pytest.approx((found == labels).all(axis=1).mean())
    n_background = int((truth < 0).sum())
    assert any(f"{n_background} of 480 instances are background" in note for note in result.notes)
