"""Handwritten digits as bags and as candidate labels."""

import numpy as np
import pytest

from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.exceptions import ParameterError
from groupnoise.io import single_label

PARTS = ("train", "validation", "test")


def test_each_bag_holds_exactly_one_digit_of_its_class_and_none_of_another():
    dataset = load_digit_bags(60, part="train", random_state=0)
    bag_class = single_label(dataset.labels)[dataset.bags.group_of_object]
    is_witness = dataset.instance_labels == bag_class
    assert (np.add.reduceat(is_witness, dataset.bags.offsets[:-1]) == 1).all()
    assert (dataset.instance_labels[~is_witness] == -1).all()


def test_witness_rate_sets_the_share_of_witnesses():
    dataset = load_digit_bags(40, size=(10, 10), witness_rate=0.4, random_state=0)
    witnesses = np.add.reduceat(dataset.instance_labels >= 0, dataset.bags.offsets[:-1])
    assert (witnesses == 4).all()


def test_classes_share_the_bags_evenly_and_sizes_keep_their_range():
    dataset = load_digit_bags(60, size=(3, 5), n_classes=5, random_state=1)
    assert dataset.labels.sum(axis=0).tolist() == [12] * 5
    assert set(dataset.bags.sizes) == {3, 4, 5}


def test_parts_share_no_picture_whatever_the_seed():
    pictures = {}
    for seed, part in enumerate(PARTS):
        bags = load_digit_bags(200, part=part, random_state=seed)
        rows = load_digit_candidates(part=part, random_state=seed)
        pictures[part] = {row.tobytes() for row in (*bags.bags.objects, *rows.features)}
    assert pictures["train"].isdisjoint(pictures["test"])
    assert pictures["train"].isdisjoint(pictures["validation"])
    assert pictures["validation"].isdisjoint(pictures["test"])


def test_background_of_a_bag_is_more_alike_when_correlated():
    def spread(correlated):
        dataset = load_digit_bags(60, correlated=correlated, random_state=0)
        background = [
            dataset.bags[row][dataset.instance_labels[start:stop] == -1].std(axis=0).mean()
            for row, (start, stop) in enumerate(
                zip(dataset.bags.offsets[:-1], dataset.bags.offsets[1:], strict=True)
            )
        ]
        return np.mean(background)

    assert spread(correlated=True) < 0.8 * spread(correlated=False)


def test_a_bag_larger_than_the_pool_of_its_class_repeats_digits():
    dataset = load_digit_bags(6, size=(80, 80), witness_rate=1.0, part="test", random_state=0)
    assert (dataset.instance_labels >= 0).all()


def test_candidates_hold_the_truth_and_the_asked_number_of_distractors():
    dataset = load_digit_candidates(n_distractors=(1, 3), random_state=0)
    rows = np.arange(len(dataset.truth))
    assert dataset.candidates[rows, dataset.truth].all()
    assert set(dataset.candidates.sum(axis=1)) == {2, 3, 4}


def test_look_alikes_are_drawn_more_often_than_chance():
    dataset = load_digit_candidates(n_distractors=1, random_state=0)
    is_three = dataset.truth == 3
    assert dataset.candidates[is_three, 8].mean() > 3 * dataset.candidates[is_three, 0].mean()
    even = load_digit_candidates(n_distractors=1, correlated=False, random_state=0)
    assert even.candidates[is_three, 8].mean() == pytest.approx(1 / 9, abs=0.06)


def test_ambiguous_rate_leaves_the_other_rows_with_their_truth_alone():
    dataset = load_digit_candidates(ambiguous_rate=0.3, random_state=0)
    assert (dataset.candidates.sum(axis=1) > 1).mean() == pytest.approx(0.3, abs=0.04)


def test_changing_what_was_returned_does_not_change_the_next_call():
    load_digit_candidates(random_state=0).features[:] = 99.0
    assert load_digit_candidates(random_state=0).features.max() <= 1.0


@pytest.mark.parametrize("load", [load_digit_bags, load_digit_candidates])
def test_the_same_seed_draws_the_same_data(load):
    one, other = load(random_state=7), load(random_state=7)
    np.testing.assert_array_equal(one.images, other.images)
    draw = "candidates" if hasattr(one, "candidates") else "labels"
    np.testing.assert_array_equal(getattr(one, draw), getattr(other, draw))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_classes": 10}, "must leave a digit for the background"),
        ({"size": (4, 2)}, "the greatest size must be a whole number of at least 4"),
        ({"witness_rate": 1.5}, "witness_rate must lie between 0 and 1"),
        ({"part": "training"}, "part must be one of"),
    ],
)
def test_impossible_bags_are_refused(arguments, sentence):
    with pytest.raises(ParameterError, match=sentence):
        load_digit_bags(10, **arguments)


def test_more_distractors_than_other_digits_are_refused():
    with pytest.raises(ParameterError, match="n_distractors must be below 10"):
        load_digit_candidates(n_distractors=10)
