"""Exact search for the best inner products: blocked matrix products and a tournament.

Each block of items is scored by one matrix product. Position j of every block competes with
position j of the others, so a running maximum over blocks keeps one champion per column. The top
k items all lie in the k columns with the best champions, which leaves a few thousand scores to
sort instead of the whole catalogue; nothing is approximated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import IntArray
from groupnoise.recall.scoring import Float32Array, MatchingVectors, log_sum_exp

_BLOCK_ITEMS = 4096
_MAX_SCORES = 1 << 25
_MAX_PAIR_ROWS = 1024

ScoreBlock = Callable[[slice, Float32Array, Float32Array], None]
"""Fills its last argument with the scores of some rows (a slice) for a block of items."""


class ExactSearch:
    """The best items for each history, over all items or over some of them.

    Parameters
    ----------
    vectors : MatchingVectors
        The model.
    """

    def __init__(self, vectors: MatchingVectors) -> None:
        self._vectors = vectors
        # One scratch area per thread: allocating it anew costs as much as the product itself.
        self._scratch = threading.local()

    def by_last_click(
        self, clicks: IntArray, n: int, *, candidates: IntArray | None = None
    ) -> tuple[IntArray, Float32Array]:
        """Return the `n` best by MM: (positions, scores), each of shape (len(clicks), n).

        Where fewer than `n` candidates exist the rows end in -1 with score -inf.
        """
        rows = self._vectors.query_rows(clicks)

        def score(chunk: slice, block: Float32Array, out: Float32Array) -> None:
            np.matmul(rows[chunk], block.T, out=out)

        positions, scores = self._search(score, (len(clicks), 1), n, candidates)
        return positions, scores - self._vectors.log_normalizer[clicks, None]

    def by_all_clicks(
        self, histories: IntArray, n: int, *, candidates: IntArray | None = None
    ) -> tuple[IntArray, Float32Array]:
        """Return the `n` best by MM+ for histories of one size, shape (n_histories, size)."""
        n_histories, size = histories.shape
        rows = self._vectors.query_rows(histories.reshape(-1)).reshape(n_histories, size, -1)
        offsets = self._vectors.click_offsets(histories)

        def score(chunk: slice, block: Float32Array, out: Float32Array) -> None:
            pairs = rows[chunk].reshape(-1, rows.shape[2]) @ block.T
            pairs = pairs.reshape(len(out), size, len(block))
            pairs += offsets[chunk, :, None]
            out[...] = log_sum_exp(pairs, axis=1)

        return self._search(score, (n_histories, size), n, candidates)

    def _search(
        self, score: ScoreBlock, shape: tuple[int, int], n: int, candidates: IntArray | None
    ) -> tuple[IntArray, Float32Array]:
        """Search chunk by chunk, so that the scores kept and one block's pairs stay bounded."""
        n_rows, size = shape
        n_items = len(self._vectors.targets) if candidates is None else len(candidates)
        fit = min(_MAX_SCORES // max(n_items, _BLOCK_ITEMS), _MAX_PAIR_ROWS // size)
        step = max(1, fit)
        parts = []
        for begin in range(0, n_rows, step):
            chunk = slice(begin, min(begin + step, n_rows))
            parts.append(self._best(score, chunk, n, candidates))
        if not parts:
            return _nothing(0, n)
        positions, scores = zip(*parts, strict=True)
        return np.concatenate(positions), np.concatenate(scores)

    def _best(
        self, score: ScoreBlock, chunk: slice, n: int, candidates: IntArray | None
    ) -> tuple[IntArray, Float32Array]:
        targets = self._vectors.targets
        n_rows = chunk.stop - chunk.start
        n_items = len(targets) if candidates is None else len(candidates)
        if n_items == 0:
            return _nothing(n_rows, n)
        width = min(_BLOCK_ITEMS, n_items)
        n_blocks = -(-n_items // width)
        scores = self._workspace(n_blocks * n_rows * width).reshape(n_blocks, n_rows, width)
        champions = np.full((n_rows, width), -np.inf, dtype=np.float32)
        for number in range(n_blocks):
            begin, end = number * width, min((number + 1) * width, n_items)
            items = slice(begin, end) if candidates is None else candidates[begin:end]
            score(chunk, targets[items], scores[number, :, : end - begin])
            scores[number, :, end - begin :] = -np.inf
            np.maximum(champions, scores[number], out=champions)
        positions, best = tournament(scores, champions, n)
        if candidates is not None:
            positions = np.where(positions < 0, -1, candidates[positions])
        return positions, best

    def _workspace(self, n_floats: int) -> Float32Array:
        space: NDArray[Any] | None = getattr(self._scratch, "space", None)
        if space is None or len(space) < n_floats:
            space = self._scratch.space = np.empty(n_floats, dtype=np.float32)
        return space[:n_floats]


def tournament(
    scores: Float32Array, champions: Float32Array, n: int
) -> tuple[IntArray, Float32Array]:
    """Return the `n` best of scores cut into blocks, best first.

    Parameters
    ----------
    scores : float32 ndarray of shape (n_blocks, n_rows, width)
        Position p of row r is `scores[p // width, r, p % width]`; -inf marks no item.
    champions : float32 ndarray of shape (n_rows, width)
        The maximum over blocks.
    n : int
        How many to return; missing ones are -1 with score -inf.

    Examples
    --------
    >>> import numpy as np
    >>> blocks = np.array([[[1.0, 9.0]], [[5.0, 3.0]]], dtype=np.float32)
    >>> positions, best = tournament(blocks, blocks.max(axis=0), 2)
    >>> positions.tolist(), best.tolist()
    ([[1, 2]], [[9.0, 5.0]])
    """
    _, n_rows, width = scores.shape
    n_columns = min(n, width)
    columns = _largest(champions, n_columns)  # (n_rows, n_columns)
    finalists = scores[:, np.arange(n_rows)[:, None], columns]  # (n_blocks, n_rows, n_columns)
    finalists = finalists.transpose(1, 0, 2).reshape(n_rows, -1)
    chosen = _largest(finalists, min(n, finalists.shape[1]))
    best = np.take_along_axis(finalists, chosen, axis=1)
    column = np.take_along_axis(columns, chosen % n_columns, axis=1)
    positions = (chosen // n_columns) * width + column
    order = np.lexsort((positions, -best), axis=1)  # equal scores: the lower position first
    positions = np.take_along_axis(positions, order, axis=1).astype(np.int64)
    best = np.take_along_axis(best, order, axis=1)
    positions[np.isneginf(best)] = -1
    return _padded(positions, best, n)


def _largest(values: Float32Array, n: int) -> IntArray:
    """Return the columns of the `n` largest values of each row, in no order."""
    if n == values.shape[1]:
        return np.broadcast_to(np.arange(n), values.shape)
    return np.argpartition(values, values.shape[1] - n, axis=1)[:, values.shape[1] - n :]


def _padded(positions: IntArray, scores: Float32Array, n: int) -> tuple[IntArray, Float32Array]:
    missing = ((0, 0), (0, n - positions.shape[1]))
    if missing[1][1] == 0:
        return positions, scores
    return (
        np.pad(positions, missing, constant_values=-1),
        np.pad(scores, missing, constant_values=-np.inf),
    )


def _nothing(n_rows: int, n: int) -> tuple[IntArray, Float32Array]:
    return _padded(np.empty((n_rows, 0), np.int64), np.empty((n_rows, 0), np.float32), n)
