"""Work in blocks gives what work on the whole gives."""

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.core import arrays as _blocks
from groupnoise.core.arrays import blocks, count_ids
from groupnoise.core.checks import check_finite
from groupnoise.exceptions import DataError


@pytest.fixture(autouse=True)
def _tiny_blocks(monkeypatch):
    monkeypatch.setattr(_blocks, "BLOCK_BYTES", 64)


@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (8,), (9,), (5, 3), (4, 20)])
def test_blocks_put_together_are_the_array(shape):
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    parts = list(blocks(array))
    assert all((array[first : first + len(part)] == part).all() for first, part in parts)
    assert sum(len(part) for _, part in parts) == len(array)


def test_ids_are_counted_across_blocks():
    ids = np.random.default_rng(0).integers(5, size=100).astype(np.int32)
    assert count_ids(ids, 7).tolist() == np.bincount(ids, minlength=7).tolist()


def test_the_first_bad_row_and_their_number_are_found_across_blocks():
    values = np.ones((40, 2))
    values[[13, 31], 0] = np.nan
    with pytest.raises(DataError, match="X holds 2 NaN or infinite values, the first in row 13"):
        check_finite("X", values)


@pytest.mark.parametrize(
    ("broken", "says"),
    [(30, "entry 31 .* is below entry 30"), (None, "1 of 40 groups are empty, first at row 30")],
)
def test_offsets_are_checked_across_blocks(broken, says):
    offsets = np.arange(0, 82, 2)
    offsets[31] = 59 if broken else offsets[30]
    with pytest.raises(DataError, match=says):
        Groups(np.zeros(80), offsets)
