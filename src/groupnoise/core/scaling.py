"""Feature scaling, and the check that new rows have the columns of the training rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BLOCK_BYTES, FloatArray, blocks
from groupnoise.core.checks import check_choice, check_features
from groupnoise.core.power_transform import SEARCH_ROWS, Floats, PowerTransform
from groupnoise.exceptions import DataError

SCALINGS = ("standard", "l2", "power", "rms", "none")
PIECES = "pieces"
LANDMARKS = "landmarks"
"""Further kinds with more columns than features, for members of bag ensembles only."""

MAX_OFFSET = 1e3
"""Ratio of mean to standard deviation up to which single precision is accurate enough."""

ROWS_IN_CACHE = 1_024
"""Rows scaled at a time in single precision."""

MAX_VALUES = 20
"""Distinct values up to which an integer feature is treated as categorical."""
QUANTILES = (0.2, 0.4, 0.6, 0.8)
"""Knots of the piecewise linear terms of other features."""
N_LANDMARKS = 100
NEAR, NEARER = 2.0, 4.0
"""Rate of the Gaussian similarity to landmarks, and its additional factor divided by the number of
features: with fewer features landmarks are closer."""
MIN_SPREAD = 0.2
"""Minimum standard deviation of an indicator: rare values would be scaled to large ones."""


class Scaler:
    """Scales feature rows to float32.

    `kind`: one of
        "standard": zero mean and unit standard deviation per feature;
        "l2": rows of unit length (for components whose variance matters);
        "power": "standard" after a Yeo-Johnson transform (for counts and other long tails);
        "rms": all features divided by their common root mean square, which keeps zeros and
        proportions (for words and pixels);
        "pieces": "standard" after one-hot codes and piecewise linear terms;
        "landmarks": "standard" of similarities to some rows;
        "none".
    """

    def __init__(self, kind: str) -> None:
        check_choice("scaling", kind, (*SCALINGS, PIECES, LANDMARKS))
        self.kind = kind
        self.centre: Floats = np.zeros(0)
        self.spread: Floats = np.ones(0)
        self.shape: PowerTransform | PiecewiseTransform | LandmarkTransform | None = None

    @property
    def width(self) -> int:
        """How many columns scaled rows have."""
        return len(self.centre)

    def fit(self, rows: NDArray[Any]) -> Scaler:
        """Fit the transform, centre and spread to rows (n_rows, n_features)."""
        _check_within_float32(rows)
        n_features = rows.shape[1]
        self.centre, self.spread = np.zeros(n_features), np.ones(n_features)
        if self.kind in TRANSFORMS:
            self.shape = TRANSFORMS[self.kind].fit(rows)
        if self.kind in ("standard", *TRANSFORMS):
            in_single = self.kind == "power" and spans_blocks(rows) and _is_narrow(rows)
            self._learn_moments(rows, in_single=in_single)
            if in_single and not self._is_near:
                self._learn_moments(rows, in_single=False)
        if isinstance(self.shape, PiecewiseTransform):
            least = np.where(self.shape.is_indicator, MIN_SPREAD, self.spread)
            self.spread = np.maximum(self.spread, least)
        if self.kind == "rms":
            squares = [(len(p), np.mean(np.square(p, dtype=np.float64))) for _, p in blocks(rows)]
            size = math.sqrt(sum(n / len(rows) * square for n, square in squares))
            self.spread = np.full(n_features, size if size > 0 else 1.0)
        return self

    def _learn_moments(self, rows: NDArray[Any], *, in_single: bool) -> None:
        """Fit centre and spread block by block, without a copy of all rows in double precision."""
        found = []
        for _, part in blocks(rows):
            shaped = self._raised_in_single(part) if in_single else self._shaped(part)
            mean = shaped.mean(axis=0, dtype=np.float64)
            found.append((len(part) / len(rows), mean, shaped.var(axis=0, dtype=np.float64)))
        self.centre = sum((share * mean for share, mean, _ in found), np.zeros(()))
        variance = sum(
            (share * (var + (mean - self.centre) ** 2) for share, mean, var in found), np.zeros(())
        )
        std = np.sqrt(variance)
        # A constant feature says nothing; dividing by one keeps it at zero. Its std
        # may be a rounding error of its mean.
        varies = std > 1e-12 * np.abs(self.centre)
        self.spread = np.where(varies, std, 1.0)

    def _shaped(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return transformed rows, not yet centred."""
        return rows if self.shape is None else self.shape(rows)

    def _raised_in_single(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        import torch

        assert isinstance(self.shape, PowerTransform)
        wide = torch.from_numpy(np.array(rows)).float()
        self.shape.raise_in_place(wide)
        return wide.numpy()

    @property
    def _is_near(self) -> bool:
        """Whether single precision is accurate enough for all features."""
        return bool((np.abs(self.centre) <= MAX_OFFSET * self.spread).all())

    def scale_into(self, rows: NDArray[Any], place: NDArray[np.float32]) -> None:
        """Write scaled rows to `place`; in single precision where possible, which is faster."""
        import torch  # readers of files know scalings, and do without it

        is_known = self.kind in ("standard", "rms", "power")
        if not is_known or not _is_narrow(rows) or not self._is_near:
            self._scale_widely(rows, place)
            return
        centre = torch.from_numpy(self.centre.astype(np.float32))
        factor = torch.from_numpy((1.0 / self.spread).astype(np.float32))
        for start in range(0, len(rows), ROWS_IN_CACHE):
            part = slice(start, start + ROWS_IN_CACHE)
            # torch converts half precision much faster than numpy.
            wide = torch.from_numpy(place[part]).copy_(torch.from_numpy(np.array(rows[part])))
            if isinstance(self.shape, PowerTransform):
                self.shape.raise_in_place(wide)
            wide.sub_(centre).mul_(factor)

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return scaled rows as float32, without a copy if `kind` is "none".

        Raises DataError for values that overflow, since predictions would be NaN.
        """
        if self.kind == "none":
            _check_within_float32(rows)
            return rows.astype(np.float32, copy=False)
        scaled = np.empty((len(rows), self.width), dtype=np.float32)
        self._scale_widely(rows, scaled)
        return scaled

    def _scale_widely(self, rows: NDArray[Any], place: NDArray[np.float32]) -> None:
        """Scale in double precision, block by block."""
        _check_within_float32(rows)
        for first, part in blocks(rows):
            shaped = self._shaped(part)
            scaled = shaped if self.kind == "none" else (shaped - self.centre) / self.spread
            if self.kind == "l2":
                length = np.linalg.norm(scaled, axis=1, keepdims=True)
                # Unit length would leave features near zero; sqrt(width) gives them the size of
                # scores.
                scaled *= np.sqrt(part.shape[1]) / np.where(length > 0, length, 1.0)
            single = place[first : first + len(part)]
            with np.errstate(over="ignore"):
                single[...] = scaled
            if not np.isfinite(single).all():
                row, column = np.argwhere(~np.isfinite(single))[0]
                _check_position(shaped, row, column, first)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the learned state for a model file."""
        arrays = {"scaler.centre": self.centre, "scaler.spread": self.spread}
        if self.shape is not None:
            arrays[f"scaler.{self.kind}"] = self.shape.table
        return arrays

    @classmethod
    def from_arrays(cls, kind: str, arrays: dict[str, NDArray[Any]]) -> Scaler:
        """Restore what :meth:`arrays` returned."""
        scaler = cls(kind)
        scaler.centre, scaler.spread = arrays["scaler.centre"], arrays["scaler.spread"]
        if kind in TRANSFORMS:
            scaler.shape = TRANSFORMS[kind](arrays[f"scaler.{kind}"])
        return scaler


def spans_blocks(rows: NDArray[Any]) -> bool:
    """Return whether rows are larger than one block, so that copies are expensive."""
    return rows.nbytes > BLOCK_BYTES


def _is_narrow(rows: NDArray[Any]) -> bool:
    return rows.dtype in (np.float16, np.float32)


def _check_within_float32(rows: NDArray[Any]) -> None:
    """Refuse values beyond single precision."""
    largest = np.finfo(np.float32).max
    is_double = rows.dtype.kind == "f" and rows.dtype.itemsize > 4
    if is_double and rows.size and (rows.max() > largest or rows.min() < -largest):
        _check_position(rows, *np.argwhere(np.abs(rows) > largest)[0])


def _check_position(rows: NDArray[Any], row: int, column: int, first: int = 0) -> None:
    raise DataError(
        f"row {first + row}, column {column} of the features holds {rows[row, column]:g}, which "
        "does not fit single precision; correct it, or divide this feature by a constant."
    )


class PiecewiseTransform:
    """One-hot codes of categorical features and piecewise linear terms of others.

    `table` (3, n_columns): per column the feature, the kind (0: the feature itself, 1: indicator of
        a value, 2: excess over a value), and the value.
    """

    def __init__(self, table: Floats) -> None:
        self.table = table
        self.feature = table[0].astype(np.int64)

    @property
    def is_indicator(self) -> NDArray[np.bool_]:
        """Which columns indicate a value."""
        return self.table[1] == 1

    @classmethod
    def fit(cls, rows: NDArray[Any]) -> PiecewiseTransform:
        """Find categorical features, and the quantiles of the others."""
        some = rows[:: -(-len(rows) // SEARCH_ROWS)].astype(np.float64)
        columns = []
        for feature, values in enumerate(some.T):
            distinct = np.unique(values)
            is_code = len(distinct) <= MAX_VALUES and (distinct == np.rint(distinct)).all()
            if is_code and len(distinct) > 2:
                columns += [(feature, 1, value) for value in distinct]
                continue
            columns.append((feature, 0, 0.0))
            if len(distinct) > 2:
                knots = np.unique(np.quantile(values, QUANTILES))
                inner = knots[(knots > distinct[0]) & (knots < distinct[-1])]
                columns += [(feature, 2, value) for value in inner]
        return cls(np.array(columns, dtype=np.float64).T)

    def __call__(self, rows: NDArray[Any]) -> Floats:
        """Return the columns of each row, shape (n_rows, n_columns)."""
        _, kind, value = self.table
        found = rows[:, self.feature].astype(np.float64)
        excess = np.maximum(found - value, 0.0)
        return np.where(kind == 0, found, np.where(kind == 1, found == value, excess))


class LandmarkTransform:
    """Gaussian similarities to landmarks, which make linear models nonlinear.

    `table` (2 + n_landmarks, n_features): centre and spread of the features, and the landmarks,
        scaled by these.
    """

    def __init__(self, table: Floats) -> None:
        self.table = table

    @classmethod
    def fit(cls, rows: NDArray[Any]) -> LandmarkTransform:
        """Take evenly spaced rows as landmarks."""
        some = rows[:: -(-len(rows) // SEARCH_ROWS)].astype(np.float64)
        spread = some.std(axis=0)
        scale = np.array([some.mean(axis=0), np.where(spread > 0, spread, 1.0)])
        places = np.unique(np.linspace(0, len(some) - 1, N_LANDMARKS).astype(np.int64))
        return cls(np.concatenate([scale, (some[places] - scale[0]) / scale[1]]))

    def __call__(self, rows: NDArray[Any]) -> Floats:
        """Return the similarity of each row to each landmark, shape (n_rows, n_landmarks)."""
        centre, spread, places = self.table[0], self.table[1], self.table[2:]
        found = (rows.astype(np.float64) - centre) / spread
        squares = (found**2).sum(axis=1)[:, None] + (places**2).sum(axis=1)
        distance = np.maximum(squares - 2.0 * found @ places.T, 0.0) / places.shape[1]
        return np.exp(-NEAR * (1.0 + NEARER / places.shape[1]) * distance)


TRANSFORMS: dict[str, type[PowerTransform] | type[PiecewiseTransform] | type[LandmarkTransform]] = {
    "power": PowerTransform,
    PIECES: PiecewiseTransform,
    LANDMARKS: LandmarkTransform,
}
"""Applied before rows are centred, by kind of scaling."""


def rows_to_predict(estimator: Any, X: Any) -> FloatArray:
    """Return checked rows of the width and the column names seen in `fit`."""
    rows = check_features("X", X)
    check_same_columns(estimator, [X])
    return rows


def remember_columns(estimator: Any, tables: Sequence[Any]) -> None:
    """Set `n_features_in_` and, for data frames, `feature_names_in_`; all tables must agree."""
    from sklearn.utils.validation import validate_data  # answers without torch do without sklearn

    names = list(map(str, getattr(tables[0], "columns", ())))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"two columns are called {twice!r}; give each a name of its own.")
    validate_data(estimator, tables[0], "no_validation", reset=True, skip_check_array=True)
    check_same_columns(estimator, tables[1:])


def set_column_names(estimator: Any, names: Sequence[str]) -> None:
    """Name the columns of an estimator that was fitted on plain arrays."""
    estimator.feature_names_in_ = np.asarray(names, dtype=object)


def check_same_columns(estimator: Any, tables: Sequence[Any]) -> None:
    """Refuse tables of another width, or data frames whose columns have other names or order."""
    from sklearn.utils.validation import validate_data

    for table in tables:
        try:
            validate_data(estimator, table, "no_validation", reset=False, skip_check_array=True)
        except ValueError as error:
            raise DataError(str(error)) from None


def feature_tables(bags: Any, instances: FloatArray) -> Sequence[Any]:
    """Return the tables that define the feature columns of bags: data frames, or `instances`."""
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
    if fitted["feature_names_in"] is not None:
        set_column_names(estimator, fitted["feature_names_in"])
