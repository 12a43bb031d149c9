"""Students of the members taken: what they learn from, how they are judged, saved and left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from tests import reference

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags.search import self_training
from groupnoise.bags.search.held_out_bags import HeldOutBags, HeldOutPredictions
from groupnoise.bags.search.members import BagProblem, MemberSettings
from groupnoise.bags.search.self_training import (
    BagKernel,
    StudentTrainingSet,
    draw_student_bags,
    labels_within_bags,
    rows_of_bags,
    train_student_model,
)
from groupnoise.bags.search.students import held_out_student, share_of_student
from groupnoise.core.groups import Groups
from groupnoise.core.quantifier import Segments
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.exceptions import ParameterError

SETTINGS = MemberSettings("pseudo_labels", "standard", "kernel", weight_decay=0.1, width=2.0)


def rings(n_bags=120, seed=0):
    """Bags of three points of three rings round the origin, which no line tells apart."""
    draw = np.random.default_rng(seed)
    truth = draw.integers(3, size=3 * n_bags)
    angle = draw.uniform(0, 2 * np.pi, size=len(truth))
    radius = np.array([0.5, 1.6, 2.7])[truth] + draw.normal(scale=0.15, size=len(truth))
    rows = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    labels = np.zeros((n_bags, 3), dtype=bool)
    labels[np.repeat(np.arange(n_bags), 3), truth] = True
    # Two labels of a bag at most are known of, so that each tells something.
    keep = labels.sum(axis=1) <= 2
    own = np.repeat(keep, 3)
    n_kept = int(keep.sum())
    return Groups(rows[own], 3 * np.arange(n_kept + 1)), labels[keep], truth[own]


def unsure(truth, n_targets, seed=0, right=0.6):
    """What a teacher says that is right about so often, and never sure."""
    draw = np.random.default_rng(seed)
    said = np.where(
        draw.random(len(truth)) < right, truth, draw.integers(n_targets, size=len(truth))
    )
    log_p = np.where(np.arange(n_targets) == said[:, None], 1.5, 0.0)
    return log_p - np.logaddexp.reduce(log_p, axis=1, keepdims=True)


@pytest.mark.parametrize("n_free", [0, 1])
def test_labels_within_bags_are_those_of_loops(n_free):
    draw = np.random.default_rng(0)
    sizes, labels = np.array([3, 1, 4]), np.array([[1, 1, 0], [0, 1, 0], [1, 0, 1]], dtype=bool)
    bag = np.repeat(np.arange(3), sizes)
    p = draw.dirichlet(np.ones(3 + n_free), size=8)
    found = labels_within_bags(np.log(p), labels, bag, 4)
    for number in range(3):
        part = bag == number
        own = {"labels": np.flatnonzero(labels[number]).tolist(), "free": [3][:n_free]}
        if part.sum() == 1:  # its one instance must have its one label
            np.testing.assert_allclose(found[part, own["labels"]], 1.0, atol=1e-4)
            continue
        expected = reference.labels_within_bag(p[part].tolist(), own, 4)
        np.testing.assert_allclose(found[part], expected, atol=1e-8)


def test_a_label_that_no_other_instance_has_is_likelier():
    log_p = np.log([[0.4, 0.6], [0.05, 0.95], [0.05, 0.95]])
    found = labels_within_bags(log_p, np.array([[True]]), np.zeros(3, dtype=int))
    assert found[0, 0] > 0.7
    assert found[1, 0] < 0.2
    nothing = labels_within_bags(log_p, np.array([[False]]), np.zeros(3, dtype=int))
    np.testing.assert_allclose(nothing, [[0.0, 1.0]] * 3)


def test_a_kernel_without_a_bag_is_one_that_never_saw_it(monkeypatch):
    monkeypatch.setattr(self_training, "N_LANDMARKS", 12)
    draw = np.random.default_rng(0)
    rows, bag = draw.normal(size=(30, 3)), np.repeat(np.arange(8), [1, 4, 4, 4, 4, 4, 4, 5])
    targets = draw.random((30, 2))
    kernel = BagKernel(rows, bag, 2.0, 0.1, seed=0)
    found = kernel.leave_bags_out(targets)
    penalty = np.diag([*[0.1] * (kernel.features.shape[1] - 1), 1e-6])
    for number in range(8):
        seen, own = kernel.features[bag != number], kernel.features[bag == number]
        solved = np.linalg.solve(seen.T @ seen + penalty, seen.T @ targets[bag != number])
        np.testing.assert_allclose(found[bag == number], own @ solved, atol=1e-8)
    encoder = kernel.encoder(kernel.solve(targets))
    said = encoder(torch.from_numpy(rows).float()).detach().numpy()
    np.testing.assert_allclose(said, kernel.features @ kernel.solve(targets), atol=1e-4)


def test_a_student_tells_more_than_its_teacher():
    bags, labels, truth = rings(100)
    log_p = unsure(truth, 3)
    training_set = StudentTrainingSet(bags.objects, log_p, labels, bags.group_of_object)
    model = train_student_model(training_set, SETTINGS, seed=0)
    new, _, new_truth = rings(100, seed=1)
    with torch.no_grad():
        logits = model.logits(
            model.encode_objects(torch.from_numpy(new.objects).float()), torch.arange(3)
        )
    assert np.mean(log_p.argmax(axis=1) == truth) < 0.8
    assert np.mean(logits.numpy().argmax(axis=1) == new_truth) > 0.9


def answers_of(truth, folds, n_copies, bag, seed=0):
    copies = np.stack([unsure(truth, 3, seed + one) for one in range(n_copies)], axis=1)
    own = copies[np.arange(len(truth)), folds[bag]]
    return HeldOutPredictions(
        np.zeros((len(folds), 3)),
        1.0,
        0.0,
        np.zeros(len(folds)),
        log_p=torch.from_numpy(own).float(),
        copies=torch.from_numpy(copies).float(),
    )


def test_a_student_knows_nothing_of_bags_that_are_held_out():
    bags, labels, truth = rings()
    folds = np.arange(len(bags)) % 3
    other = labels.copy()
    other[folds == 0] = np.roll(labels[folds == 0], 1, axis=1)
    said = answers_of(truth, folds, 3, bags.group_of_object)
    rows = torch.from_numpy(bags.objects).float()
    found = []
    for each in (labels, other):
        problem = BagProblem(Segments(torch.from_numpy(np.asarray(bags.sizes))), each, False)
        judge = HeldOutBags(problem, exclusive=False)
        student = held_out_student(SETTINGS, [(said, 1.0)], judge, rows, folds, 0)
        found.append(student.log_p[torch.from_numpy(folds[bags.group_of_object] == 0)])
    assert torch.equal(*found)


def test_a_student_counts_by_what_it_tells_of_held_out_bags():
    bags, labels, truth = rings()
    problem = BagProblem(Segments(torch.from_numpy(np.asarray(bags.sizes))), labels, False)
    judge = HeldOutBags(problem, exclusive=False)
    part = np.ones(len(bags), dtype=bool)

    def said(right):
        log_p = torch.from_numpy(unsure(truth, 3, 4, right)).float()
        odds = np.maximum.reduceat(log_p.numpy(), bags.offsets[:-1], axis=0).astype(float)
        of_bags = judge.evaluate_bag_odds(odds + 0.7, part)
        return replace(of_bags, log_p=log_p)

    good, bad = said(0.95), said(0.3)
    assert share_of_student(judge, [(bad, 1.0)], good) > 0.45
    assert share_of_student(judge, [(good, 1.0)], bad) < 0.15


def test_a_training_set_of_a_student_is_bounded_and_made_of_whole_bags(monkeypatch):
    monkeypatch.setattr(self_training, "MAX_ROWS", 100)
    monkeypatch.setattr(self_training, "MAX_BAG_ROWS", 30)
    sizes = np.r_[np.full(40, 3), 31]
    part = draw_student_bags(sizes, seed=0)
    assert len(part) == 33
    assert 40 not in part
    assert len(draw_student_bags(np.full(40, 31), seed=0)) == 0
    assert len(draw_student_bags(np.full(40, 10), seed=0)) == 0
    segments = Segments(torch.tensor([2, 3, 1]))
    place, bag = rows_of_bags(segments, np.array([0, 2]))
    assert place.tolist() == [0, 1, 5]
    assert bag.tolist() == [0, 0, 1]


def fitted(**parameters):
    bags, labels, truth = rings()
    model = MaxMatchingMILClassifier(random_state=0, background=False, **parameters)
    return model.fit(bags, labels), bags, labels, truth


def test_a_default_fit_takes_a_student_and_keeps_it_in_files(tmp_path):
    model, bags, labels, _ = fitted()
    taken = {each["likelihood"]: weight for weight, each in model.decisions_.members}
    assert taken["pseudo_labels"] > 0.2
    assert "self-training" in model.decisions_.summary()
    new, _, new_truth = rings(seed=1)
    assert np.mean(model.predict(new) == new_truth) > 0.9
    model.save(tmp_path / "model")
    again = MaxMatchingMILClassifier.load(tmp_path / "model")
    np.testing.assert_allclose(again.predict_proba(new), model.predict_proba(new), atol=1e-6)
    repeated = MaxMatchingMILClassifier(ensemble=model.decisions_.members, random_state=0)
    repeated.fit(bags, labels)
    assert np.mean(repeated.predict(new) == model.predict(new)) > 0.95


def test_who_asks_for_members_gets_no_student():
    model, *_ = fitted(encoder="identity")
    assert all(each["likelihood"] != "pseudo_labels" for _, each in model.decisions_.members)


def test_a_student_needs_somebody_to_learn_from():
    bags, labels, _ = rings(20)
    alone = [(1.0, {"likelihood": "pseudo_labels", "encoder": "kernel"})]
    with pytest.raises(ParameterError, match="learn from others"):
        MaxMatchingMILClassifier(ensemble=alone).fit(bags, labels)


def test_bags_that_are_read_from_disk_have_no_student():
    bags, labels, _ = rings()
    streamed = StreamedGroups(bags.objects, bags.offsets)
    given = [
        (0.5, {"likelihood": "noisy_or"}),
        (0.5, {"likelihood": "pseudo_labels", "encoder": "kernel", "width": 2.0}),
    ]
    model = MaxMatchingMILClassifier(ensemble=given, random_state=0).fit(streamed, labels)
    assert len(model.ensemble_.members) == 1
