"""Exact top-k search by blocked matrix products and a tournament.

Each block of items is scored by one matrix product. Position j of every block competes with
position j of the others, so a running maximum over blocks keeps one champion per column. The top
k items all lie in the k columns with the best champions, so a few thousand scores are sorted
instead of the whole catalogue; nothing is approximated. Excluded items are masked before they
compete, so a long history costs no more than a short one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.mixture import Float32Array, Mixture, log_sum_exp
from groupnoise.core.arrays import IntArray
from groupnoise.recall.vectors import MatchingVectors

Ranking = tuple[IntArray, Float32Array]
"""(positions, scores), each of shape (n_histories, n), best first; padded with -1 and -inf."""

_BLOCK_ITEMS = 4096
_MIN_WIDTH = 32
_MAX_SCORES = 1 << 25
_MAX_PAIR_ROWS = 1024

ScoreBlock = Callable[[slice, Float32Array, Float32Array], None]
"""Writes the scores of some rows (a slice) for items (dim + 1, n_items) to its last argument."""


@dataclass(frozen=True)
class Eligible:
    """Which items may be recalled for each history.

    `candidates`: the only positions that may be recalled, ascending; None means all.
    `denied`: positions excluded for all histories; none of them is a candidate.
    `seen`: the positions excluded for each history.
    """

    candidates: IntArray | None = None
    denied: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    seen: Sequence[IntArray] | None = None

    def take(self, rows: IntArray) -> Eligible:
        """Return the eligible items of a subset of the histories."""
        seen = None if self.seen is None else [self.seen[row] for row in rows.tolist()]
        return Eligible(self.candidates, self.denied, seen)

    def excluded(self, row: int) -> IntArray:
        """Return the positions excluded for one history, ascending."""
        seen = self.denied[:0] if self.seen is None else self.seen[row]
        return np.union1d(seen, self.denied)

    def pairs(self, rows: slice) -> tuple[IntArray, IntArray]:
        """Return (history, column) of the items excluded for a slice of the histories.

        Columns are ascending, and index the candidates if there are any, else all items.
        """
        n_rows = rows.stop - rows.start
        seen = [] if self.seen is None else self.seen[rows]
        items = np.concatenate([self.denied[:0], *seen])
        row = np.repeat(np.arange(len(seen)), [len(positions) for positions in seen])
        if self.candidates is not None:
            column = np.searchsorted(self.candidates, items)
            is_candidate = np.isin(items, self.candidates)
            row, items = row[is_candidate], column[is_candidate]
        if len(self.denied):
            row = np.concatenate([row, np.tile(np.arange(n_rows), len(self.denied))])
            items = np.concatenate([items, np.repeat(self.denied, n_rows)])
        order = np.argsort(items, kind="stable")
        return row[order], items[order]


class ExactSearch:
    """Exact search for the best items of histories, over all items or some."""

    def __init__(self, vectors: MatchingVectors) -> None:
        self._vectors = vectors
        # One workspace per thread: allocating it costs as much as the product itself.
        self._scratch = threading.local()

    @cached_property
    def _target_columns(self) -> Float32Array:
        """Contiguous transposed targets, (dim + 1, n_items): faster for a few queries."""
        return np.ascontiguousarray(self._vectors.targets.T)

    def search(self, mixture: Mixture, n: int, eligible: Eligible | None = None) -> Ranking:
        """Return the `n` best items per history of a mixture.

        Returns `positions` (n_histories, n): best first; of equal scores the lower position comes
        first. Where fewer than `n` items are eligible a row ends in -1; `scores` (n_histories, n):
        -inf where a position is -1. `eligible`: what may be returned; everything by default.
        """
        eligible = eligible or Eligible()
        n_histories = len(mixture.offsets) - 1
        rows = self._vectors.query_rows(mixture)
        # With one query each over the whole catalogue, the search computes the log-normalizer.
        normalize = (
            mixture.items is None
            and eligible.candidates is None
            and len(mixture.query_of) == n_histories
        )
        offsets = mixture.log_weight if normalize else self._vectors.term_offsets(mixture)
        all_positions, all_scores = empty_ranking(n_histories, n)
        for histories, terms in mixture.by_size():
            is_single = terms.shape[1] == 1
            term_queries = mixture.query_of[terms]
            score = (
                _single_query_scores(rows, term_queries)
                if is_single
                else _mixture_scores(rows, term_queries, offsets[terms])
            )
            eligible_rows = eligible.take(histories)
            positions, scores = self._search(score, terms.shape, n, eligible_rows, normalize)
            if is_single:  # a constant per history, which does not change the order
                scores = scores + offsets[terms]
            all_positions[histories], all_scores[histories] = positions, scores
        return all_positions, all_scores

    def _search(
        self, score: ScoreBlock, shape: tuple[int, ...], n: int, eligible: Eligible, normalize: bool
    ) -> Ranking:
        """Search chunks of histories, so that the memory of scores and pairs is bounded."""
        n_rows, size = shape
        items = self._vectors.targets if eligible.candidates is None else eligible.candidates
        if len(items) == 0:
            return empty_ranking(n_rows, n)
        n_fitting = min(_MAX_SCORES // max(len(items), _BLOCK_ITEMS), _MAX_PAIR_ROWS // size)
        step = max(1, n_fitting)
        best = self._search_one_block if len(items) <= _BLOCK_ITEMS else self._search_blocks
        chunks = [slice(begin, min(begin + step, n_rows)) for begin in range(0, n_rows, step)]
        parts = [best(score, chunk, n, len(items), eligible, normalize) for chunk in chunks]
        positions, scores = zip(*parts, strict=True)
        return np.concatenate(positions), np.concatenate(scores)

    def _search_one_block(
        self,
        score: ScoreBlock,
        chunk: slice,
        n: int,
        n_items: int,
        eligible: Eligible,
        normalize: bool,
    ) -> Ranking:
        """Rank a small catalogue, whose scores are computed by one product."""
        targets, candidates = self._vectors.targets, eligible.candidates
        n_rows = chunk.stop - chunk.start
        # The width balances the numbers of champions and of finalists to sort.
        width = max(_MIN_WIDTH, 1 << (n_items * n).bit_length() // 2)
        n_blocks = -(-n_items // width)
        padded = self._workspace(n_rows * n_blocks * width).reshape(n_rows, n_blocks * width)
        scores = padded[:, :n_items]
        score(chunk, self._target_columns if candidates is None else targets[candidates].T, scores)
        log_normalizer = log_sum_exp(scores.copy(), axis=1)[:, None] if normalize else None
        scores[eligible.pairs(chunk)] = -np.inf
        padded[:, n_items:] = -np.inf
        blocks = padded.reshape(n_rows, n_blocks, width)
        positions, best = tournament(blocks.transpose(1, 0, 2), blocks.max(axis=1), n)
        if candidates is not None:
            positions = np.where(positions < 0, -1, candidates[positions])
        return positions, best if log_normalizer is None else best - log_normalizer

    def _search_blocks(
        self,
        score: ScoreBlock,
        chunk: slice,
        n: int,
        n_items: int,
        eligible: Eligible,
        normalize: bool,
    ) -> Ranking:
        targets, candidates = self._vectors.targets, eligible.candidates
        n_rows = chunk.stop - chunk.start
        width = min(_BLOCK_ITEMS, n_items)
        n_blocks = -(-n_items // width)
        scores = self._workspace(n_blocks * n_rows * width).reshape(n_blocks, n_rows, width)
        champions = np.full((n_rows, width), -np.inf, dtype=np.float32)
        log_normalizer = np.full(n_rows, -np.inf if normalize else 0.0, dtype=np.float32)
        row, column = eligible.pairs(chunk)
        cuts = np.searchsorted(column, width * np.arange(n_blocks + 1))
        for number in range(n_blocks):
            begin, end = number * width, min((number + 1) * width, n_items)
            items = slice(begin, end) if candidates is None else candidates[begin:end]
            score(chunk, targets[items].T, scores[number, :, : end - begin])
            if normalize:
                block_normalizer = log_sum_exp(scores[number, :, : end - begin].copy(), axis=1)
                log_normalizer = np.logaddexp(log_normalizer, block_normalizer)
            scores[number, :, end - begin :] = -np.inf
            out = slice(cuts[number], cuts[number + 1])
            scores[number, row[out], column[out] - begin] = -np.inf
            np.maximum(champions, scores[number], out=champions)
        positions, best = tournament(scores, champions, n)
        if candidates is not None:
            positions = np.where(positions < 0, -1, candidates[positions])
        return positions, best - log_normalizer[:, None]

    def _workspace(self, n_floats: int) -> Float32Array:
        space: NDArray[Any] | None = getattr(self._scratch, "space", None)
        if space is None or len(space) < n_floats:
            space = self._scratch.space = np.empty(n_floats, dtype=np.float32)
        return space[:n_floats]


def _single_query_scores(rows: Float32Array, query_of: IntArray) -> ScoreBlock:
    """Return a function that scores histories of one query each by a product."""
    queries = rows[query_of[:, 0]]

    def score(chunk: slice, block: Float32Array, out: Float32Array) -> None:
        np.matmul(queries[chunk], block, out=out)

    return score


def _mixture_scores(rows: Float32Array, query_of: IntArray, offsets: Float32Array) -> ScoreBlock:
    """Return a function that scores histories of several queries: log of summed probabilities."""

    def score(chunk: slice, block: Float32Array, out: Float32Array) -> None:
        chunk_queries = query_of[chunk]
        pairs = rows[chunk_queries.reshape(-1)] @ block
        pairs = pairs.reshape(*chunk_queries.shape, block.shape[1])
        pairs += offsets[chunk, :, None]
        out[...] = log_sum_exp(pairs, axis=1)

    return score


def tournament(scores: Float32Array, champions: Float32Array, n: int) -> Ranking:
    """Return the `n` best of scores cut into blocks, best first.

    Returns `positions` of shape (n_rows, n) and `best` of shape (n_rows, n). `scores` (n_blocks,
    n_rows, width): position p of row r is `scores[p // width, r, p % width]`; -inf marks no item.
    `champions` (n_rows, width): the maximum over blocks. `n`: how many to return; missing ones are
    -1 with score -inf.

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
    rows = np.arange(n_rows)[:, None]
    finalists = scores[:, rows, columns]  # (n_blocks, n_rows, n_columns)
    finalists = finalists.transpose(1, 0, 2).reshape(n_rows, -1)
    chosen = _largest(finalists, min(n, finalists.shape[1]))
    best = finalists[rows, chosen]
    block, position = np.divmod(chosen, n_columns)
    positions = block * width + columns[rows, position]
    return _sorted_ranking(positions, best, n)


def _sorted_ranking(positions: IntArray, best: Float32Array, n: int) -> Ranking:
    """Sort chosen items by score, then position, and pad each row to `n`."""
    n_rows = len(best)
    order = np.lexsort((positions, -best), axis=1)
    rows = np.arange(n_rows)[:, None]
    positions, best = positions[rows, order].astype(np.int64), best[rows, order]
    positions[np.isneginf(best)] = -1
    if positions.shape[1] == n:
        return positions, best
    padded_positions, padded_best = empty_ranking(n_rows, n)
    padded_positions[:, : positions.shape[1]] = positions
    padded_best[:, : best.shape[1]] = best
    return padded_positions, padded_best


def _largest(values: Float32Array, n: int) -> IntArray:
    """Return the columns of the `n` largest values of each row, unordered."""
    if n == values.shape[1]:
        return np.broadcast_to(np.arange(n), values.shape)
    return np.argpartition(values, values.shape[1] - n, axis=1)[:, values.shape[1] - n :]


def empty_ranking(n_rows: int, n: int) -> Ranking:
    """Return an empty ranking of `n` positions per row."""
    return (
        np.full((n_rows, n), -1, dtype=np.int64),
        np.full((n_rows, n), -np.inf, dtype=np.float32),
    )
