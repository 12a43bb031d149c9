"""Names of bags in a folder, matched to those in tables."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from groupnoise.core.words import counted
from groupnoise.exceptions import DataError


def files_by_bag(files: Sequence[Path], folder: Path) -> dict[str, Path]:
    """Map bag names to files: file stems, with their folders if stems repeat."""
    stems = [file.stem for file in files]
    are_twice = len(set(stems)) < len(stems) and any(file.parent != folder for file in files)
    named: dict[str, Path] = {}
    for file in files:
        # Slides of several patients may be called alike.
        bag_id = file.relative_to(folder).with_suffix("").as_posix() if are_twice else file.stem
        if bag_id in named:
            raise DataError(f"bag {bag_id!r} has two files, {named[bag_id]} and {file}; keep one.")
        named[bag_id] = file
    return named


def bags_by_spelling(bag_ids: Sequence[str]) -> dict[str, str]:
    """Map names and normalized names to bags; ambiguous normalized names are left out.

    Tools change the Unicode form and case of names, and drop leading zeros of numbers.
    """
    spellings = [(_normalize_name(bag), bag) for bag in bag_ids]
    n_bags = Counter(spelt for spelt, _ in spellings)
    alone = {spelt: bag for spelt, bag in spellings if n_bags[spelt] == 1}
    return {**alone, **{bag: bag for bag in bag_ids}}


def _normalize_name(name: str) -> str:
    spelt = unicodedata.normalize("NFC", name).casefold()
    return str(int(spelt)) if spelt.isascii() and spelt.isdecimal() else spelt


def match_bag(cell: str, known: Mapping[str, str]) -> str | None:
    """Return the bag named by a cell, with or without folder and suffix, None if unknown."""
    path = PurePosixPath(cell.replace("\\", "/"))
    names = [cell, path.with_suffix("").as_posix() if path.name else "", path.name, path.stem]
    spelt = [*names, *map(_normalize_name, names)]
    return next((known[name] for name in spelt if name in known), None)


def others_clause(n_found: int) -> str:
    """Return the clause " (nor have n others)" of an error about the first of `n_found` items."""
    others = counted(n_found - 1, "others")
    return "" if n_found == 1 else f" (nor {'has' if n_found == 2 else 'have'} {others})"
