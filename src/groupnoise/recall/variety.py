"""Variety in an answer: likeness traded against score, caps per attribute, several interests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from groupnoise.clicks.mixture import Float32Array
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray

MAX_LIKENESS = 0.5
"""Cosine above which two clicks speak of one interest."""


def varied(
    scores: FloatArray,
    likeness: FloatArray | None,
    caps: Sequence[tuple[Sequence[Sequence[int]], int]],
    *,
    diversity: float,
    n: int,
) -> list[int]:
    """Return which of some ranked items to take, in this order: maximal marginal relevance.

    Each step takes the item with the greatest (1 - diversity) * relevance - diversity * likeness,
    where relevance is the score, scaled to reach from 0 to 1 over the items, and likeness that to
    the most similar item taken already; an item whose cap is reached is passed over.

    `scores`: best first. `likeness` (n_items, n_items): between items; only asked with diversity.
    `caps`: the codes of each item under one attribute, and how many items may share one.
    `diversity`: from 0, the order of the scores, to 1, as unlike as can be. `n`: how many to take.

    Examples
    --------
    >>> like = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> varied(np.array([3.0, 2.9, 2.0]), like, [], diversity=0.6, n=2)
    [0, 2]
    >>> varied(np.array([3.0, 2.9, 2.0]), None, [([[0], [0], [1]], 1)], diversity=0.0, n=2)
    [0, 2]
    """
    spread = scores[0] - scores[-1] if len(scores) else 0.0
    gain = (1.0 - diversity) * ((scores - scores[-1]) / spread if spread > 0 else 0.0 * scores)
    nearest = np.zeros(len(scores))
    is_open = np.ones(len(scores), dtype=bool)
    n_taken = [Counter[int]() for _ in caps]
    taken: list[int] = []
    while len(taken) < n and is_open.any():
        worth = np.where(is_open, gain - diversity * nearest, -np.inf)
        best = int(worth.argmax())
        is_open[best] = False
        if any(
            counts[code] >= most
            for counts, (codes, most) in zip(n_taken, caps, strict=True)
            for code in codes[best]
        ):
            continue
        for counts, (codes, _) in zip(n_taken, caps, strict=True):
            counts.update(codes[best])
        taken.append(best)
        if likeness is not None:
            nearest = np.maximum(nearest, likeness[best])
    return taken


def interests_of(
    clicks: IntArray, weights: FloatArray | None, likeness: FloatArray | None, n: int
) -> IntArray:
    """Return the clicks that stand for the interests of a history, the strongest first.

    A click stands for those like it: by weight, then by how late it came, clicks are taken that
    are unlike all taken before.

    `clicks`: positions of distinct items, oldest first. `weights`: p(click | history); NaN, and
    None, where the model has none. `likeness` (n_clicks, n_clicks): between the clicks; None where
    the model has no vectors. `n`: how many interests at most.
    """
    strength = np.zeros(len(clicks)) if weights is None else np.nan_to_num(weights, nan=-1.0)
    order = np.lexsort((-np.arange(len(clicks)), -strength))
    taken: list[int] = []
    for click in order.tolist():
        if len(taken) == n:
            break
        if likeness is None or not (likeness[click, taken] > MAX_LIKENESS).any():
            taken.append(click)
    return clicks[taken]


def strongest_interest(found: IntArray, scores: Float32Array) -> BoolArray:
    """Return where each item belongs to the interest that scores it highest.

    Of shape (n_interests, n). `found` (n_interests, n): positions found for each interest, -1 where
    none is. `scores` (n_interests, n): their scores; of equal ones the first interest counts.

    Examples
    --------
    >>> found = np.array([[7, 8], [8, -1]])
    >>> strongest_interest(found, np.array([[3.0, 1.0], [2.0, -np.inf]], dtype=np.float32)).tolist()
    [[True, False], [True, False]]
    """
    order = np.lexsort((np.repeat(np.arange(len(found)), found.shape[1]), -scores.ravel()))
    _, first = np.unique(found.ravel()[order], return_index=True)
    is_best = np.zeros(found.size, dtype=bool)
    is_best[order[first]] = True
    return is_best.reshape(found.shape) & (found >= 0)
