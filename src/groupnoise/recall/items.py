"""The items of an artifact: ids to positions and back, titles, categories, popularity."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.items.catalogue import ATTRIBUTE_SIGN, CATEGORY_SEPARATOR, whole_number
from groupnoise.core.arrays import BoolArray, IntArray, offsets_from_sizes
from groupnoise.core.checks import MAX_ID_LENGTH, check_finite, did_you_mean
from groupnoise.exceptions import DataError

MAX_MATCHES = 20_000
"""Matches of a word that are ranked, to bound the time of a search."""
MAX_LOOKED_UP = 4096
"""Items of a catalogue small enough for a dictionary of ids."""
MAX_COMPARED = 1000
"""Items sampled when two catalogues are compared."""
_SPACE, _NEWLINE = ord(" "), ord("\n")
CATEGORY = "category"
COMBINED_BY = ("and", "or", "not")
MAX_WORDS = 8


class TextColumn:
    """One text per row, stored as UTF-8 lines end to end."""

    def __init__(self, text: NDArray[np.uint8], offsets: NDArray[np.int64]) -> None:
        self._bytes = text
        self._text = text.data
        self._offsets = offsets

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> TextColumn | None:
        """Return the named column, None where the artifact lacks it."""
        if name not in arrays:
            return None
        return cls(arrays[name], arrays[f"{name}_offsets"])

    def __getitem__(self, row: int) -> str:
        begin, end = int(self._offsets[row]), int(self._offsets[row + 1]) - 1
        # The text of a memory-mapped artifact was not checked when it was opened.
        return str(self._text[begin:end], "utf-8", "replace")

    def rows_containing(self, words: Sequence[str]) -> tuple[IntArray, BoolArray]:
        """Return the rows whose text contains every word, and where the rarest begins a word."""
        hits = sorted((self._find_word(word) for word in words), key=len)
        starts = hits[0]
        begins = np.isin(self._bytes[starts - 1], (_SPACE, _NEWLINE)) | (starts == 0)
        rows = np.searchsorted(self._offsets, starts, side="right") - 1
        # True if any match in the row begins a word.
        distinct, first = np.unique(rows, return_index=True)
        is_word_start = np.logical_or.reduceat(begins, first) if len(rows) else begins
        if len(words) == 1:
            return distinct, is_word_start
        holds_all = [
            all(word in text for word in words) for text in map(self.__getitem__, distinct)
        ]
        return distinct[holds_all], is_word_start[holds_all]

    def _find_word(self, word: str) -> IntArray:
        matches = re.finditer(re.escape(word.encode("utf-8", "replace")), self._text)
        starts = (match.start() for match in islice(matches, MAX_MATCHES))
        return np.fromiter(starts, dtype=np.int64)


def pack_text(name: str, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the two arrays a :class:`TextColumn` reads, under `name` and `name_offsets`."""
    lines = [(" ".join(str(text).split()) + "\n").encode("utf-8", "replace") for text in texts]
    offsets = np.zeros(len(lines) + 1, dtype=np.int64)
    np.cumsum([len(line) for line in lines], out=offsets[1:])
    return {name: np.frombuffer(b"".join(lines), dtype=np.uint8), f"{name}_offsets": offsets}


def fold(text: str) -> str:
    """Normalize text for a search: no case, no accents, single spaces.

    >>> fold("Crème  BRÛLÉE")
    'creme brulee'
    """
    decomposed = unicodedata.normalize("NFKD", str(text).casefold())
    return " ".join("".join(c for c in decomposed if not unicodedata.combining(c)).split())


ItemId = int | str


