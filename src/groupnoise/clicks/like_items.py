"""Items most like a new one by their features, and how far new ones stand behind known ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from groupnoise.clicks.mixture import Float32Array
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.exceptions import ModelFileError
from groupnoise.io.array_folder import check_numbers, stored_array

N_LIKE = 10
"""Clicked items that speak for a new one, each by the square of its cosine."""
ROWS_AT_ONCE = 256
PREFIX = "like_"
"""How the names of the arrays begin that hold this in files."""
FAIR_TOP = 10
"""Places of an answer, by which new items are given their share."""
NEW_SHARE = 0.01
"""Of these places, which new items together may take."""
N_STEPS, MIN_RATE = 25, 1e-4
"""Offsets that are kept, and the share of a new item's answers that the first leaves to it."""


class Standing(NamedTuple):
    """How far behind known items new ones may stand.

    All of shape (n_steps,), from the farthest back to 0.
    `offsets`: what is added to the bias of every new item.
    `rates`: share of the answers whose best items a new item then is among.
    """

    offsets: FloatArray
    rates: FloatArray

    @classmethod
    def of(cls, scores: FloatArray, is_new: BoolArray) -> Standing | None:
        """Return how often new items are among the best, by how far back they stand.

        None where too few items are known. `scores` (n_histories, n_items): -inf for what was seen.
        `is_new` (n_items,): the new items, or those that stand in for them.
        """
        known, new = scores[:, ~is_new], scores[:, is_new]
        if known.shape[1] < FAIR_TOP:
            return None
        last = -np.partition(-known, FAIR_TOP - 1, axis=1)[:, FAIR_TOP - 1]
        leads = new - last[:, None]
        leads = np.sort(leads[np.isfinite(leads)])[::-1]
        if not len(leads):
            return None
        most = max(1, int(np.count_nonzero(leads > 0))) / len(leads)
        rates = most * np.geomspace(MIN_RATE, 1.0, N_STEPS)
        offsets = np.minimum(
            0.0, -leads[np.minimum(rates * len(leads), len(leads) - 1).astype(int)]
        )
        offsets[-1] = 0.0
        return cls(offsets, rates)

    def offset_for(self, n_new: int) -> float:
        """Return what is added to the bias of new items if there are so many of them.

        >>> standing = Standing(np.array([-9.0, -4, 0]), np.array([0.001, 0.01, 0.1]))
        >>> standing.offset_for(1), standing.offset_for(10), standing.offset_for(500)
        (0.0, -4.0, -9.0)
        """
        rate = NEW_SHARE * FAIR_TOP / max(1, n_new)
        return float(np.interp(np.log(rate), np.log(self.rates), self.offsets))


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
        """Return these items in a smaller catalogue, None where none of them is left."""
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
        """Return the items whose :meth:`to_arrays` are among `arrays`, None without them."""
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
