"""Ranks of the true next items, among sampled items or in the whole catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.evaluation.ranking_slices import (
    SLICE,
    Exclusions,
    ScoresBySlice,
    draw_negatives,
    rank_by_slices,
)
from groupnoise.clicks.items.catalogue import top_k
from groupnoise.core.arrays import FloatArray, IntArray, RandomState, generator_from
from groupnoise.core.checks import check_choice, check_count
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError

PROTOCOLS = ("sampled", "full")

_BLOCK_ENTRIES = 1 << 25
"""Scores held at once: 128 MB in single precision."""
_READ_AT_ONCE = 1 << 16
"""Histories encoded at a time before they are scored."""
_NEAR_ENTRIES = 1 << 22
"""Scores held at once where a block should fit the cache."""


RowScores = Callable[[slice], FloatArray]
"""Maps a slice of the histories to their scores of all items."""


class Scorer(Protocol):
    """Anything that gives every item, or the named items, a score for each history."""

    def scores(self, histories: Groups, items: IntArray | None = None) -> FloatArray:
        """Return scores, higher is better.

        Of shape (n_groups, n_items). `histories`: item indices; targets, if any, must be ignored.
        `items` (n_groups, n_candidates): item indices to score for each history; all items if not
        given.
        """
        ...  # pragma: no cover


@runtime_checkable
class ReadingScorer(Protocol):
    """A scorer that can also encode all histories first, and score them after."""

    def history_logits(self, histories: Groups) -> RowScores | None:
        """Return a function that scores the encoded histories, None where not supported."""
        ...  # pragma: no cover


@runtime_checkable
class SlicedScorer(Protocol):
    """A scorer that can also score all histories for a few items at a time."""

    def item_slices(self, histories: Groups) -> ScoresBySlice | None:
        """Return the scores by slices of items, None where not supported."""
        ...  # pragma: no cover


class TargetRanks(NamedTuple):
    """How many of the other candidates beat, and equal, each target.

    `n_better`, `n_tied`: pass both to :func:`hit_at_k` and :func:`ndcg_at_k`.
    """

    n_better: IntArray
    n_tied: IntArray


def rank_targets(
    scorer: Scorer,
    groups: Groups,
    n_items: int,
    protocol: str = "sampled",
    *,
    seen: Groups | None = None,
    n_negatives: int = 100,
    random_state: RandomState = 0,
) -> TargetRanks:
    """Rank the target of each group among other items.

    Parameters
    ----------
    scorer : Scorer
        A fitted recommender, or anything with its `scores`.
    groups : Groups
        Item indices with the index of the next item as target, one group per test user.
    n_items : int
        The size of the catalogue.
    protocol : {"sampled", "full"}, default="sampled"
        `sampled` draws distinct negatives for each row uniformly from the items its user never
        touched (the paper's and its authors' protocol, with 100 of them; the authors' own code
        may draw one negative twice). `full` ranks the whole catalogue, less what was seen. A
        target that its own group holds is ranked among all items there.
    seen : Groups, optional
        For each row every item its user touched, at any time; these are no candidates. By
        default the row's own group. The target itself may be among them.
    n_negatives : int, default=100
        Negatives per row under `sampled`.
    random_state : int, generator or None, default=0
        Decides the negatives under `sampled`; the same seed gives all scorers the same ones.

    Returns
    -------
    TargetRanks
        `(n_better, n_tied)`, each of shape (n_groups,).

    Raises
    ------
    DataError
        If targets are missing or outside the catalogue, `seen` does not match the groups, too few
        items are left to draw from, or a score is NaN.

    Examples
    --------
    >>> class Shortest:
    ...     def scores(self, histories, items=None):
    ...         columns = np.broadcast_to(np.arange(6), (len(histories), 6))
    ...         return -(columns if items is None else items)
    >>> tests = Groups.from_lists([[0, 1], [5]], targets=[3, 3])
    >>> rank_targets(Shortest(), tests, n_items=6, protocol="full").n_better.tolist()
    [1, 3]
    """
    check_choice("protocol", protocol, PROTOCOLS)
    if protocol == "full":
        return _rank_by_slices(scorer, _Task.of(groups, n_items, seen))
    task = _Task.of(groups, n_items, seen, repeats_among_all=False)
    check_count("n_negatives", n_negatives)
    negatives = draw_negatives(task.excluded, n_items, n_negatives, generator_from(random_state))
    return _rank_among(scorer, groups, np.column_stack([task.targets, negatives]))


class _Task(NamedTuple):
    """Targets to rank, and the items that each is not compared with."""

    groups: Groups
    targets: IntArray
    n_items: int
    excluded: Exclusions

    @classmethod
    def of(
        cls, groups: Groups, n_items: int, seen: Groups | None, *, repeats_among_all: bool = True
    ) -> _Task:
        """Return the task of checked targets; a repeat may be ranked among all items."""
        targets = _checked_targets(groups, n_items)
        seen = groups if seen is None else seen
        histories = groups if repeats_among_all else None
        return cls(groups, targets, n_items, Exclusions(histories, seen, targets, n_items))

    def subset(self, rows: IntArray) -> _Task:
        """Return some of the targets, in rising order."""
        excluded = self.excluded.subset(rows)
        return self._replace(
            groups=self.groups.subset(rows), targets=self.targets[rows], excluded=excluded
        )


class RankedLists(NamedTuple):
    """The ranks of the targets, and the best items.

    `n_better`, `n_tied`: as in `TargetRanks`.
    `lists` (n_groups, top): the best items that were not seen, best first; -1 where there are
        fewer.
    """

    n_better: IntArray
    n_tied: IntArray
    lists: IntArray


def rank_and_list(
    scorer: Scorer, groups: Groups, n_items: int, *, seen: Groups | None = None, top: int = 10
) -> RankedLists:
    """Rank each target in the whole catalogue, and return the recommended items too."""
    check_count("top", top)
    lists = np.full((len(groups), top), -1, dtype=np.int64)
    return RankedLists(*_rank_in_catalogue(scorer, _Task.of(groups, n_items, seen), lists), lists)


def rank_by_popularity(
    popularity: FloatArray, groups: Groups, seen: Groups | None = None
) -> TargetRanks:
    """Rank each target among the unseen items by clicks alone, without scoring any row."""
    _, targets, n_items, excluded = _Task.of(groups, len(popularity), seen)
    rising = np.sort(popularity)
    own = popularity[targets]
    n_up_to = np.searchsorted(rising, own, side="right")
    better = n_items - n_up_to
    tied = n_up_to - np.searchsorted(rising, own, side="left")
    removed, of_target = popularity[excluded.items], own[excluded.rows]
    n_rows = len(targets)
    better = better - np.bincount(excluded.rows[removed > of_target], minlength=n_rows)
    tied = tied - np.bincount(excluded.rows[removed == of_target], minlength=n_rows)
    return TargetRanks(better, tied)


def _rank_among(scorer: Scorer, groups: Groups, candidates: IntArray) -> TargetRanks:
    """Rank the first candidate of each row among the others."""
    n_rows, n_candidates = candidates.shape
    better, tied = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    for rows in _blocks(n_rows, n_candidates):
        scores = np.asarray(scorer.scores(groups.subset(np.r_[rows]), candidates[rows]))
        _check_scores(scores, candidates[rows].shape)
        better[rows], tied[rows] = _compare(scores, scores[:, 0])
    return TargetRanks(better, tied - 1)


def _rank_by_slices(scorer: Scorer, task: _Task) -> TargetRanks:
    """Rank a few items at a time where the scorer offers that, and row by row where not."""
    groups, targets, n_items, excluded = task
    n_rows = len(groups)
    better, tied = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    is_settled = np.zeros(n_rows, dtype=bool)
    if isinstance(scorer, SlicedScorer):
        for rows in _blocks(n_rows, SLICE):
            slices = scorer.item_slices(groups.subset(np.r_[rows]))
            if slices is None:
                continue
            part = slice(excluded.offsets[rows.start], excluded.offsets[rows.stop])
            pairs = (excluded.rows[part] - rows.start, excluded.items[part])
            better[rows], tied[rows], is_settled[rows] = rank_by_slices(
                slices, targets[rows], n_items, pairs
            )
    left = np.flatnonzero(~is_settled)
    if len(left):
        better[left], tied[left] = _rank_in_catalogue(scorer, task.subset(left))
    return TargetRanks(better, tied)


def _rank_in_catalogue(scorer: Scorer, task: _Task, lists: IntArray | None = None) -> TargetRanks:
    """Rank in the whole catalogue, row by row; fill `lists` with the best unseen items."""
    groups = task.groups
    if isinstance(scorer, ReadingScorer) and len(groups) > _READ_AT_ONCE:
        parts = [
            _rank_in_catalogue(
                scorer, task.subset(np.r_[rows]), None if lists is None else lists[rows]
            )
            for rows in _blocks(len(groups), 1, _READ_AT_ONCE)
        ]
        return TargetRanks(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    logits = scorer.history_logits(groups) if isinstance(scorer, ReadingScorer) else None
    if logits is not None:
        return _rank_rows(logits, task, _NEAR_ENTRIES, lists)
    # Small blocks where no work is shared between rows, so that scores stay in the cache.
    n_entries = _BLOCK_ENTRIES if isinstance(scorer, SlicedScorer) else _NEAR_ENTRIES
    return _rank_rows(
        lambda rows: scorer.scores(groups.subset(np.r_[rows])), task, n_entries, lists
    )


def _rank_rows(
    scores_of: RowScores, task: _Task, n_entries: int, lists: IntArray | None
) -> TargetRanks:
    """Rank the targets of rows that are scored block by block."""
    _, targets, n_items, excluded = task
    n_rows = len(targets)
    better, tied = np.empty(n_rows, dtype=np.int64), np.empty(n_rows, dtype=np.int64)
    for rows in _blocks(n_rows, n_items, min(n_entries, _BLOCK_ENTRIES)):
        scores = np.asarray(scores_of(rows))
        n_block = rows.stop - rows.start
        _check_scores(scores, (n_block, n_items))
        target_scores = scores[np.arange(n_block), targets[rows]]
        better[rows], tied[rows] = _compare(scores, target_scores)
        # Counting all items and taking the excluded back costs less than masking the block.
        part = slice(excluded.offsets[rows.start], excluded.offsets[rows.stop])
        row = excluded.rows[part] - rows.start
        removed = scores[row, excluded.items[part]]
        better[rows] -= np.bincount(row[removed > target_scores[row]], minlength=n_block)
        tied[rows] -= np.bincount(row[removed == target_scores[row]], minlength=n_block)
        if lists is not None:
            seen_rows, seen_items = excluded.seen
            part = slice(*np.searchsorted(seen_rows, (rows.start, rows.stop)))
            seen = (seen_rows[part] - rows.start, seen_items[part])
            lists[rows] = top_k(scores, lists.shape[1], seen)[0]
    return TargetRanks(better, tied)


def _compare(scores: FloatArray, target_scores: FloatArray) -> tuple[IntArray, IntArray]:
    """Count per row the scores above, and equal to, the target's (itself included).

    Row by row: a row stays in the cache for both counts, and counting one array of truth values
    is many times faster than summing along an axis of many.
    """
    better = np.empty(len(scores), dtype=np.int64)
    tied = np.empty(len(scores), dtype=np.int64)
    for number, (row, target) in enumerate(zip(scores, target_scores, strict=True)):
        better[number] = np.count_nonzero(row > target)
        tied[number] = np.count_nonzero(row == target)
    return better, tied


def _blocks(n_rows: int, width: int, n_entries: int | None = None) -> list[slice]:
    size = max(1, (n_entries or _BLOCK_ENTRIES) // width)
    return [slice(start, min(start + size, n_rows)) for start in range(0, n_rows, size)]


def _check_scores(scores: NDArray[np.floating], shape: tuple[int, ...]) -> None:
    if scores.shape != shape:
        raise DataError(
            f"the scorer returned scores of shape {scores.shape}; (rows, items) = {shape} was "
            "expected. Fit it on the same catalogue."
        )
    # The largest score is NaN if any is, and costs no further block of memory.
    if np.isnan(scores.max(axis=1)).any():
        raise DataError("the scorer returned NaN; a rank cannot be read from it.")


def _checked_targets(groups: Groups, n_items: int) -> IntArray:
    if groups.targets is None:
        raise DataError("these groups have no targets, so there is nothing to rank.")
    targets = np.asarray(groups.targets, dtype=np.int64)
    outside = np.flatnonzero((targets < 0) | (targets >= n_items))
    if len(outside):
        raise DataError(
            f"target {targets[outside[0]]} in row {outside[0]} is outside the catalogue of "
            f"{n_items} items."
        )
    return targets
