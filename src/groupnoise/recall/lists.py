"""Named lists of items, such as what is in stock, each replaced as a whole."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import IntArray
from groupnoise.exceptions import DataError
from groupnoise.io.files import atomic_path
from groupnoise.recall.items import ItemTable

MAX_LIST_BYTES = 1 << 26
"""Limit of the ids of one list with their newlines: about five million ids."""
MAX_LISTS = 100
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class UnreadableListError(DataError):
    """The file of a list cannot be read, and no list was read from it before."""


@dataclass(frozen=True, eq=False)
class ItemList:
    """A list of item ids under a name; equal lists hold the same ids in the same order.

    `name`: what requests call it.
    `ids`: the ids; those a model does not know are passed over.
    """

    name: str
    ids: NDArray[Any] = field(repr=False)
    _found: WeakKeyDictionary[ItemTable, IntArray] = field(
        default_factory=WeakKeyDictionary, repr=False
    )

    @property
    def digest(self) -> str:
        """A hash of the ids."""
        return hashlib.sha256("\n".join(self.ids.tolist()).encode()).hexdigest()[:16]

    def positions(self, items: ItemTable) -> IntArray:
        """Return the positions of the known ids in a catalogue, ascending."""
        found = self._found.get(items)
        if found is None:
            found = np.unique(items.positions_of(self.ids))
            found = self._found[items] = found[found >= 0]
        return found


def item_list(name: str, ids: Sequence[Any]) -> ItemList:
    """Return a list of ids, checked.

    `name`: letters, digits, - and _.
    """
    check_name(name)
    texts = [str(one) for one in ids]
    n_bytes = sum(map(len, texts)) + len(texts)
    if n_bytes > MAX_LIST_BYTES:
        raise DataError(
            f"the list {name} holds {n_bytes} bytes; at most {MAX_LIST_BYTES} are kept."
        )
    return ItemList(name, np.array(texts, dtype=object))


def check_name(name: str) -> None:
    """Refuse an invalid name of a list."""
    if not _NAME.fullmatch(name):
        raise DataError(f"a list is named by 1 to 64 letters, digits, - and _; got {name[:40]!r}.")


def read_item_list(path: Path | str) -> ItemList:
    """Return the list in a text file, named after it: one id per line, empty lines ignored."""
    path = Path(path)
    if path.is_file() and path.stat().st_size > MAX_LIST_BYTES:
        raise DataError(f"{path} is larger than the {MAX_LIST_BYTES} bytes a list may have.")
    return ItemList(path.stem, np.array(read_ids(path, may_be_empty=True), dtype=object))


def read_ids(path: Path, *, may_be_empty: bool = False) -> list[str]:
    """Read a file of item ids, one per line; empty lines are ignored.

    A byte order mark, which spreadsheets write, is ignored.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"{path} cannot be read as lines of item ids ({why}).") from None
    except UnicodeDecodeError:
        why = "it is not text in UTF-8; save it as that"
        raise DataError(f"{path} cannot be read as lines of item ids: {why}.") from None
    ids = [line.strip() for line in lines if line.strip()]
    if not ids and not may_be_empty:
        raise DataError(f"{path} holds no item id; write one in each line.")
    return ids


class NamedLists:
    """The lists of a service, in memory or in a folder of text files that processes may share.

    A replaced file is read again by the next request that names it; if it cannot be read, the
    previous list stays in use.

    `folder`: holds `NAME.txt` for every list; without it lists last as long as the process.
    `on_unreadable`: called once per version of an unreadable file, with the name of the list, the
        reason and the list that stays in use or None.
    """

    def __init__(
        self,
        folder: Path | None = None,
        on_unreadable: Callable[[str, str, ItemList | None], None] | None = None,
    ) -> None:
        self._folder = folder
        self._on_unreadable = on_unreadable
        self._lists: dict[str, tuple[Any, ItemList]] = {}
        self._unreadable: dict[str, tuple[Any, str]] = {}
        if folder is not None and not folder.is_dir():
            raise DataError(f"{folder} is no folder; make it, or leave --lists out.")

    def names(self) -> list[str]:
        """Return the names of all lists, in order."""
        if self._folder is None:
            return sorted(self._lists)
        return sorted(path.stem for path in self._folder.glob("*.txt"))

    def get(self, name: str) -> ItemList | None:
        """Return a list as it is now, None where there is none of that name."""
        check_name(name)
        known = self._lists.get(name)
        if self._folder is None:
            return known and known[1]
        path = self._folder / f"{name}.txt"
        try:
            stat = path.stat()
        except OSError:
            self._forget(name)
            return None
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_mode)
        was_refused = self._unreadable.get(name, ((), ""))[0] == seen
        if known is None or (known[0] != seen and not was_refused):
            try:
                known = self._lists[name] = (seen, read_item_list(path))
                self._unreadable.pop(name, None)
            except DataError as error:
                before = None if known is None else known[1]
                why = str(error).replace(str(path), path.name)  # clients must not see the folder
                self._unreadable[name] = (seen, why)
                if self._on_unreadable is not None and not was_refused:
                    self._on_unreadable(name, why, before)
                if before is None:
                    raise UnreadableListError(why) from None
                return before
        if known[0] == seen:  # restored to the version in memory
            self._unreadable.pop(name, None)
        return known[1]

    def unreadable(self) -> dict[str, str]:
        """Return why the files of requested lists cannot be read, by name."""
        return {name: why for name, (_, why) in self._unreadable.items()}

    def _forget(self, name: str) -> None:
        self._lists.pop(name, None)
        self._unreadable.pop(name, None)

    def put(self, replacement: ItemList) -> None:
        """Replace a list, or add it, as a whole."""
        name = replacement.name
        if name not in self.names() and len(self.names()) >= MAX_LISTS:
            raise DataError(f"there are {MAX_LISTS} lists already; delete one first.")
        if self._folder is None:
            self._lists[name] = (None, replacement)
            return
        if multiline := next((one for one in replacement.ids if len(one.splitlines()) > 1), None):
            raise DataError(
                f"the id {multiline[:40]!r} has a line break, and the file of a list has one id in "
                "each line; leave it out, or name it in the request."
            )
        with atomic_path(self._folder / f"{name}.txt") as temporary:
            temporary.write_text("".join(f"{one}\n" for one in replacement.ids), encoding="utf-8")

    def delete(self, name: str) -> None:
        """Forget a list, if there is one."""
        check_name(name)
        self._forget(name)
        if self._folder is not None:
            try:
                (self._folder / f"{name}.txt").unlink(missing_ok=True)
            except OSError as error:
                raise DataError(f"{name}.txt cannot be deleted ({error.strerror}).") from None
