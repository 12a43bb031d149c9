"""Padded batches: the groups asked for, and padding told by the mask alone."""

import numpy as np
import pytest
import torch
from hypothesis import given

from builders import id_groups, ragged_sizes, seeds, steady
from groupnoise import Groups
from groupnoise.core import collate
from groupnoise.core.batching import GroupBatch
from groupnoise.exceptions import DataError


@steady
@given(sizes=ragged_sizes, seed=seeds)
def test_a_batch_holds_its_groups_and_nothing_else(sizes, seed):
    groups = id_groups(sizes, n_ids=50, n_targets=9, seed=seed)
    rows = np.random.default_rng(seed).permutation(len(sizes))
    batch = collate(groups, rows)
    assert batch.mask.shape == (len(rows), max(sizes))
    for place, row in enumerate(rows):
        assert batch.objects[place][batch.mask[place]].tolist() == groups[row].tolist()
    assert batch.targets.tolist() == groups.targets[rows].tolist()
    assert batch.rows.tolist() == rows.tolist()


def test_padding_repeats_an_object_of_the_same_group():
    groups = Groups.from_lists([[1, 2, 3], [7]], targets=[0, 0])
    assert collate(groups, np.arange(2)).objects.tolist() == [[1, 2, 3], [7, 7, 7]]


def test_feature_rows_and_feature_targets_keep_their_width():
    groups = Groups(np.arange(8.0).reshape(4, 2), [0, 3, 4], np.ones((2, 5)))
    batch = collate(groups, np.arange(2))
    assert batch.objects.shape == (2, 3, 2)
    assert batch.targets.shape == (2, 5)


def test_groups_without_targets_make_no_batch():
    with pytest.raises(DataError, match="these groups have no targets"):
        collate(Groups.from_lists([[1]]), np.arange(1))


def test_targets_that_are_words_make_no_batch():
    with pytest.raises(DataError, match="integer ids or feature rows; got dtype <U3"):
        collate(Groups.from_lists([[1]], targets=["cat"]), np.arange(1))


def test_a_batch_moves_between_devices_whole():
    batch = collate(Groups.from_lists([[1, 2], [3]], targets=[0, 1]), np.arange(2))
    moved = batch.to("meta")
    assert isinstance(moved, GroupBatch)
    assert len(moved) == 2
    assert {moved.objects.device, moved.mask.device, moved.targets.device, moved.rows.device} == {
        torch.device("meta")
    }
