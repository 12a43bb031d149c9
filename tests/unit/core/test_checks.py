"""Checks: what passes, and the one sentence for what does not."""

import numpy as np
import pandas as pd
import pytest

from groupnoise.core.checks import (
    check_choice,
    check_count,
    check_dropout,
    check_features,
    check_finite,
    check_fraction,
    check_positive,
    require,
)
from groupnoise.exceptions import DataError, GroupNoiseError, MissingExtraError, ParameterError


@pytest.mark.parametrize("value", [1, 0.5, np.float32(2), np.int64(3)])
def test_positive_numbers_pass(value):
    check_positive("rate", value)


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, True, "1", None, [1.0]], ids=repr)
def test_what_is_not_a_positive_number_is_refused(value):
    with pytest.raises(ParameterError, match="rate must be a number greater than zero; got"):
        check_positive("rate", value)


def test_zero_passes_where_it_is_allowed():
    check_positive("decay", 0, allow_zero=True)
    with pytest.raises(ParameterError, match="decay must be a number zero or more; got -1"):
        check_positive("decay", -1, allow_zero=True)


def test_counts_are_whole_numbers_with_a_least_value():
    check_count("size", np.int32(2), least=2)
    for value in (1, 2.0, True, None, "2"):
        with pytest.raises(ParameterError, match="size must be a whole number of at least 2; got"):
            check_count("size", value, least=2)


def test_fractions_lie_between_zero_and_one():
    check_fraction("rate", 0)
    check_fraction("rate", 1.0)
    for value in (-0.1, 1.1, np.nan, True, "0.5"):
        with pytest.raises(ParameterError, match="rate must lie between 0 and 1; got"):
            check_fraction("rate", value)


def test_dropout_leaves_something_to_learn_with():
    check_dropout(0)
    check_dropout(0.99)
    for value in (1, 1.0, 1.5, -0.1, None):
        with pytest.raises(ParameterError, match="dropout must"):
            check_dropout(value)


def test_choices_list_what_is_allowed():
    check_choice("mode", "fast", ("fast", "exact"))
    for value in ("slow", None, 3, ["fast"]):
        with pytest.raises(ParameterError, match="mode must be one of 'fast', 'exact'; got"):
            check_choice("mode", value, ("fast", "exact"))


def test_first_row_that_is_not_finite_is_named():
    values = np.zeros((4, 2))
    values[2, 1], values[3, 0] = np.nan, np.inf
    with pytest.raises(DataError, match="X holds 2 NaN or infinite values, the first in row 2"):
        check_finite("X", values)


def test_whole_numbers_are_always_finite():
    check_finite("ids", np.arange(3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, bool])
def test_numeric_features_keep_their_type(dtype):
    assert check_features("X", np.ones((2, 3), dtype=dtype)).dtype == dtype


def test_numbers_written_as_objects_become_floats():
    assert check_features("X", np.array([[1, 2.5]], dtype=object)).dtype == np.float64


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([["a", "b"]], "must be numeric with rows of one width"),
        ([[1, 2], [3]], "must be numeric with rows of one width"),
        (np.zeros((2, 2), dtype=complex), "Complex data not supported; X must hold real"),
        (np.zeros(3), r"two dimensions \(rows, features\); got shape \(3,\)"),
        (np.zeros((2, 3, 4)), "two dimensions"),
        (np.zeros((0, 3)), "has 0 rows"),
        (np.zeros((3, 0)), r"0 feature\(s\)"),
        (np.zeros((2, 4)), "4 features, but model is expecting 3"),
        ([[1.0, np.nan, 0.0]], "NaN or infinite values, the first in row 0"),
    ],
    ids=["words", "ragged", "complex", "flat", "deep", "no_rows", "no_columns", "width", "nan"],
)
def test_features_that_cannot_be_used_are_refused(values, message):
    with pytest.raises(DataError, match=message):
        check_features("X", values, width=3)


def test_an_installed_package_is_returned():
    assert require("json", extra="none").dumps({}) == "{}"


def test_a_missing_package_names_the_extra_that_brings_it():
    with pytest.raises(MissingExtraError, match=r"pip install 'groupnoise\[recall\]'"):
        require("no_such_package.inner", extra="recall")


@pytest.mark.parametrize(
    ("error", "builtin"), [(DataError, ValueError), (ParameterError, ValueError)]
)
def test_errors_belong_to_the_family_and_to_a_builtin(error, builtin):
    assert issubclass(error, GroupNoiseError)
    assert issubclass(error, builtin)


def test_columns_of_a_frame_that_are_no_numbers_are_named():
    frame = pd.DataFrame({"size": [1, 2], "colour": ["red", "blue"], "when": ["a", "b"]})
    with pytest.raises(DataError, match="'colour', 'when' are not: leave them out, or make"):
        check_features("X", frame)
