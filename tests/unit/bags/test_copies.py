"""Bags that are there more than once are on one side wherever bags are held out."""

import numpy as np

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags.audit import BagSource
from groupnoise.bags.copies import copies_of_bags, kept_together
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


def test_copies_are_known_in_any_order_of_their_instances():
    bags, _ = make_bags(4)
    found = copies_of_bags(Groups.from_lists([*bags, bags[2][::-1], 0.0 - (0.0 - bags[1])]))
    assert found.tolist() == [0, 1, 2, 3, 2, 1]
    nearly = bags[0].copy()
    nearly[0, 0] = np.nextafter(nearly[0, 0], 9.0)
    assert copies_of_bags(Groups.from_lists([*bags, nearly])) is None


def test_bags_of_few_categories_are_no_copies_if_they_are_alike():
    answers = np.random.default_rng(0).integers(0, 2, size=(60, 2, 3)).astype(float)
    assert copies_of_bags(Groups.from_lists(list(answers))) is None


def test_a_copy_brings_its_patient_along():
    patients = np.array(["ann", "ben", "ben", "cleo", "dan"])
    together = kept_together(patients, np.array([0, 1, 2, 2, 4]))
    assert (together[:, None] == together).tolist() == [
        [row == column or {row, column} <= {1, 2, 3} for column in range(5)] for row in range(5)
    ]
    assert kept_together(patients, None) is patients


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
