"""Any scoring model as item-to-item neighbours, so that it can be served beside another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._checks import check_count
from groupnoise._typing import IntArray
from groupnoise.serving._scoring import Float32Array

_BLOCK_SCORES = 1 << 22


def neighbours_from_scores(
    scores_of: Callable[[IntArray], NDArray[Any]],
    n_items: int,
    *,
    top: int = 200,
    as_probabilities: bool = False,
) -> tuple[IntArray, NDArray[np.int32], Float32Array]:
    """Return the best next items of every item as compressed rows (indptr, indices, scores).

    Parameters
    ----------
    scores_of : callable
        Maps item positions, shape (n,), to the score of every item after each, (n, n_items).
    n_items : int
        Size of the catalogue.
    top : int
        How many neighbours to keep per item. Scores of zero or less are neighbours in name only
        and are dropped, unless that leaves an item without any.
    as_probabilities : bool
        Turn the scores of each item into a distribution (softmax) first, so that logits, which
        may be negative, can be summed over a history.

    Examples
    --------
    >>> import numpy as np
    >>> counts = np.array([[0, 3, 1], [3, 0, 0], [1, 0, 0]])
    >>> indptr, indices, scores = neighbours_from_scores(lambda items: counts[items], 3, top=1)
    >>> indices.tolist(), scores.tolist()
    ([1, 0, 0], [3.0, 3.0, 1.0])
    """
    check_count("top", top)
    n_kept = min(top, n_items - 1)
    step = max(1, _BLOCK_SCORES // n_items)
    indices, strengths, sizes = [], [], []
    for begin in range(0, n_items, step):
        items = np.arange(begin, min(begin + step, n_items))
        scores = np.array(scores_of(items), dtype=np.float32)
        scores[np.arange(len(items)), items] = -np.inf  # nothing is its own neighbour
        if as_probabilities:
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        best = np.argpartition(-scores, max(n_kept - 1, 0), axis=1)[:, :n_kept]
        values = np.take_along_axis(scores, best, axis=1)
        keep = np.isfinite(values) & ((values > 0) | ~(values > 0).any(axis=1, keepdims=True))
        indices.append(best[keep])
        strengths.append(values[keep])
        sizes.append(keep.sum(axis=1))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
    return indptr, np.concatenate(indices).astype(np.int32), np.concatenate(strengths)
