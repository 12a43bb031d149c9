"""Some of the bags or rows of a data set."""

from dataclasses import replace

import numpy as np
import pytest

from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import select_features, split_rows, subset_bags, subset_rows


def test_bags_keep_their_instances_truth_and_pictures():
    dataset = load_digit_bags(10, random_state=0)
    subset = subset_bags(dataset, [7, 2])
    start, stop = dataset.bags.offsets[7:9]
    np.testing.assert_array_equal(subset.bags[0], dataset.bags[7])
    np.testing.assert_array_equal(
        subset.instance_labels[: stop - start], dataset.instance_labels[start:stop]
    )
    np.testing.assert_array_equal(subset.images.reshape(-1, 64), subset.bags.objects)
    np.testing.assert_array_equal(subset.labels, dataset.labels[[7, 2]])


def test_a_boolean_mask_picks_the_same_bags():
    dataset = load_digit_bags(10, random_state=0)
    mask = np.arange(10) % 2 == 0
    np.testing.assert_array_equal(
        subset_bags(dataset, mask).bags.objects,
        subset_bags(dataset, np.flatnonzero(mask)).bags.objects,
    )


def test_no_bags_at_all_are_refused_in_one_sentence():
    with pytest.raises(DataError, match="a subset of 0 groups was asked for"):
        subset_bags(load_digit_bags(10, random_state=0), [])


def test_no_rows_at_all_leave_none():
    assert len(subset_rows(load_digit_candidates(random_state=0), []).features) == 0


def test_rows_keep_their_candidates_truth_and_pictures():
    dataset = load_digit_candidates(random_state=0)
    _, _, test = split_rows(len(dataset.features), random_state=0)
    part = subset_rows(dataset, test)
    assert len(part.features) == len(test)
    np.testing.assert_array_equal(part.candidates, dataset.candidates[test])
    np.testing.assert_array_equal(part.truth, dataset.truth[test])
    np.testing.assert_array_equal(part.images.reshape(-1, 64), part.features)


def test_features_are_selected_by_name_and_missing_ones_named():
    rows = replace(
        subset_rows(load_digit_candidates(random_state=0), range(3)),
        feature_names=tuple(f"p{number}" for number in range(64)),
    )
    some = select_features(rows, ["p9", "p3"])
    np.testing.assert_array_equal(some.features, rows.features[:, [9, 3]])
    assert some.feature_names == ("p9", "p3")
    with pytest.raises(DataError, match=r"lacks 1 of the 2 columns .* learned from: 'q'"):
        select_features(rows, ["p9", "q"])


def test_features_without_names_stay_as_they_are():
    bags = load_digit_bags(10, random_state=0)
    assert select_features(bags, ["a", "b"]) is bags


def test_bags_keep_their_ids_and_rows():
    bags = load_digit_bags(10, random_state=0)
    named = replace(
        bags, bag_ids=np.arange(10) * 7, source_rows=np.arange(bags.bags.n_objects) + 100
    )
    some = subset_bags(named, [3, 1])
    assert some.bag_ids.tolist() == [21, 7]
    start, stop = bags.bags.offsets[3:5]
    assert some.source_rows[: stop - start].tolist() == list(range(100 + start, 100 + stop))
