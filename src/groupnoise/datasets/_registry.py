"""The data sets groupnoise knows by name, read from `registry.toml`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module, resources
from typing import Any, Literal

from groupnoise.exceptions import ParameterError

Setting = Literal["mil", "pll", "rs"]


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """One file, or folder, of a data set."""

    path: str
    """Where it lies below a data directory."""
    sha256: str | None = None
    """Its checksum, where one is known."""
    plain_sha256: str | None = None
    """Of a `.gz` file: the checksum of the unpacked content, which is accepted in its place."""
    url: str | None = None
    """Where it can be fetched as it is."""
    optional: bool = False
    """Whether the set can be loaded without it, for example without titles."""

    @property
    def plain_path(self) -> str:
        """The path of the unpacked file."""
        return self.path.removesuffix(".gz")


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """What is known about a named data set."""

    name: str
    title: str
    setting: Setting
    form: str
    """Which loader reads it."""
    shape: str
    """What a complete copy holds, in words."""
    truth: str
    """What is known of the right answer, in words."""
    citation: str
    terms: str
    origin: str
    """Where to get it, in words; says so where no address is known."""
    files: tuple[DataFile, ...] = ()
    """Empty for sets that are shipped or generated."""
    aliases: tuple[str, ...] = ()

    @property
    def can_be_fetched(self) -> bool:
        """Whether every file that is needed has an address and a checksum."""
        needed = [file for file in self.files if not file.optional]
        return bool(needed) and all(file.url is not None for file in needed)


def list_datasets() -> tuple[DatasetEntry, ...]:
    """Return all entries of the registry, in its order.

    Examples
    --------
    >>> [entry.name for entry in list_datasets()][:3]
    ['digit-bags', 'digit-candidates', 'shop']
    """
    return _entries()


def find_dataset(name: str) -> DatasetEntry:
    """Return the entry of a data set by its name or an alias, in any case.

    Examples
    --------
    >>> find_dataset("Video").name
    'amazon-video-games'
    """
    by_name = {known: entry for entry in _entries() for known in (entry.name, *entry.aliases)}
    wanted = name.lower().replace("_", "-")
    if wanted in by_name:
        return by_name[wanted]
    near = get_close_matches(wanted, by_name, n=1)
    hint = f"did you mean {near[0]!r}?" if near else "`groupnoise data list` shows all names."
    raise ParameterError(f"no data set is called {name!r}; {hint}")


@lru_cache(maxsize=1)
def _entries() -> tuple[DatasetEntry, ...]:
    toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    text = resources.files("groupnoise.datasets").joinpath("registry.toml").read_text("utf-8")
    return tuple(_entry(table) for table in toml.loads(text)["dataset"])


def _entry(table: dict[str, Any]) -> DatasetEntry:
    files = tuple(DataFile(**file) for file in table.pop("files", []))
    aliases = tuple(table.pop("aliases", []))
    return DatasetEntry(**table, files=files, aliases=aliases)
