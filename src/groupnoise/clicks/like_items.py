"""Items that are most like a new one by their features, and what their vectors say of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from groupnoise.clicks.mixture import Float32Array
from groupnoise.core.arrays import IntArray
from groupnoise.exceptions import ModelFileError
from groupnoise.io.array_folder import check_numbers, stored_array

N_LIKE = 10
"""Clicked items that speak for a new one, each by the square of its cosine."""
ROWS_AT_ONCE = 256
PREFIX = "like_"
"""How the names of the arrays begin that hold this in files."""


@dataclass(frozen=True, eq=False)
class LikeItems:
    """Clicked items by their features.

    `features` (n_items, n_features): of unit length.
    `positions`: where each stands in the catalogue, rising.
    `share`: how far a new item is moved towards the mean of those most like it, from 0 to 1.
    `offset`: what is added to the bias of a new item.
    """

    features: sparse.csr_array
    positions: IntArray
    share: float
    offset: float = 0.0

    @classmethod
    def of(cls, features: sparse.csr_array, positions: IntArray, share: float) -> LikeItems:
        """Return items with these features, in any order; see the class for the parameters."""
        order = np.argsort(positions)
        return cls(_unit_rows(features)[order], np.asarray(positions, dtype=np.int64)[order], share)

    def moved(
        self, rows: Float32Array, features: sparse.csr_array, trained: Float32Array
    ) -> Float32Array:
        """Return what is known of new items, moved towards the items most like them.

        Rows like no item stay where they are. `rows` (n, width): what the regression says.
        `features` (n, n_features): of the new items. `trained` (n_catalogue, width): of all items.
        """
        result: Float32Array = rows.copy()
        unit, n_like = _unit_rows(features), min(N_LIKE, len(self.positions))
        for first in range(0, len(rows), ROWS_AT_ONCE):
            cosines = np.asarray((unit[first : first + ROWS_AT_ONCE] @ self.features.T).todense())
            nearest = np.argpartition(-cosines, n_like - 1, axis=1)[:, :n_like]
            weights = np.maximum(np.take_along_axis(cosines, nearest, axis=1), 0.0) ** 2
            total = weights.sum(axis=1, keepdims=True)
            mean = np.einsum("nk,nkd->nd", weights, trained[self.positions[nearest]])
            mean /= np.maximum(total, 1e-12)
            own = slice(first, first + len(cosines))
            result[own] += np.where(total > 0, self.share, 0.0) * (mean - result[own])
        result[:, -1] += self.offset
        return result

    def among(self, kept: IntArray) -> LikeItems | None:
        """Return these items in a smaller catalogue, None where none of them is left.

        `kept`: rising positions of what stays.
        """
        place = np.searchsorted(kept, self.positions)
        is_left = kept[np.minimum(place, len(kept) - 1)] == self.positions
        if not is_left.any():
            return None
        return replace(self, features=self.features[is_left], positions=place[is_left])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the items as arrays that a file can hold."""
        return {
            f"{PREFIX}values": self.features.data.astype(np.float32),
            f"{PREFIX}columns": self.features.indices.astype(np.int64),
            f"{PREFIX}offsets": self.features.indptr.astype(np.int64),
            f"{PREFIX}positions": self.positions,
            f"{PREFIX}share": np.array([self.share, self.offset], dtype=np.float32),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], n_features: int) -> LikeItems | None:
        """Return the items whose :meth:`to_arrays` are among `arrays`, None without them.

        `arrays`: from a file that may hold anything. `n_features`: width of the features. Raises
        ModelFileError if the arrays are no such items.
        """
        if f"{PREFIX}share" not in arrays:
            return None
        columns, offsets, positions = (
            stored_array(arrays, f"{PREFIX}{name}", types=("i8",), shape=(None,))
            for name in ("columns", "offsets", "positions")
        )
        values = stored_array(arrays, f"{PREFIX}values", types=("f4",), shape=columns.shape)
        share = stored_array(arrays, f"{PREFIX}share", types=("f4",), shape=(2,))
        check_numbers(f"{PREFIX}values", values)
        check_numbers(f"{PREFIX}share", share)
        n_items = len(arrays["popularity"])
        is_sound = (
            len(positions)
            and len(offsets) == len(positions) + 1
            and offsets[0] == 0
            and offsets[-1] == len(columns)
            and (np.diff(offsets) >= 0).all()
            and (np.diff(positions) > 0).all()
            and 0 <= positions[0] <= positions[-1] < n_items
            and (not len(columns) or 0 <= columns.min() <= columns.max() < n_features)
            and 0 <= share[0] <= 1
        )
        if not is_sound:
            raise ModelFileError("the stored items that new ones are compared with are not sound.")
        features = sparse.csr_array((values, columns, offsets), shape=(len(positions), n_features))
        return cls(features, positions, float(share[0]), float(share[1]))


def _unit_rows(features: sparse.csr_array) -> sparse.csr_array:
    norms = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
    scaled = sparse.diags_array(1.0 / np.maximum(norms, 1e-12)) @ features
    return sparse.csr_array(scaled, dtype=np.float32)
