"""The width and the column names of the rows a model learned from, and the refusal of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_features
from groupnoise.exceptions import DataError


def rows_to_predict(estimator: Any, X: Any) -> FloatArray:
    """Return checked rows of the width and the column names seen in `fit`."""
    rows = check_features("X", X)
    check_same_columns(estimator, [X])
    return rows


def remember_columns(estimator: Any, tables: Sequence[Any]) -> None:
    """Set `n_features_in_` and, for data frames, `feature_names_in_`; all tables must agree."""
    validate_data(estimator, tables[0], "no_validation", reset=True, skip_check_array=True)
    check_same_columns(estimator, tables[1:])


def name_columns(estimator: Any, names: Sequence[str]) -> None:
    """Name the columns of an estimator that was fitted on plain arrays."""
    estimator.feature_names_in_ = np.asarray(names, dtype=object)


def check_same_columns(estimator: Any, tables: Sequence[Any]) -> None:
    """Refuse tables of another width, or data frames whose columns have other names or order."""
    for table in tables:
        try:
            validate_data(estimator, table, "no_validation", reset=False, skip_check_array=True)
        except ValueError as error:
            raise DataError(str(error)) from None


def tables_of_bags(bags: Any, instances: FloatArray) -> Sequence[Any]:
    """Return the tables whose columns are the features of bags.

    `bags`: bags as the user holds them; a data frame, or a data frame per bag, names its columns.
    `instances` (n_instances, n_features): the same bags as read.
    """
    if hasattr(bags, "columns"):
        return [bags]
    if isinstance(bags, (list, tuple)) and all(hasattr(bag, "columns") for bag in bags):
        return bags
    return [instances]


def column_state(estimator: Any) -> dict[str, Any]:
    """Return what a model file says of the columns."""
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "n_features_in": int(estimator.n_features_in_),
        "feature_names_in": None if names is None else names.tolist(),
    }


def restore_columns(estimator: Any, fitted: Mapping[str, Any]) -> None:
    """Take over what :func:`column_state` returned."""
    estimator.n_features_in_ = int(fitted["n_features_in"])
    names = fitted.get("feature_names_in")  # older model files have none
    if names is not None:
        estimator.feature_names_in_ = np.asarray(names, dtype=object)
