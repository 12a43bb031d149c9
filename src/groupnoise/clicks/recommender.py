"""Answering with a recommender: reading histories, scoring them in blocks, ranking items."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from groupnoise.clicks.items.catalogue import (
    Catalogue,
    ClickLog,
    IdHistories,
    IndexedHistories,
    ItemHistories,
    check_item_indices,
    log_from_frame,
    reusable_histories,
    top_k,
)
from groupnoise.clicks.reading.oddities import (
    lost_zeros_message,
    padding_message,
    unknown_items_message,
)
from groupnoise.core.arrays import FloatArray, IntArray, count_ids
from groupnoise.core.checks import check_count
from groupnoise.core.groups import Groups
from groupnoise.core.words import Topic, counted, topic_of
from groupnoise.exceptions import DataError, UnknownTargetError
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.folders.array_folder import FLOATS, INTEGERS, check_numbers, require_array

BLOCK_ENTRIES = 1 << 22
"""Scores computed at once: 32 MB in double precision."""


class Recommender(BaseEstimator):
    """Histories in, scores over items out; a subclass learns and says how to score.

    Histories are lists of item ids, each a user's clicks in time order, or
    :class:`~groupnoise.Groups` of item *indices* into `items_`, or a log with one row per click: a
    frame of pandas, polars or pyarrow with columns such as user, item and time, or what
    :func:`~groupnoise.clicks.read_clicks` returned. A frame is answered user by user in the order
    of their first rows, what `read_clicks` returned in that of its `user_ids`.
    """

    _learned: ClassVar[str] = "catalogue_"
    """The attribute that holds what training gives; without it a recommender is not fitted."""

    catalogue_: Catalogue
    popularity_: FloatArray

    @property
    def items_(self) -> NDArray[Any]:
        """The id of each item index, shape (n_items,)."""
        return self.catalogue_.ids

    @property
    def n_items_(self) -> int:
        """The size of the catalogue."""
        return len(self.catalogue_)

    def scores(
        self, histories: ItemHistories | Groups, items: ArrayLike | None = None
    ) -> FloatArray:
        """Score items as the next click of each history, higher is better.

        Parameters
        ----------
        histories : sequence of sequences of item ids, Groups of item indices, or a log
            Unknown items are ignored; an empty history is answered with popularity. Targets of
            groups are ignored.
        items : array-like of shape (n_histories, n_candidates) or (n_candidates,), optional
            What to score: ids if histories hold ids, indices if they are groups. All by default.

        Returns
        -------
        ndarray of shape (n_histories, n_items_) or (n_histories, n_candidates)
            -inf for a candidate that is not in the catalogue.
        """
        check_is_fitted(self)
        indexed = self.catalogue_.index(log_from_frame(histories) or histories)
        n_rows = len(indexed.n_unknown)
        if items is None:
            candidates = None
        else:
            requested = np.asarray(items)
            indices = (
                np.where((requested >= 0) & (requested < self.n_items_), requested, -1)
                if isinstance(histories, Groups)
                else self.catalogue_.indices_of(requested)
            )
            candidates = np.broadcast_to(indices, (n_rows, indices.shape[-1]))
            if candidates.size == 0:
                return np.zeros(candidates.shape)
        blocks = [block for _, block in self._score_blocks(indexed, candidates)]
        if not blocks:
            return np.zeros((0, self.n_items_))
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    @overload
    def recommend(
        self,
        histories: IdHistories | Groups | ClickDataset,
        top: int = 10,
        exclude_seen: bool = True,
    ) -> tuple[NDArray[Any], FloatArray]: ...

    @overload
    def recommend(self, histories: ClickLog, top: int = 10, exclude_seen: bool = True) -> Any: ...

    def recommend(
        self, histories: ItemHistories | Groups, top: int = 10, exclude_seen: bool = True
    ) -> Any:
        """Return the items each history should be followed by, best first.

        Parameters
        ----------
        histories : sequence of sequences of item ids, Groups of item indices, or a log
            As in :meth:`scores`. A frame is answered by a frame, which says whose each row is.
        top : int, default=10
            How many items to return; never more than the catalogue holds.
        exclude_seen : bool, default=True
            Leave out what the history holds already.

        Returns
        -------
        ids : ndarray of shape (n_histories, min(top, n_items_))
            Item ids; of equal scores the item listed earlier in `items_` comes first. A place
            that cannot be filled holds -1 (or an empty string) and scores -inf.
        scores : ndarray of shape (n_histories, min(top, n_items_))
        frame : frame of the library of `histories`
            Instead of both where `histories` is a frame: a row for each item, with the columns of
            the user and of the item as the log calls them, `rank` from 1, `score`, and `source`:
            "history", or "popularity" where no item of a history is known and the score is a count
            of clicks. Users come in the order of their first rows, and places that cannot be filled
            have no row. A log of which no item is known is warned of,
            and so is one whose ids lost the zeros before them.
        """
        check_is_fitted(self)
        check_count("top", top)
        top = min(top, self.n_items_)
        log = log_from_frame(histories)
        indexed = self.catalogue_.index(log or histories)
        n_rows = len(indexed.n_unknown)
        best = np.full((n_rows, top), -1, dtype=np.int64)
        values = np.full((n_rows, top), -np.inf)
        for rows, block in self._score_blocks(indexed, None):
            part = slice(indexed.offsets[rows.start], indexed.offsets[rows.stop])
            seen = (indexed.rows[part] - rows.start, indexed.items[part])
            best[rows], values[rows] = top_k(block, top, seen if exclude_seen else None)
        if log is None:
            return self.catalogue_.ids_at(best), values
        if not len(indexed.items):
            about = unknown_items_message(log.item_ids, self.items_)
            warnings.warn(f"answered by popularity: {about}", UserWarning, stacklevel=2)
        elif lost := lost_zeros_message(log.item_ids, self.items_):
            warnings.warn(f"unknown items: {lost}.", UserWarning, stacklevel=2)
        return self._as_frame(histories, log, best, values, indexed.sources)

    def _as_frame(
        self,
        frame: Any,
        log: ClickDataset,
        best: IntArray,
        values: FloatArray,
        sources: NDArray[Any],
    ) -> Any:
        """Return answers to the users of a frame as a frame of the same library."""
        from groupnoise.io.tables.table import frame_like  # which loads polars

        users, ranks = np.nonzero(best >= 0)
        names = log.columns or {}
        columns = {
            names["user"]: log.user_ids[users],
            names["item"]: self.items_[best[users, ranks]],
            "rank": ranks + 1,
            "score": values[users, ranks],
            "source": sources[users],
        }
        return frame_like(frame, columns)

    def export(
        self,
        path: Path | str,
        *,
        titles: Sequence[str] | None = None,
        categories: Sequence[str | Sequence[str]] | None = None,
        card: Mapping[str, Any] | None = None,
        n_neighbours: int = 200,
    ) -> str:
        """Write this model as an artifact: a folder that answers without torch, and alike.

        A model of vectors is written with its scoring rule and answers as :meth:`recommend` does.
        Any other is written as the best next items of every item, and answers by their sum.

        Parameters
        ----------
        path : path
            The folder; an artifact already there is replaced at once.
        titles : sequence of str, optional
            The title of each item, in the order of `items_`.
        categories : sequence of str or of sequences of str, optional
            The category, or all categories, of each item.
        card : mapping, optional
            What readers should know: name, data, metrics. Anything JSON can hold.
        n_neighbours : int, default=200
            How many next items to keep per item where the model is not made of vectors.

        Returns
        -------
        str
            The version of the artifact.

        Raises
        ------
        ParameterError
            If the model scores by code that no file can hold.
        """
        check_is_fitted(self)
        described = {
            "titles": titles,
            "categories": categories,
            "card": {"name": type(self).__name__, **(card or {})},
        }
        return self._write_artifact(path, n_neighbours, described)

    def _write_artifact(
        self, path: Path | str, n_neighbours: int, described: dict[str, Any]
    ) -> str:
        """Write the best next items of every item; a model of vectors writes these instead."""
        from groupnoise.recall.artifact import write_neighbour_artifact
        from groupnoise.recall.rankers import neighbours_from_scores

        indptr, indices, scores = neighbours_from_scores(
            self._scores_after, self.n_items_, top=n_neighbours
        )
        return write_neighbour_artifact(
            path,
            ids=self.items_,
            indptr=indptr,
            indices=indices,
            scores=scores,
            popularity=self.popularity_,
            scope=getattr(self, "scope", "group"),
            **described,
        )

    def _scores_after(self, items: IntArray) -> FloatArray:
        """Return how well all items follow a click on each of some, shape (n, n_items).

        Artifacts and `similar_items` have these scores; nothing follows itself. Scores that may be
        negative, such as logits, become probabilities, which can be summed over a history.
        """
        scores = self._after_one_click(items).astype(np.float32)
        if self.n_items_ > 1:
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores /= scores.sum(axis=1, keepdims=True)
        return scores

    def _after_one_click(self, items: IntArray) -> FloatArray:
        """Return the scores of all items after single clicks, -inf for the clicked one."""
        scores = np.array(self._score_all(Groups(items, np.arange(len(items) + 1))))
        scores[np.arange(len(items)), items] = -np.inf
        return scores

    def _check_parameters(self) -> None:
        """Refuse parameters out of range; called first by `fit`."""

    def _check_popularity(self) -> None:
        """Refuse popularity from a file that does not fit the catalogue."""
        popularity = require_array(
            {"popularity": self.popularity_},
            "popularity",
            types=(*FLOATS, *INTEGERS),
            shape=(self.n_items_,),
        )
        check_numbers("popularity", popularity)

    def _rows_at_once(self, n_candidates: int | None) -> int:
        """Return how many histories to score together, for that many candidates or for all."""
        return max(1, BLOCK_ENTRIES // max(self.n_items_, n_candidates or 0))

    @abstractmethod
    def _score_all(self, histories: Groups) -> FloatArray:
        """Return scores of all items, shape (n_groups, n_items)."""

    def _score_some(self, histories: Groups, items: IntArray) -> FloatArray:
        """Return scores of the given items, shape of `items`."""
        return np.take_along_axis(self._score_all(histories), items, axis=1)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._learned)

    def _prepare(self, histories: ItemHistories | Groups, item_ids: Any) -> Groups:
        """Check parameters, set catalogue and popularity, and return the training data."""
        self._check_parameters()
        catalogue, training = self._read_training(histories, item_ids)
        clicks = training.objects if training.targets is None else training.targets
        if hasattr(self, self._learned):
            # Should this fit fail, what an earlier one learned must not answer under new names.
            delattr(self, self._learned)
        self.catalogue_, self.popularity_ = catalogue, count_ids(clicks, len(catalogue))
        return training

    def _read_training(
        self, histories: ItemHistories | Groups, item_ids: Any
    ) -> tuple[Catalogue, Groups]:
        """Return the catalogue and the training data as groups of item indices."""
        if isinstance(histories, Groups):
            arrays = [
                a for a in (check_item_indices(histories), histories.targets) if a is not None
            ]
            largest = max(int(a.max()) for a in arrays)
            if min(int(a.min()) for a in arrays) < 0:
                raise DataError("groups of clicks hold a negative item index.")
            catalogue = Catalogue(np.arange(largest + 1) if item_ids is None else item_ids)
            if largest >= len(catalogue):
                raise DataError(
                    f"groups hold item index {largest}, but item_ids lists "
                    f"{counted(len(catalogue), 'items')}."
                )
            return catalogue, histories
        rows = reusable_histories(histories)
        if isinstance(rows, ClickDataset) and rows is not histories:  # a frame was read just now
            for guess in rows.notes.get("guesses", ()):
                if topic_of(guess) in (Topic.CLICKS, Topic.ORDER):
                    how = " (options of groupnoise.clicks.read_clicks)" * (" --" in guess)
                    warnings.warn(f"{guess}{how}.", UserWarning, stacklevel=4)
        if padding := padding_message(histories):
            warnings.warn(f"{padding}.", UserWarning, stacklevel=4)
        if isinstance(rows, ClickDataset) and item_ids is None:
            return self._read_training(rows.histories, rows.item_ids)
        catalogue = Catalogue.of_histories(rows) if item_ids is None else Catalogue(item_ids)
        indexed = catalogue.index(rows)
        if indexed.n_unknown.any():
            row = int(indexed.n_unknown.argmax())
            raise UnknownTargetError(f"history {row} holds items that item_ids does not list.")
        return catalogue, _non_empty(indexed)

    def _score_blocks(
        self, indexed: IndexedHistories, candidates: IntArray | None
    ) -> Iterator[tuple[slice, FloatArray]]:
        """Yield (rows, scores) block by block, popularity standing in for empty histories."""
        n_rows = len(indexed.n_unknown)
        size = self._rows_at_once(None if candidates is None else candidates.shape[1])
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            block_candidates = None if candidates is None else candidates[rows]
            yield rows, self._score_block(_rows_of(indexed, rows), block_candidates)

    def _score_block(self, indexed: IndexedHistories, candidates: IntArray | None) -> FloatArray:
        n_rows = len(indexed.n_unknown)
        shape = (n_rows, self.n_items_) if candidates is None else candidates.shape
        known = None if candidates is None else np.maximum(candidates, 0)
        answered = np.flatnonzero(np.diff(indexed.offsets))
        if len(answered):
            groups = _non_empty(indexed)
            scores = (
                self._score_all(groups)
                if known is None
                else self._score_some(groups, known[answered])
            )
        if len(answered) < n_rows:
            popularity = self.popularity_ if known is None else self.popularity_[known]
            filled = np.array(np.broadcast_to(popularity, shape))
            if len(answered):
                filled[answered] = scores
            scores = filled
        return scores if candidates is None else np.where(candidates < 0, -np.inf, scores)


def last_items(histories: Groups) -> IntArray:
    """Return the most recent item of each history, shape (n_groups,)."""
    return np.asarray(histories.objects[histories.offsets[1:] - 1])


def _non_empty(indexed: IndexedHistories) -> Groups:
    """Return the histories that hold any item."""
    rows = np.flatnonzero(np.diff(indexed.offsets))
    if len(rows) == 0:
        raise DataError("every history is empty; at least one click is needed.")
    return Groups(indexed.items, np.concatenate([[0], indexed.offsets[rows + 1]]))


def _rows_of(indexed: IndexedHistories, rows: slice) -> IndexedHistories:
    first, last = indexed.offsets[rows.start], indexed.offsets[rows.stop]
    offsets = indexed.offsets[rows.start : rows.stop + 1] - first
    return IndexedHistories(indexed.items[first:last], offsets, indexed.n_unknown[rows])