class ItemTable:
    """The ids, titles, categories and popularity of items, read from the arrays of an artifact.

    Construction takes no time even for a million items: ids are found by binary search in a stored
    order, and titles are slices of one block of text.

    `arrays`: the arrays :func:`pack_items` made.
    `category_names`: names of the category codes.
    """

    def __init__(
        self, arrays: Mapping[str, NDArray[Any]], category_names: Sequence[str] = ()
    ) -> None:
        self._ids = arrays["ids"]
        self._id_order = arrays["id_order"]
        self.popularity = arrays["popularity"]
        self.popular_order = arrays["popular_order"]
        self.category_names = list(category_names)
        self._category_codes = arrays.get("category_codes")
        self._category_offsets = arrays.get("category_offsets")
        self._titles = TextColumn.from_arrays(arrays, "titles")
        self._search_text = TextColumn.from_arrays(arrays, "search_text")
        self.item_json: dict[int, tuple[str, str]] = {}
        """Cache of the JSON of items before and after the score; filled by the service."""

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def has_integer_ids(self) -> bool:
        """True where ids are whole numbers, False where they are text."""
        return bool(self._ids.dtype.kind == "i")

    def positions_of(self, ids: Sequence[Any] | NDArray[Any]) -> IntArray:
        """Return the position of each id, -1 where it is unknown; shape (len(ids),)."""
        if len(ids) == 0:
            return np.empty(0, dtype=np.int64)
        if len(self) <= MAX_LOOKED_UP and all(type(value) in (int, str) for value in ids):
            return np.array(self.position_list(ids), dtype=np.int64)
        requested, is_usable = self._encode(ids)
        rank = np.searchsorted(self._ids, requested, sorter=self._id_order)
        found = self._id_order[np.minimum(rank, len(self) - 1)]
        is_known = is_usable & (self._ids[found] == requested)
        return np.where(is_known, found, -1).astype(np.int64)

    def position_list(self, ids: Sequence[Any] | NDArray[Any]) -> list[int]:
        """Return :meth:`positions_of` as a list, for ids that are whole numbers or text."""
        if len(self) > MAX_LOOKED_UP:
            return list(self.positions_of(ids).tolist())
        find = self._by_name.get
        return [find(str(value), -1) for value in ids]

    @cached_property
    def _by_name(self) -> dict[str, int]:
        """Positions by id, for small catalogues: for a few ids faster than a binary search."""
        return {str(self.id_of(position)): position for position in range(len(self))}

    def id_of(self, position: int) -> ItemId:
        """Return the id at a position."""
        value = self._ids[position]
        return int(value) if self.has_integer_ids else bytes(value).decode("utf-8")

    def ids_of(self, positions: IntArray) -> list[ItemId]:
        """Return the ids at several positions."""
        values = self._ids[positions].tolist()
        return values if self.has_integer_ids else [value.decode("utf-8") for value in values]

    def foreign_items_message(self, other: ItemTable) -> str | None:
        """Return a message if most items of another catalogue are unknown here."""
        sample = other.ids_of(np.linspace(0, len(other) - 1, MAX_COMPARED).astype(np.int64))
        is_unknown = self.positions_of(sample) < 0
        if is_unknown.mean() <= 0.5:
            return None
        return (
            f"it knows {1 - is_unknown.mean():.0%} of the items of the other, which has such as "
            f"{sample[int(is_unknown.argmax())]!r}; its own are such as {self.id_of(0)!r}"
        )

    def title_of(self, position: int) -> str | None:
        """Return the title at a position, None where the artifact has no titles."""
        return None if self._titles is None else self._titles[position]

    def codes_of(self, position: int) -> list[int]:
        """Return the codes of the categories of an item, empty where it has none."""
        if self._category_codes is None or self._category_offsets is None:
            return []
        begin, end = self._category_offsets[position], self._category_offsets[position + 1]
        return list(self._category_codes[begin:end].tolist())

    @property
    def first_categories(self) -> IntArray | None:
        """The code of the first category of each item, one beyond the last for none."""
        codes, offsets = self._category_codes, self._category_offsets
        if codes is None or offsets is None:
            return None
        first = np.full(len(self), len(self.category_names), dtype=np.int64)
        has_any = np.diff(offsets) > 0
        first[has_any] = codes[offsets[:-1][has_any]]
        return first

    def category_of(self, position: int) -> str | None:
        """Return the categories at a position, joined by |; None where there are none."""
        names = [self.category_names[code] for code in self.codes_of(position)]
        return CATEGORY_SEPARATOR.join(names) or None

    @cached_property
    def attributes(self) -> dict[str, dict[str, int]]:
        """The codes of the values of each attribute; plain categories under `category`."""
        found: dict[str, dict[str, int]] = {}
        for code, name in enumerate(self.category_names):
            attribute, sign, value = name.partition(ATTRIBUTE_SIGN)
            codes = found.setdefault(attribute if sign else CATEGORY, {})
            codes[value if sign else name] = code
        return found

    def codes_of_attribute(self, attribute: str) -> dict[str, int]:
        """Return the codes of the values of an attribute; an unknown one is refused."""
        if not self.attributes:
            raise DataError("this artifact has no categories, so no category filter can be used.")
        if attribute not in self.attributes:
            raise DataError(
                f"no attribute is called {attribute[:40]!r}"
                f"{did_you_mean(attribute[:40], [*self.attributes, *COMBINED_BY])}; there are "
                f"{', '.join(sorted(self.attributes))}; and, or, not combine them in a filter."
            )
        return self.attributes[attribute]

    def having(self, attribute: str, values: Iterable[str]) -> BoolArray:
        """Return which items have any of the values of an attribute, shape (n_items,)."""
        codes = self.codes_of_attribute(attribute)
        unknown = next((value for value in values if value not in codes), None)
        if unknown is not None:
            if attribute == CATEGORY:
                raise DataError(self._unknown_category_message(unknown))
            near = did_you_mean(unknown[:40], codes)
            raise DataError(f"no {attribute} is called {unknown[:40]!r}{near}.")
        return self._in_any_category([codes[value] for value in values])

    def in_categories(self, names: Iterable[str]) -> IntArray:
        """Return the positions of every item in any of the named categories, ascending."""
        if self._category_codes is None:
            raise DataError("this artifact has no categories, so no category filter can be used.")
        unknown = [name for name in names if name not in self._code_of]
        if unknown:
            raise DataError(self._unknown_category_message(unknown[0]))
        return np.flatnonzero(self._in_any_category([self._code_of[name] for name in names]))

    @cached_property
    def _code_of(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self.category_names)}

    def _in_any_category(self, codes: Sequence[int]) -> BoolArray:
        """Return which items have any of some categories, shape (n_items,)."""
        assert self._category_codes is not None
        assert self._category_offsets is not None
        positions = np.flatnonzero(np.isin(self._category_codes, codes))
        has = np.zeros(len(self), dtype=bool)
        has[np.searchsorted(self._category_offsets, positions, side="right") - 1] = True
        return has

    def _unknown_category_message(self, name: str) -> str:
        """Return a message that a category is unknown, or that it is several joined by |."""
        codes = self._code_of
        parts = [part.strip() for part in name.split(CATEGORY_SEPARATOR)]
        if len(parts) > 1 and all(part in codes for part in parts):
            filters: dict[str, Any] = {}
            for part in parts:
                attribute, sign, value = part.partition(ATTRIBUTE_SIGN)
                filters[attribute if sign else CATEGORY] = value if sign else part
            return (
                f"{name[:40]!r} is {len(parts)} categories, joined as answers show them: name each "
                "by itself to recall from any of them, or all of them in a filter: "
                f"{json.dumps(filters, ensure_ascii=False)}."
            )
        return f"no category is called {name[:40]!r}{did_you_mean(name[:40], codes)}."

    def search(self, query: str, limit: int) -> IntArray:
        """Return positions whose title holds every word of `query`, the most popular first.

        A rare word that begins a word of the title counts before one found inside it. An item whose
        id is the query itself comes first.
        """
        exact = self.positions_of([query])
        exact = exact[exact >= 0]
        words = fold(query).split()[:MAX_WORDS]
        if self._search_text is None or not words:
            return exact
        found, begins = self._search_text.rows_containing(words)
        order = np.lexsort((found, -self.popularity[found], ~begins))
        ranked = found[order]
        return np.concatenate([exact, ranked[~np.isin(ranked, exact)]])[:limit]

    def _encode(self, ids: Sequence[Any] | NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return ids in the stored dtype, and which of them it can represent."""
        array = np.asarray(ids) if isinstance(ids, np.ndarray) else None
        if self.has_integer_ids:
            if array is not None and array.dtype.kind in "iu":
                return array.astype(np.int64), np.ones(len(array), dtype=bool)
            numbers = [whole_number(value) for value in ids]
            usable = np.array([number is not None for number in numbers])
            return np.array([number or 0 for number in numbers], dtype=np.int64), usable
        texts = [str(value).encode("utf-8", "replace") for value in ids]
        width = self._ids.dtype.itemsize
        # numpy drops trailing NULs and truncates long text: neither may match by accident.
        usable = np.array([len(text) <= width and b"\0" not in text for text in texts])
        return np.array(texts, dtype=self._ids.dtype), usable


def pack_items(
    *,
    ids: Sequence[Any] | NDArray[Any],
    popularity: Any,
    titles: Sequence[str] | None,
    categories: Sequence[str | Sequence[str]] | None,
) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Return the arrays an :class:`ItemTable` reads and the names of the categories."""
    packed_ids = _pack_ids(ids)
    counts = np.asarray(popularity, dtype=np.float32)
    _check_length("popularity", counts, len(packed_ids))
    check_finite("popularity", counts)
    order = np.argsort(packed_ids, kind="stable")
    sorted_ids = packed_ids[order]
    repeated = np.flatnonzero(sorted_ids[1:] == sorted_ids[:-1])
    if len(repeated):
        raise DataError(f"ids must be distinct; {sorted_ids[repeated[0]]!r} occurs twice.")
    arrays: dict[str, NDArray[Any]] = {
        "ids": packed_ids,
        "id_order": order.astype(np.int32),
        "popularity": counts,
        "popular_order": np.argsort(-counts, kind="stable").astype(np.int32),
    }
    if titles is not None:
        _check_length("titles", titles, len(packed_ids))
        arrays |= pack_text("titles", titles)
        arrays |= pack_text("search_text", [fold(title) for title in titles])
    if categories is None:
        return arrays, []
    _check_length("categories", categories, len(packed_ids))
    rows = [[row] if isinstance(row, str) else [str(name) for name in row] for row in categories]
    distinct = [list(dict.fromkeys(row)) for row in rows]
    names = sorted({name for row in distinct for name in row})
    code_of = {name: code for code, name in enumerate(names)}
    codes = [code_of[name] for row in distinct for name in row]
    offsets = offsets_from_sizes([len(row) for row in distinct])
    arrays["category_codes"] = np.array(codes, dtype=np.int32)
    arrays["category_offsets"] = offsets.astype(np.int64)
    return arrays, names


def _pack_ids(ids: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    values = np.asarray(ids)
    if values.ndim != 1 or len(values) == 0:
        raise DataError(f"ids must be a list of at least one item id; got shape {values.shape}.")
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    texts = [str(value).encode("utf-8") for value in values.tolist()]
    for row, text in enumerate(texts):
        if not text or len(text.decode()) > MAX_ID_LENGTH or b"\0" in text:
            raise DataError(
                f"the item id in row {row} must be text of 1 to {MAX_ID_LENGTH} characters without "
                f"NUL; got {text[:40]!r}."
            )
    return np.array(texts)


def _check_length(name: str, values: Any, expected: int) -> None:
    if len(values) != expected:
        raise DataError(f"{name} must have one entry per item ({expected}); got {len(values)}.")
