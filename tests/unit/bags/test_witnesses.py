"""Bags at a chosen witness rate."""

from dataclasses import replace

import numpy as np
import pytest

from groupnoise.bags import load_digit_bags, make_sival_like
from groupnoise.bags.witnesses import set_witness_rate
from groupnoise.exceptions import DataError, ParameterError


def rates(dataset):
    witnesses = np.add.reduceat(dataset.instance_labels >= 0, dataset.bags.offsets[:-1])
    return witnesses / dataset.bags.sizes


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.8, 1.0])
def test_every_bag_comes_as_near_to_the_rate_as_whole_instances_allow(rate):
    dataset = set_witness_rate(make_sival_like(3, random_state=0), rate, random_state=0)
    reached = rates(dataset)
    assert (reached > 0).all()
    near = np.abs(reached - rate) < 0.5 / dataset.bags.sizes + 0.15
    assert near.all()
    assert reached.mean() == pytest.approx(rate, abs=0.05)


def test_pictures_and_truth_stay_with_their_instances():
    before = load_digit_bags(20, witness_rate=0.5, random_state=0)
    after = set_witness_rate(before, 0.3, random_state=0)
    np.testing.assert_array_equal(after.images.reshape(-1, 64), after.bags.objects)
    truth_of = {
        row.tobytes(): label
        for row, label in zip(before.bags.objects, before.instance_labels, strict=True)
    }
    for row, label in zip(after.bags.objects, after.instance_labels, strict=True):
        assert truth_of[row.tobytes()] == label


def test_one_witness_of_each_class_of_a_multi_label_bag_remains():
    single = load_digit_bags(1, size=(12, 12), n_classes=6, random_state=0)
    truth = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, -1, -1, -1])
    labels = np.zeros((1, 6), dtype=bool)
    labels[0, :3] = True
    dataset = replace(single, labels=labels, instance_labels=truth)
    after = set_witness_rate(dataset, 0.1, random_state=0)
    assert sorted(after.instance_labels.tolist()) == [-1, -1, -1, 0, 1, 2]


def test_a_bag_without_a_witness_is_refused_by_number():
    dataset = load_digit_bags(5, random_state=0)
    truth = dataset.instance_labels.copy()
    truth[dataset.bags.group_of_object == 3] = -1
    with pytest.raises(DataError, match="bag 3 of digit bags has no known witness"):
        set_witness_rate(replace(dataset, instance_labels=truth), 0.5)


def test_bags_without_instance_labels_are_refused():
    dataset = replace(load_digit_bags(5, random_state=0), instance_labels=None)
    with pytest.raises(DataError, match="has no instance labels"):
        set_witness_rate(dataset, 0.5)


def test_a_rate_of_zero_is_refused():
    with pytest.raises(ParameterError, match="rate must be above 0"):
        set_witness_rate(load_digit_bags(5, random_state=0), 0.0)
