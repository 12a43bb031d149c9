"""The order of batches: every row once, similar sizes together, neighbours on disk nearby."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from builders import offsets_of, ragged_sizes, seeds, steady
from groupnoise.core import batch_rows
from groupnoise.core.batching import pooled_batch_rows


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
@given(sizes=ragged_sizes, batch_size=st.integers(1, 7), pool_size=st.integers(1, 9), seed=seeds)
def test_batches_from_pools_cover_each_row_exactly_once(sizes, batch_size, pool_size, seed):
    generator = np.random.default_rng(seed)
    batches = list(pooled_batch_rows(offsets_of(sizes), batch_size, generator, pool_size))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    assert max(len(rows) for rows in batches) <= batch_size


@pytest.mark.parametrize("pool_size", [10, 200, 5000])
@pytest.mark.parametrize("n_groups", [100, 1000, 1003])
def test_pools_make_as_many_batches_as_a_full_shuffle(n_groups, pool_size):
    offsets = np.arange(n_groups + 1) * 2
    batches = list(pooled_batch_rows(offsets, 16, np.random.default_rng(0), pool_size))
    assert len(batches) == math.ceil(n_groups / 16)
    assert sorted(len(rows) for rows in batches)[1:] == [16] * (len(batches) - 1)


def batches_of_a_large_set(pool_size=6400):
    return list(pooled_batch_rows(np.arange(100_001), 50, np.random.default_rng(0), pool_size))


def test_only_the_blocks_of_a_pool_are_in_use_at_a_time():
    batches = batches_of_a_large_set()  # 64 blocks of 100 groups in a pool of 128 batches
    for first in range(0, len(batches), 128):
        rows = np.concatenate(batches[first : first + 128])
        assert len(np.unique(rows // 100)) <= 65


def test_groups_far_apart_share_a_batch_of_a_pool():
    assert all(len(np.unique(rows // 100)) > 20 for rows in batches_of_a_large_set())


def test_pools_are_made_of_other_blocks_in_every_epoch():
    offsets = np.arange(1001)
    generator = np.random.default_rng(0)
    first, second = (np.concatenate([*pooled_batch_rows(offsets, 8, generator, 64)]) for _ in "ab")
    assert (first[:64] != second[:64]).any()


def test_a_pool_that_holds_all_groups_mixes_all_of_them():
    batches = list(pooled_batch_rows(np.arange(6401), 64, np.random.default_rng(0), 10_000))
    spread = [np.ptp(rows) for rows in batches]
    assert min(spread) > 0.8 * 6400
