"""Groups that stay on disk answer as groups in memory do."""

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.core import collate
from groupnoise.core.arrays import blocks
from groupnoise.core.batching import split_batch
from groupnoise.core.scaling import Scaler
from groupnoise.core.streamed_groups import StreamedGroups, make_groups, scaled_groups
from groupnoise.exceptions import DataError, EmptyGroupError

SIZES = [3, 1, 5, 2, 4]


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(3.0, 2.0, size=(sum(SIZES), 4)).astype(np.float16)


@pytest.fixture
def offsets():
    return np.concatenate([[0], np.cumsum(SIZES)])


@pytest.fixture
def streamed(rows, offsets, tmp_path):
    np.save(tmp_path / "rows.npy", rows)
    return StreamedGroups(np.load(tmp_path / "rows.npy", mmap_mode="r"), offsets)


@pytest.mark.parametrize("picked", [[0, 1, 2], [4, 0, 2], [1, 1, 3], slice(1, 4), [True] * 5])
def test_a_subset_holds_what_it_holds_in_memory(streamed, rows, offsets, picked):
    ours, theirs = streamed.subset(picked), Groups(rows, offsets).subset(picked)
    assert isinstance(ours, StreamedGroups)
    np.testing.assert_array_equal(ours.objects, theirs.objects)
    np.testing.assert_array_equal(ours.offsets, theirs.offsets)
    assert [bag.tolist() for bag in ours] == [bag.tolist() for bag in theirs]


@pytest.mark.parametrize("kind", ["standard", "rms", "l2", "power", "none"])
def test_a_batch_is_the_scaled_batch_of_memory(streamed, rows, offsets, kind):
    scaler, ours = scaled_groups(kind, streamed)
    theirs = Groups(Scaler(kind).fit(rows)(rows), offsets)
    for groups in (ours, theirs):
        groups.targets = np.arange(5)
    batch, expected = (collate(groups, np.array([2, 0, 4])) for groups in (ours, theirs))
    assert batch.objects.dtype == expected.objects.dtype
    np.testing.assert_allclose(batch.objects, expected.objects, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(batch.mask, expected.mask)
    flat = ours.gathered(np.array([3, 1]))
    np.testing.assert_allclose(flat, theirs.gathered(np.array([3, 1])), rtol=1e-5, atol=1e-6)
    assert scaler.kind == kind


def test_features_far_from_zero_keep_their_digits(tmp_path):
    values = (1e4 + np.random.default_rng(0).normal(size=(40, 2))).astype(np.float32)
    np.save(tmp_path / "rows.npy", values)
    groups = StreamedGroups(np.load(tmp_path / "rows.npy", mmap_mode="r"), [0, 40])
    scaler, scaled = scaled_groups("standard", groups)
    np.testing.assert_allclose(scaled.gathered(np.array([0])), scaler(values), rtol=1e-6)


def test_rows_at_even_distances_come_from_all_groups(streamed, rows):
    np.testing.assert_array_equal(streamed.sample_rows(100), rows)
    np.testing.assert_array_equal(streamed.sample_rows(5), rows[::3])
    np.testing.assert_array_equal(streamed.subset([2, 0]).sample_rows(4), rows[[4, 6, 8, 1]])


def test_an_empty_group_and_wrong_offsets_are_refused(streamed, rows, tmp_path):
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with pytest.raises(EmptyGroupError):
        StreamedGroups(mapped, [0, 3, 3, 15])
    with pytest.raises(DataError, match="number of objects"):
        StreamedGroups(mapped, [0, 3, 99])
    with pytest.raises(DataError, match="0 groups"):
        streamed.subset([])


def test_only_what_is_mapped_and_large_is_streamed(rows, offsets, streamed, monkeypatch):
    from groupnoise.core import streamed_groups

    mapped = streamed.objects
    assert type(make_groups(mapped, offsets)) is Groups
    monkeypatch.setattr(streamed_groups, "MAX_BYTES_IN_MEMORY", 4 * rows.size - 1)
    assert type(make_groups(mapped, offsets)) is StreamedGroups
    assert type(make_groups(rows, offsets)) is Groups


def test_a_private_mapping_keeps_what_was_written_to_it(tmp_path):
    np.save(tmp_path / "rows.npy", np.zeros((8, 2)))
    private = np.load(tmp_path / "rows.npy", mmap_mode="c")
    private[3] = 7
    assert sum(float(part.sum()) for _, part in blocks(private)) == 14
    assert private[3].tolist() == [7, 7]


def test_parts_of_a_batch_are_bounded_by_objects_and_leave_nothing_out():
    generator = np.random.default_rng(0)
    for _ in range(20):
        sizes = generator.integers(1, 60, size=int(generator.integers(1, 30)))
        rows = generator.permutation(len(sizes))
        parts = list(split_batch(rows, sizes[rows], 50))
        assert np.concatenate(parts).tolist() == rows.tolist()
        assert all(len(part) * sizes[part].max() <= 50 or len(part) == 1 for part in parts)
