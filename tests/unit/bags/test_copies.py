"""Bags that share instances are on one side wherever bags are held out."""

import numpy as np
import pytest

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags.audit import BagSource
from groupnoise.bags.search.shared_instances import find_shared_instances, hold_out_clusters
from groupnoise.bags.setting import SETTING
from groupnoise.core.groups import Groups
from groupnoise.io.datasets import BagDataset
from groupnoise.io.description import describe


def make_bags(n_bags=30, seed=0, size=6):
    """Bags of which every second one has an instance that lies apart from the others."""
    generator = np.random.default_rng(seed)
    bags = generator.normal(size=(n_bags, size, 6))
    bags[1::2, 0] += 1.1
    return bags, np.arange(n_bags) % 2


def data_of(bags, label):
    labels = np.asarray(label)[:, None] == np.arange(2)
    return BagDataset("bags", Groups.from_lists(list(bags)), labels, ["no", "yes"])


def windows(generator, n_recordings, stride, n_windows=6, size=12):
    """Windows of recordings, each of which shares instances with the next ones, and their label."""
    length = size + stride * (n_windows - 1)
    rows = generator.normal(size=(n_recordings, length, 8))
    is_event = generator.random((n_recordings, length)) < 0.05
    rows += 2.0 * is_event[..., None]
    starts = stride * np.arange(n_windows)
    cut = [slice(start, start + size) for start in starts]
    bags = [recording[part] for recording in rows for part in cut]
    return bags, np.array([each[part].any() for each in is_event for part in cut]).astype(int)


def test_copies_are_known_in_any_order_of_their_instances():
    bags, _ = make_bags(6)
    copies = [bags[2][::-1], 0.0 - (0.0 - bags[1])]
    found = find_shared_instances(Groups.from_lists([*bags, *copies]))
    assert found.copies.tolist() == [0, 1, 2, 3, 4, 5, 2, 1]
    assert (found.n_copies, found.n_overlapping) == (2, 0)
    nearly = bags[0].copy()
    nearly[:, 0] = np.nextafter(nearly[:, 0], 9.0)
    assert find_shared_instances(Groups.from_lists([*bags, nearly])) is None


def test_bags_of_few_categories_are_no_copies_if_they_are_alike():
    answers = np.random.default_rng(0).integers(0, 2, size=(90, 2, 3)).astype(float)
    assert find_shared_instances(Groups.from_lists(list(answers))) is None


def test_an_instance_that_many_bags_hold_ties_none_together():
    bags, _ = make_bags(20)
    words = np.repeat(np.eye(6)[None, :4], 20, axis=0)
    assert find_shared_instances(Groups.from_lists(list(np.hstack([bags[:, :3], words])))) is None


def test_a_copy_brings_its_patient_along():
    bags, _ = make_bags(4)
    bags = Groups.from_lists([*bags[:3], bags[2], bags[3]])
    patients = np.array(["ann", "ben", "ben", "cleo", "dan"])
    together = hold_out_clusters(bags, patients)
    assert (together[:, None] == together).tolist() == [
        [row == column or {row, column} <= {1, 2, 3} for column in range(5)] for row in range(5)
    ]
    assert hold_out_clusters(bags.subset(np.arange(3)), patients[:3]) is not None
    assert hold_out_clusters(bags.subset(np.arange(3))) is None


def test_bags_that_overlap_are_held_out_together_and_a_fit_says_so():
    bags, label = windows(np.random.default_rng(2), 12, stride=3)
    together = hold_out_clusters(Groups.from_lists(bags))
    assert together.tolist() == np.repeat(np.arange(12), 6).tolist()
    # Whoever says which recording they come from has said all there is to say.
    assert find_shared_instances(Groups.from_lists(bags), together) is None
    model = MaxMatchingMILClassifier(budget=5, random_state=0).fit(bags, label, patients=together)
    assert not any("instances of another" in each for each in model.decisions_.reasons)
    alone = MaxMatchingMILClassifier(budget=5, random_state=0).fit(bags, label)
    said = "72 bags with half of the instances of another bag, or more: they are held out together."
    assert said in alone.decisions_.reasons


def test_bags_that_overlap_in_one_row_are_warned_of():
    bags, label = windows(np.random.default_rng(0), 1, stride=4, n_windows=40)
    assert hold_out_clusters(Groups.from_lists(bags)).tolist() == list(range(40))
    with pytest.warns(UserWarning, match="most bags overlap in a row"):
        MaxMatchingMILClassifier(budget=5, random_state=0).fit(bags, label)


def test_a_plain_fit_does_not_learn_copies_by_heart_and_says_what_it_found():
    bags, label = make_bags()
    label = label.copy()
    thrice, labels = np.concatenate([bags] * 3), np.concatenate([label] * 3)
    labels[60] = 1
    model = MaxMatchingMILClassifier(random_state=0, negative_label=0).fit(list(thrice), labels)
    said = "60 bags with the instances of an earlier bag, 1 of them under another label"
    assert any(reason.startswith(said) for reason in model.decisions_.reasons)
    new, truth = make_bags(100, seed=1)
    right = model.predict_bags(list(new)) == truth
    # With copies on both sides forests that know each bag by heart were taken: .65 in this draw.
    assert right.mean() > 0.7


def test_commands_hold_copies_out_together_and_describe_counts_them():
    bags, label = make_bags()
    data = data_of(np.concatenate([bags] * 2), np.concatenate([label] * 2))
    held = SETTING.hold_out(data, 0.3, 0)
    assert sorted(held % 30) == sorted([*set((held % 30).tolist())] * 2)
    assert BagSource(data).clusters.tolist() == [*range(30)] * 2
    assert "30 bags with the instances of an earlier bag" in describe(data).oddities
