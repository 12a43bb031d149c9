"""Counts in bins a reader can take in."""

import numpy as np
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

from groupnoise.io.description import histogram_of_sizes


def test_few_sizes_get_a_bar_each_gaps_included():
    histogram = histogram_of_sizes("sizes", [3, 5, 5])
    assert histogram.labels == ("3", "4", "5")
    assert histogram.counts == (1, 0, 2)


def test_sizes_that_reach_far_fall_into_doubling_bins():
    histogram = histogram_of_sizes("sizes", [1, 2, 3, 4, 5, 8, 9, 100])
    assert histogram.labels == ("1", "2", "3-4", "5-8", "9-16", "17-32", "33-64", "65-128")
    assert histogram.counts == (1, 1, 2, 2, 1, 0, 0, 1)


def test_bins_begin_where_the_values_do():
    assert histogram_of_sizes("sizes", [5, 700]).labels[0] == "5-8"
    assert histogram_of_sizes("sizes", [0, 700]).labels[:2] == ("0", "1")


@given(arrays(np.int64, st.integers(1, 50), elements=st.integers(0, 5000)))
def test_every_value_is_counted_once(values):
    histogram = histogram_of_sizes("sizes", values)
    assert sum(histogram.counts) == len(values)
    assert len(histogram.labels) == len(histogram.counts)
    assert histogram.counts[0] > 0
    assert histogram.counts[-1] > 0
