"""The order of batches: every row once, similar sizes together, neighbours on disk nearby."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import offsets_of, ragged_sizes, seeds, steady
from groupnoise.groups import batch_rows, block_batch_rows


@steady
@given(sizes=ragged_sizes, batch_size=st.integers(1, 7), seed=st.none() | seeds)
def test_batches_cover_each_row_exactly_once(sizes, batch_size, seed):
    generator = None if seed is None else np.random.default_rng(seed)
    batches = list(batch_rows(np.array(sizes), batch_size, generator))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    assert max(len(rows) for rows in batches) <= batch_size


def test_rows_come_in_their_own_order_without_a_generator():
    batches = batch_rows(np.array([3, 1, 2, 5, 1]), 2, None)
    assert [rows.tolist() for rows in batches] == [[0, 1], [2, 3], [4]]


def test_groups_of_similar_size_share_a_batch():
    sizes = np.random.default_rng(0).integers(1, 100, size=320)
    spread = [np.ptp(sizes[rows]) for rows in batch_rows(sizes, 20, np.random.default_rng(1))]
    shuffled = np.random.default_rng(1).permutation(sizes).reshape(-1, 20)
    assert max(spread) < np.ptp(shuffled, axis=1).min() / 3


def test_every_epoch_mixes_anew_and_the_generator_decides():
    sizes = np.random.default_rng(0).integers(1, 9, size=50)

    def epochs(seed):
        generator = np.random.default_rng(seed)
        return [[rows.tolist() for rows in batch_rows(sizes, 8, generator)] for _ in range(2)]

    first, second = epochs(3)
    assert first != second
    assert epochs(3) == [first, second]


@steady
@given(sizes=ragged_sizes, batch_size=st.integers(1, 7), block_size=st.integers(1, 4), seed=seeds)
def test_batches_of_blocks_cover_each_row_exactly_once(sizes, batch_size, block_size, seed):
    generator = np.random.default_rng(seed)
    batches = list(block_batch_rows(offsets_of(sizes), batch_size, generator, block_size))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    assert max(len(rows) for rows in batches) <= batch_size


@pytest.mark.parametrize("n_groups", [100, 1000, 1003])
def test_blocks_make_as_many_batches_as_a_full_shuffle(n_groups):
    offsets = np.arange(n_groups + 1) * 2
    batches = list(block_batch_rows(offsets, 16, np.random.default_rng(0), block_size=3))
    assert len(batches) == math.ceil(n_groups / 16)
    assert sorted(len(rows) for rows in batches)[1:] == [16] * (len(batches) - 1)


def test_only_a_few_blocks_are_in_use_at_a_time():
    offsets = np.arange(100_001)
    batches = list(block_batch_rows(offsets, 50, np.random.default_rng(0), block_size=100))
    for first in range(0, len(batches) - 64, 64):
        blocks = np.unique(np.concatenate(batches[first : first + 64]) // 100)
        assert len(blocks) <= 2 * 64


def test_groups_far_apart_share_a_batch_of_blocks():
    offsets = np.arange(100_001)
    batches = list(block_batch_rows(offsets, 50, np.random.default_rng(0), block_size=100))
    assert all(len(np.unique(rows // 100)) > 20 for rows in batches)


def test_blocks_come_in_another_order_in_every_epoch():
    offsets = np.arange(1001)
    generator = np.random.default_rng(0)
    first, second = (np.concatenate([*block_batch_rows(offsets, 8, generator, 4)]) for _ in "ab")
    assert (first != second).any()
