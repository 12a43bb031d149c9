"""Seeded splits of plain rows."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.datasets import split_rows


@given(st.integers(10, 3000), st.integers(0, 2**31))
def test_every_row_is_in_exactly_one_part_of_nearly_its_share(n_rows, seed):
    parts = split_rows(n_rows, random_state=seed)
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n_rows))
    for part, share in zip(parts, (0.8, 0.1, 0.1), strict=True):
        assert abs(len(part) - share * n_rows) <= 1


def test_the_seed_alone_decides():
    one, other, third = (split_rows(100, random_state=seed)[0].tolist() for seed in (1, 1, 2))
    assert one == other != third


@pytest.mark.parametrize("fractions", [(0.8, 0.1), (1.2, -0.2), (0.5, 0.5, 0.0)])
def test_fractions_that_are_not_shares_are_refused(fractions):
    with pytest.raises(ParameterError, match="positive and sum to 1"):
        split_rows(10, fractions)


def test_too_few_rows_are_refused():
    with pytest.raises(DataError, match="2 rows are too few"):
        split_rows(2)
