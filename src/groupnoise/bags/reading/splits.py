"""Train, validation and test split of bags: a column of the label table, or a table of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.bags.reading.names import bags_by_spelling, match_bag, others_clause
from groupnoise.bags.reading.options import BagReadOptions
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, MissingColumnError
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table, read_table

SPLITS = {
    "train": ("train", "training", "tr"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "te", "holdout", "held-out"),
}
"""Values of a split column and columns of a split table, in any case."""
SIDE_BY_NAME = {word: side for side, words in SPLITS.items() for word in words}
SPLIT_FILE = re.compile(r"splits?(_\w+)?\.[ct]sv", re.IGNORECASE)
"""Names of split tables: `splits_0.csv`, beside which CLAM writes two others."""
BESIDE_SPLITS = ("_bool", "_descriptor")
TRUE_OR_FALSE = {"true": True, "1": True, "false": False, "0": False, "": False}
MAX_HEAD = 1 << 20
"""Maximum bytes of a header line."""


def read_header(table: Path) -> list[str]:
    """Return the names of the columns of a table, read from its head alone."""
    if table.suffix.lower() == ".parquet":
        return list(pl.read_parquet_schema(table))
    with table.open("rb") as stream:
        head = stream.readline(MAX_HEAD).decode("utf-8", "replace")
    return [name.strip(" \"'\r\n\ufeff") for name in re.split(r"[,;\t]", head)]


def is_split_table(file: Path) -> bool:
    """Return whether a file has the name and the columns of a split table."""
    if SPLIT_FILE.fullmatch(file.name) is None or not file.is_file():
        return False
    return len(_split_columns(read_header(file))) > 1


def split_tables_in(folder: Path) -> list[Path]:
    """Return the tables of splits in a folder, one of each split."""
    try:
        found = sorted(filter(is_split_table, folder.iterdir()))
    except OSError:
        return []
    return [file for file in found if not file.stem.lower().endswith(BESIDE_SPLITS)]


def find_split_table(folder: Path, report: Report) -> Path | None:
    """Return the one table of a split in a folder; of several it is said how one is taken."""
    found = split_tables_in(folder)
    if len(found) > 1:
        report(
            f"{folder} holds {counted(len(found), 'tables')} of splits; --split {found[0]} holds "
            "out what that one says"
        )
    return found[0] if len(found) == 1 else None


def check_split(options: BagReadOptions) -> None:
    """Refuse a folder of several tables of splits: one of them is a split."""
    folder = None if options.split is None else Path(options.split)
    if folder is not None and folder.is_dir() and (found := split_tables_in(folder)):
        shown = ", ".join(str(file) for file in found[:3]) + ", ..." * (len(found) > 3)
        raise MissingColumnError(
            f"--split names {folder}, a folder; name one of its tables of splits: {shown}.", "split"
        )


def read_split(
    file: Path, bag_ids: Sequence[str], patients: Any, folder: str, options: BagReadOptions
) -> NDArray[Any]:
    """Return "train", "validation" or "test" of each bag, "" of those that a file does not name.

    `patients`: whom each bag comes from, if that is known.
    """
    sides = read_split_table(file, bag_ids, folder, options.form.get("encoding"))
    n_left = int((sides == "").sum())
    beside = f"; {counted(n_left, 'bags')} that it does not name are left out" if n_left else ""
    options.report(f"bags are held out as {file} says ({split_summary(sides)}){beside}")
    if patients is not None:
        kept = np.flatnonzero(sides != "")
        check_patients_separate(
            patients[kept], sides[kept], lambda bag: f"{file}, bag {bag_ids[int(kept[bag])]!r}"
        )
    return sides


def read_split_table(
    file: Path, bag_ids: Sequence[str], folder: str, encoding: str | None
) -> NDArray[Any]:
    """Return "train", "validation" or "test" of each bag, "" if it is not in the table.

    The table has a column per side (`train`, `val`, `test`), of bag names, or of booleans beside a
    column of bag names.
    """
    table = read_table(file, decimal=".", encoding=encoding)
    sides = _split_columns(table.frame.columns)
    if "train" not in sides.values() or len(sides) < 2:
        raise MissingColumnError(
            f"{file} is no table of a split: it has no columns train, val and test that name bags.",
            "split",
        )
    known, found = bags_by_spelling(bag_ids), dict[str, tuple[str, int]]()
    unmatched = []
    for row, side, cell in _assigned_bags(table, sides, known):
        bag = match_bag(cell, known)
        if bag is None:
            unmatched.append((row, cell))
            continue
        earlier, before = found.setdefault(bag, (side, row))
        if earlier != side:
            raise DataError(
                f"{table.locate(row)}: bag {bag!r} is on both sides of the split, here in {side} "
                f"and in {earlier} before ({table.locate(before)}); leave it on one."
            )
    if unmatched:
        row, cell = unmatched[0]
        raise MissingColumnError(
            f"{table.locate(row)}: bag {cell!r} of the split has no file in {folder}"
            f"{others_clause(len(unmatched))}; add the file or leave out the name.",
            "split",
        )
    named = np.array([found.get(bag, ("", 0))[0] for bag in bag_ids])
    if not (named == "train").any():
        raise DataError(f"{file} leaves no bag to train on.")
    return named


def read_split_column(table: Table, column: str) -> NDArray[Any]:
    """Return "train", "validation" or "test" of each bag from a column."""
    cells = filled_cells(table, column)
    for row, cell in enumerate(cells.tolist()):
        if cell.lower() not in SIDE_BY_NAME:
            raise DataError(
                f"{table.locate(row)}: column {column!r} says {cell!r}; train, validation or test "
                "is needed."
            )
    sides = np.array([SIDE_BY_NAME[cell.lower()] for cell in cells.tolist()])
    if not (sides == "train").any():
        raise DataError(f"{table.origin}: column {column!r} leaves no bag to train on.")
    return sides


def check_patients_separate(patients: Any, sides: Any, where: Callable[[int], str]) -> None:
    """Raise if a patient is on both sides of a split; `where`: locates a bag."""
    first: dict[str, tuple[str, int]] = {}
    for bag, (patient, side) in enumerate(zip(patients.tolist(), sides.tolist(), strict=True)):
        earlier, before = first.setdefault(patient, (side, bag))
        if earlier != side:
            raise DataError(
                f"{where(bag)}: patient {patient!r} is on both sides of the split, here in {side} "
                f"and in {earlier} before ({where(before)}); move all bags of a patient to one "
                "side."
            )


def split_summary(sides: NDArray[Any]) -> str:
    """Return the number of bags per side as text."""
    counts = Counter(sides.tolist())
    return ", ".join(f"{counts[name]} {name}" for name in SPLITS if counts[name])


def text_cells(table: Table, column: str) -> list[str]:
    """Return the cells of a column as text, without blanks around it."""
    cells = table.frame[column].to_list()
    return ["" if cell is None else str(cell).strip() for cell in cells]


def filled_cells(table: Table, column: str) -> NDArray[Any]:
    """Return the cells of a column as text; an empty one is refused."""
    cells = text_cells(table, column)
    empty = next((row for row, cell in enumerate(cells) if not cell), None)
    if empty is not None:
        raise DataError(f"{table.locate(empty)}: column {column!r} is empty; fill in the cell.")
    return np.array(cells)


def _split_columns(columns: Sequence[str]) -> dict[str, str]:
    """Return the columns named after a side of a split, and the side."""
    return {name: SIDE_BY_NAME[name.lower()] for name in columns if name.lower() in SIDE_BY_NAME}


def _assigned_bags(
    table: Table, sides: dict[str, str], known: dict[str, str]
) -> list[tuple[int, str, str]]:
    """Return row, side and bag of each cell that puts a bag on a side."""
    cells = {name: text_cells(table, name) for name in sides}
    are_bags = any(match_bag(cell, known) for of_side in cells.values() for cell in of_side)
    are_flags = not are_bags and all(
        cell.lower() in TRUE_OR_FALSE for of_side in cells.values() for cell in of_side
    )
    others = [name for name in table.frame.columns if name not in sides]
    if are_flags and others:
        ids = text_cells(table, others[0])
        return [
            (row, side, ids[row])
            for name, side in sides.items()
            for row, cell in enumerate(cells[name])
            if TRUE_OR_FALSE[cell.lower()]
        ]
    return [
        (row, side, cell)
        for name, side in sides.items()
        for row, cell in enumerate(cells[name])
        if cell
    ]
