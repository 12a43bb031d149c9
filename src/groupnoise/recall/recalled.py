"""What a recall model answers: ranked items, and the reasons for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from groupnoise.clicks.mixture import Float32Array
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.recall.items import ItemId

NOISE_BELOW = 0.5
"""A click counts as noise where the others agree with it less than this part of the most agreed."""


@dataclass(frozen=True)
class Recalled:
    """The answer to a list of histories.

    Attributes
    ----------
    positions : int64 ndarray of shape (n_histories, top)
        Positions in the item table, best first; rows with fewer items end in -1.
    scores : float32 ndarray of shape (n_histories, top)
        Matching scores; popularity where `from_popularity`.
    from_popularity : bool ndarray of shape (n_histories,)
        True where a history held no known item.
    unknown : list of list
        The ids of each history that the model does not know.
    led_by : int64 ndarray of shape (n_histories, top), optional
        Where interests were asked for, the click that stands for each item's interest.
    """

    positions: IntArray
    scores: Float32Array
    from_popularity: BoolArray
    unknown: list[list[Any]]
    led_by: IntArray | None = None

    def rows(self, begin: int, end: int) -> Recalled:
        """Return the answer to the histories from `begin` up to `end`.

        Parameters
        ----------
        begin : int
            The first history.
        end : int
            The one after the last.

        Returns
        -------
        Recalled
            The answers in between.
        """
        return Recalled(
            positions=self.positions[begin:end],
            scores=self.scores[begin:end],
            from_popularity=self.from_popularity[begin:end],
            unknown=self.unknown[begin:end],
            led_by=None if self.led_by is None else self.led_by[begin:end],
        )

    def row(self, number: int) -> tuple[IntArray, Float32Array]:
        """Return (positions, scores) of one history without the empty places.

        Parameters
        ----------
        number : int
            Which history.

        Returns
        -------
        tuple of ndarray
            At most `top` positions and their scores.
        """
        is_item = self.positions[number] >= 0
        return self.positions[number][is_item], self.scores[number][is_item]


@dataclass(frozen=True)
class Click:
    """One click of an explained history."""

    item: ItemId
    weight: float | None
    is_noise: bool | None


@dataclass(frozen=True)
class Reasons:
    """Why a history got what it got.

    Attributes
    ----------
    clicks : list of Click
        The known clicks, in order, with their weight in the group.
    shares : float ndarray of shape (n_clicks, n_items)
        How much of each recalled item's score each click brought.
    """

    clicks: list[Click]
    shares: FloatArray

    def matched(self, column: int) -> tuple[Click, float] | None:
        """Return the click that matched a recalled item best and its share, None where none."""
        if not len(self.clicks) or not self.shares[:, column].any():
            return None
        row = int(self.shares[:, column].argmax())
        return self.clicks[row], float(self.shares[row, column])


def noise_flags(weights: FloatArray) -> BoolArray:
    """Return which clicks of one history count as noise, shape (n_clicks,).

    The log-odds of a group weight are how strongly the other clicks agree with it. Noise is what
    finds less than half the agreement of the click that finds most; where no click finds any,
    nothing tells noise from the rest and no click is flagged.

    Examples
    --------
    >>> import numpy as np
    >>> noise_flags(np.array([0.99, 0.45, 0.98])).tolist()
    [False, True, False]
    """
    bounded = np.clip(weights, 1e-7, 1 - 1e-7)
    agreement = np.log(bounded) - np.log1p(-bounded)
    most = np.nanmax(agreement)
    return np.asarray((agreement < NOISE_BELOW * most) & (most > 0))
