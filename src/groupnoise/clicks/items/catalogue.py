"""The items a recommender knows: their ids and indices, and the best `k` of a table of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, offsets_from_sizes
from groupnoise.core.checks import MAX_ID_LENGTH, as_histories, check_count
from groupnoise.exceptions import DataError, MissingColumnError, ModelFileError
from groupnoise.io.folders.array_folder import INTEGERS, check_offsets, require_array

if TYPE_CHECKING:
    from groupnoise.io.datasets import ClickDataset

CATEGORY_SEPARATOR = "|"
ATTRIBUTE_SIGN = "="
"""A category written `brand=Acme` is the value Acme of the attribute brand."""


class ClickLog(Protocol):
    """A log with one row per click: a frame, or what `read_clicks` returned."""

    @property
    def columns(self) -> Any:
        """The columns, or which of them play which part."""


IdHistories = Iterable[Sequence[Any] | NDArray[Any]]
ItemHistories = IdHistories | ClickLog
"""One time-ordered sequence of item ids per user, or the log to make them of."""


class RaggedIndices(Protocol):
    """Item indices row after row, as :class:`groupnoise.Groups` holds them."""

    objects: NDArray[Any]
    offsets: IntArray


class IndexedHistories(NamedTuple):
    """Histories as item indices; unlike groups, a row may be empty.

    `items`: item indices of all histories one after the other, unknown items left out.
    `n_unknown`: how many unknown items each history lost.
    """

    items: IntArray
    offsets: IntArray
    n_unknown: IntArray

    @property
    def rows(self) -> IntArray:
        """The history each item belongs to, shape (n_clicks,)."""
        return np.repeat(np.arange(len(self.n_unknown)), np.diff(self.offsets))

    @property
    def sources(self) -> NDArray[Any]:
        """What answers each history: "history", or "popularity" where no item of it is known."""
        return np.where(np.diff(self.offsets) > 0, "history", "popularity")


class Catalogue:
    """A two-way table between item ids and indices from 0.

    `ids`: distinct ids, all whole numbers or all strings; their order is the index.

    Examples
    --------
    >>> catalogue = Catalogue(["tea", "jam", "rye"])
    >>> indexed = catalogue.index([["jam", "ham"], ["rye", "tea"]])
    >>> indexed.items.tolist(), indexed.offsets.tolist(), indexed.n_unknown.tolist()
    ([1, 2, 0], [0, 1, 3], [1, 0])
    """

    def __init__(self, ids: ArrayLike) -> None:
        self.ids = _id_array(ids)
        if len(self.ids) == 0:
            raise DataError("a catalogue needs at least one item; got 0.")
        if self.ids.dtype.kind == "U" and self.ids.dtype.itemsize > 4 * MAX_ID_LENGTH:
            longest = max(self.ids.tolist(), key=len)
            raise DataError(
                f"item id {longest[:40]!r}... has {len(longest)} characters; ids have at most "
                f"{MAX_ID_LENGTH}."
            )
        self._order = np.argsort(self.ids, kind="stable")
        self._sorted = self.ids[self._order]
        repeated = np.flatnonzero(self._sorted[1:] == self._sorted[:-1])
        if len(repeated):
            raise DataError(f"item id {self._sorted[repeated[0]].item()!r} occurs twice.")

    @classmethod
    def of_histories(cls, histories: IdHistories) -> Catalogue:
        """Return the catalogue of every id that occurs, in sorted order."""
        flat, _ = _flatten(histories)
        return cls(np.unique(flat))

    def __len__(self) -> int:
        return len(self.ids)

    def indices_of(self, ids: ArrayLike) -> IntArray:
        """Return the index of each id, -1 where it is unknown; the shape is kept."""
        requested = _id_array(ids)
        if requested.size == 0:
            return np.zeros(requested.shape, dtype=np.int64)
        if requested.dtype.kind != self.ids.dtype.kind:
            kind = "whole numbers" if self.ids.dtype.kind == "i" else "strings"
            raise DataError(
                f"item ids are {kind} in this catalogue, but "
                f"{requested.flat[0].item()!r} was given; convert it first."
            )
        position = np.minimum(np.searchsorted(self._sorted, requested), len(self) - 1)
        return np.where(self._sorted[position] == requested, self._order[position], -1)

    def convert_ids(self, ids: ArrayLike) -> NDArray[Any]:
        """Return ids of a file in the type of this catalogue, to be looked up.

        Whether ids are numbers or text is inferred from each file by itself: where one id of a log
        is "7x" all are text, and another log of the same shop may hold whole numbers alone. Ids
        that cannot be converted become an unknown id.
        """
        given = _id_array(ids)
        if given.dtype.kind == self.ids.dtype.kind:
            return given
        if self.ids.dtype.kind == "U":
            return given.astype(np.str_)
        largest = int(self.ids.max())
        unknown = largest + 1 if largest < np.iinfo(np.int64).max else int(self.ids.min()) - 1
        whole = [whole_number(text) for text in given.tolist()]
        return np.array([unknown if n is None else n for n in whole], dtype=np.int64)

    def index(self, histories: ItemHistories | RaggedIndices) -> IndexedHistories:
        """Return histories as known item indices.

        `histories`: sequences hold ids and are looked up; groups hold indices already and are only
        checked against the size of the catalogue.
        """
        indices, offsets = self._lookup(histories)
        known = indices >= 0
        n_known_before = offsets_from_sizes(known)
        kept_offsets = n_known_before[offsets]
        n_unknown = np.diff(offsets) - np.diff(kept_offsets)
        return IndexedHistories(indices[known].astype(np.int64), kept_offsets, n_unknown)

    def knows(self, histories: ItemHistories | RaggedIndices) -> BoolArray:
        """Return whether the item of every click is known, shape (n_clicks,)."""
        indices, _ = self._lookup(histories)
        return indices >= 0

    def _lookup(self, histories: ItemHistories | RaggedIndices) -> tuple[IntArray, IntArray]:
        """Return the index of every click, -1 where it is unknown, and where histories begin."""
        if isinstance(offsets := getattr(histories, "offsets", None), np.ndarray):
            objects = check_item_indices(histories)
            return np.where((objects >= 0) & (objects < len(self)), objects, -1), offsets
        log = as_click_log(histories)
        if log is not None:
            return self.indices_of(self.convert_ids(log.item_ids))[
                log.histories.objects
            ], log.histories.offsets
        flat, offsets = _flatten(histories)  # type: ignore[arg-type]
        return self.indices_of(flat), offsets

    def ids_at(self, indices: IntArray) -> NDArray[Any]:
        """Return the id at each index; -1 becomes -1, or "" in a catalogue of strings."""
        ids = self.ids[indices]
        ids[indices < 0] = -1 if self.ids.dtype.kind == "i" else ""
        return ids

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the ids as numeric arrays that a model file can hold."""
        if self.ids.dtype.kind == "i":
            return {"item_ids": self.ids}
        encoded = [item.encode("utf-8") for item in self.ids.tolist()]
        return {
            "item_ids_utf8": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            "item_ids_ends": np.cumsum([len(item) for item in encoded]),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Catalogue:
        """Return the catalogue whose :meth:`to_arrays` are among `arrays`."""
        if "item_ids" in arrays:
            ids: ArrayLike = require_array(arrays, "item_ids", types=INTEGERS, shape=(None,))
        else:
            utf8 = require_array(arrays, "item_ids_utf8", types=("u1",), shape=(None,))
            ends = require_array(arrays, "item_ids_ends", types=INTEGERS, shape=(None,))
            offsets = np.concatenate([[0], ends])
            check_offsets("item_ids_ends", offsets, len(utf8))
            ids = _decoded(utf8.tobytes(), offsets.tolist())
        try:
            return cls(ids)
        except DataError as error:
            raise ModelFileError(f"the stored item ids are no catalogue: {error}") from None


def check_item_indices(histories: Any) -> NDArray[Any]:
    """Return the objects of groups of clicks; anything but item indices is refused."""
    objects: NDArray[Any] = histories.objects
    if objects.ndim != 1 or objects.dtype.kind not in "iu":
        raise DataError(
            f"groups of clicks must hold one whole item index per click; got dtype "
            f"{objects.dtype}, shape {objects.shape}."
        )
    return objects


def top_k(
    scores: FloatArray, k: int, exclude: tuple[IntArray, IntArray] | None = None
) -> tuple[IntArray, FloatArray]:
    """Return the indices and scores of the `k` best items of each row, best first.

    Returns `indices` (n_rows, k): of equal scores the lower index comes first; padded with -1;
    `best` (n_rows, k): their scores, padded with -inf. `scores` (n_rows, n_items):
    higher is better; -inf is never returned. `exclude`: rows and items that must not be returned.

    Examples
    --------
    >>> indices, best = top_k(np.array([[1.0, 3.0, 3.0]]), 2)
    >>> indices.tolist(), best.tolist()
    ([[1, 2]], [[3.0, 3.0]])
    """
    import torch  # not needed for looking up items

    check_count("k", k)
    table = np.array(scores)
    if exclude is not None:
        table[exclude] = -np.inf
    width = min(k, table.shape[1])
    # Torch finds a few of many several times faster than a partition of the row.
    best, picked = (found.numpy() for found in torch.topk(torch.from_numpy(table), width))
    in_order = np.lexsort((picked, -best), axis=1)
    best, picked = (np.take_along_axis(found, in_order, axis=1) for found in (best, picked))
    for row, last in enumerate(best[:, -1]):
        # topk picks any of the items tied with the last one; take the first of them.
        n_above = np.count_nonzero(best[row] > last)
        if np.count_nonzero(table[row] == last) > width - n_above:
            picked[row, n_above:] = np.flatnonzero(table[row] == last)[: width - n_above]
    indices = np.full((len(table), k), -1, dtype=np.int64)
    values = np.full((len(table), k), -np.inf, dtype=table.dtype)
    indices[:, :width], values[:, :width] = np.where(np.isneginf(best), -1, picked), best
    return indices, values


def as_click_log(histories: Any) -> ClickDataset | None:
    """Return a log of clicks, its columns guessed; None if it is not a log."""
    from groupnoise.clicks.reading.log import read_clicks  # which reads tables, and so loads polars
    from groupnoise.io.datasets import ClickDataset

    if isinstance(histories, ClickDataset):
        return histories
    # Asked of the type: a lazy frame would be computed for its columns.
    if not hasattr(type(histories), "columns"):
        return None
    try:
        return read_clicks(histories)
    except MissingColumnError as error:
        option = f"name it with `{error.part}` (--{error.part})"
        remedy = f"rename it, or pass groupnoise.clicks.read_clicks(frame, {error.part}=...)"
        raise MissingColumnError(str(error).replace(option, remedy), error.part) from None


def log_from_frame(histories: Any) -> ClickDataset | None:
    """Return the clicks of a frame, users in the order of their first rows; None if not a frame."""
    from groupnoise.clicks.reading.log import in_row_order
    from groupnoise.io.datasets import ClickDataset

    log = None if isinstance(histories, ClickDataset) else as_click_log(histories)
    return None if log is None else in_row_order(log, histories)


def reusable_histories(histories: Any) -> Any:
    """Return histories that can be iterated repeatedly: groups and logs unchanged, or a list."""
    if isinstance(getattr(histories, "offsets", None), np.ndarray):
        return histories
    log = as_click_log(histories)
    return list(histories) if log is None else log


def _flatten(histories: IdHistories) -> tuple[NDArray[Any], IntArray]:
    """Return all ids one after the other and where each history begins."""
    rows = as_histories(histories)
    offsets = offsets_from_sizes([len(history) for history in rows])
    if rows and all(_holds_whole_numbers(history) for history in rows):
        return np.concatenate(rows).astype(np.int64, copy=False), offsets
    return _id_array(list(chain.from_iterable(rows))), offsets


def _holds_whole_numbers(history: Any) -> bool:
    """Say whether a history is an array that fits int64, so that no click need be looked at."""
    is_row = isinstance(history, np.ndarray) and history.ndim == 1
    return is_row and history.dtype.kind in "iu" and np.can_cast(history.dtype, np.int64)


def _id_array(ids: ArrayLike) -> NDArray[Any]:
    """Return ids as an array of int64 or of str, never a mixture turned into text."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iU":
        return ids.astype(np.int64) if ids.dtype.kind == "i" else ids
    values = np.asarray(ids, dtype=object)
    numbers = [isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in values.flat]
    if all(numbers):
        try:
            return values.astype(np.int64)
        except OverflowError:
            raise DataError("an item id does not fit 64 bits; give ids as strings.") from None
    if all(isinstance(value, str) for value in values.flat):
        return values.astype(np.str_)
    are_ids = [
        is_number or isinstance(v, str) for is_number, v in zip(numbers, values.flat, strict=True)
    ]
    # Of numbers among texts one of the texts is shown.
    odd = values.flat[(are_ids if False in are_ids else numbers).index(False)]
    raise DataError(
        f"item ids must be all whole numbers or all strings; got {odd!r} of type "
        f"{type(odd).__name__}."
    )


def whole_number(value: Any) -> int | None:
    """Parse an id as a whole number; None for '007', '7x' and numbers beyond 64 bits."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if -(2**63) <= number < 2**63 and str(number) == str(value) else None


def _decoded(text: bytes, offsets: list[int]) -> list[str]:
    try:
        return [text[a:b].decode("utf-8") for a, b in pairwise(offsets)]
    except UnicodeDecodeError:
        raise ModelFileError("the stored item ids are not text in UTF-8.") from None
