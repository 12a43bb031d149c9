"""Many short texts in one block of bytes, searchable without unpacking them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._typing import BoolArray, IntArray

MOST_MATCHES = 20_000
"""A word as common as this is ranked among its first matches only, which bounds a search."""
_SPACE, _NEWLINE = ord(" "), ord("\n")


class TextColumn:
    """One text per row, stored as UTF-8 lines end to end.

    Parameters
    ----------
    text : uint8 ndarray of shape (n_bytes,)
        The lines, each ended by a newline.
    offsets : int64 ndarray of shape (n_rows + 1,)
        Where each line begins.
    """

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
        # The text of a mapped artifact was not looked at when it was opened.
        return str(self._text[begin:end], "utf-8", "replace")

    def rows_holding(self, words: Sequence[str]) -> tuple[IntArray, BoolArray]:
        """Return the rows whose text holds every word, and where the rarest begins a word."""
        hits = sorted((self._starts_of(word) for word in words), key=len)
        starts = hits[0]
        begins = np.isin(self._bytes[starts - 1], (_SPACE, _NEWLINE)) | (starts == 0)
        rows = np.searchsorted(self._offsets, starts, side="right") - 1
        # A row counts as begun if any of its matches begins a word.
        distinct, first = np.unique(rows, return_index=True)
        begun = np.logical_or.reduceat(begins, first) if len(rows) else begins
        if len(words) == 1:
            return distinct, begun
        holds_all = [
            all(word in text for word in words) for text in map(self.__getitem__, distinct)
        ]
        return distinct[holds_all], begun[holds_all]

    def _starts_of(self, word: str) -> IntArray:
        matches = re.finditer(re.escape(word.encode("utf-8", "replace")), self._text)
        starts = (match.start() for match in islice(matches, MOST_MATCHES))
        return np.fromiter(starts, dtype=np.int64)


def pack_text(name: str, texts: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the two arrays a :class:`TextColumn` reads, under `name` and `name_offsets`."""
    lines = [(" ".join(str(text).split()) + "\n").encode("utf-8", "replace") for text in texts]
    offsets = np.zeros(len(lines) + 1, dtype=np.int64)
    np.cumsum([len(line) for line in lines], out=offsets[1:])
    return {name: np.frombuffer(b"".join(lines), dtype=np.uint8), f"{name}_offsets": offsets}


def fold(text: str) -> str:
    """Return text as it is compared in a search: no case, no accents, single spaces.

    >>> fold("Crème  BRÛLÉE")
    'creme brulee'
    """
    decomposed = unicodedata.normalize("NFKD", str(text).casefold())
    return " ".join("".join(c for c in decomposed if not unicodedata.combining(c)).split())
