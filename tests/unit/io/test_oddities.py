"""The sentences on what is odd."""

import numpy as np

from groupnoise.io.description import count_oddity, is_duplicate_row, scale_oddity


def test_nothing_odd_is_nothing_said():
    assert count_oddity(np.zeros(3, dtype=bool), "rows", "without truth") == []


def test_many_names_are_cut_short():
    names = [str(number) for number in range(12)]
    (sentence,) = count_oddity(np.ones(12, dtype=bool), "classes", "without a bag", names)
    assert sentence == "12 classes without a bag: 0, 1, 2, 3, 4, 5, 6, 7 and 4 more"


def test_only_the_later_of_equal_rows_is_a_duplicate():
    features = np.array([[1, 2], [3, 4], [1, 2], [1, 2]])
    assert is_duplicate_row(features).tolist() == [False, False, True, True]


def test_transposed_memory_is_compared_by_rows_all_the_same():
    features = np.array([[1.0, 1.0, 2.0], [5.0, 5.0, 6.0]]).T
    assert is_duplicate_row(features).tolist() == [False, True, False]


def test_constant_features_do_not_count_as_unequal_scale():
    assert scale_oddity(np.array([[1.0, 7.0], [2.0, 7.0]])) == []
