"""What says the labels of a folder of bags: a table, the folders below, or a file per bag."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.bags.bag_files import ARRAYS, TABLES
from groupnoise.bags.label_words import KnownLabels, say_of_labels
from groupnoise.bags.request import BagRequest
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, MissingColumnError, MissingDataError
from groupnoise.io.column_names import plain_name, usual_column
from groupnoise.io.columns import match_columns, need_column, pick_column
from groupnoise.io.memberships import read_memberships
from groupnoise.io.sources import Report, say_nothing
from groupnoise.io.tables import Table, read_table

FEATURE_FOLDERS = ("h5_files", "features", "pt_files")
"""Where the files lie below the folder that a tool writes: CLAM, then torchmil."""
LABEL_FILES = ("labels.csv", "labels.tsv", "labels.parquet", "labels.xlsx")
"""Tables of labels that are found in the folder itself, however their names are written."""
MIN_PER_LABEL = 3
"""Bags of each label, on average, in a column that is taken for the label by its cells."""
LABEL_SUFFIXES = (*TABLES, ".xlsx")
SPLITS = {
    "train": ("train", "training", "tr"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing", "te", "holdout", "held-out"),
}
"""What a split column may say, in any case."""
SIDE_OF = {word: side for side, words in SPLITS.items() for word in words}
MAX_TOLD = 6
MAX_HEAD = 1 << 20
"""Bytes of a table in which its names of columns are looked for."""
MIN_PATIENTS = 5
"""Folders of which one may be held out, in folders that are called by labels."""
MIN_CASES = 10
"""Different cells below which `case` and `subject` may be kinds of things, and no people."""


@dataclass(frozen=True)
class BagLabels:
    """What a table says of bags, in the order of their files."""

    labels: BoolArray
    class_names: list[str]
    patients: NDArray[Any] | None
    split: NDArray[Any] | None
    columns: dict[str, Any]


def labels_in(folder: Path) -> Path | None:
    """Return the table of labels in a folder: known by its name, or alone among or above arrays."""
    try:
        files = [file for file in sorted(folder.iterdir()) if not file.name.startswith(".")]
    except OSError:
        return None
    named = {file.name.lower(): file for file in files if file.is_file()}
    found = next((named[name] for name in LABEL_FILES if name in named), None)
    tables = [file for file in named.values() if file.suffix.lower() in LABEL_SUFFIXES]
    is_alone = len(tables) == 1 and any(
        file.suffix.lower() in ARRAYS or file.name in FEATURE_FOLDERS for file in files
    )
    return found or (tables[0] if is_alone else None)


def read_label_table(
    source: Any, bag_ids: Sequence[str], folder: str, asked: BagRequest
) -> BagLabels:
    """Read the labels of bags from a table with one row per bag, in the order of `bag_ids`.

    By default the column of bag ids is the one that names most of the files.
    """
    if isinstance(source, (str, Path)) and not Path(source).is_file():
        raise MissingDataError(f"there is no table of labels {source}; give it with --labels.")
    encoding = asked.form.get("encoding")
    table = read_table(source, decimal=".", encoding=encoding)  # ids and labels are words
    columns, origin, report = table.frame.columns, table.origin, asked.report
    if asked.group is not None:
        group = match_columns("group", [asked.group], columns, origin)[0]
    else:
        group = _column_of_ids(table, bag_ids, folder, report)
    order = _rows_of_bags(table, group, bag_ids, folder)
    taken = {group}
    told: dict[str, Any] = {"origin": origin, "report": report, "taken": taken}
    patient = pick_column("patient", asked.patient, columns, **told)
    taken |= {patient} if patient is not None else set()
    split = pick_column("split", asked.split, columns, **told)
    taken |= {split} if split is not None else set()
    label = asked.label or _only_words(table, taken, report)
    if label is None:
        label = need_column("label", None, columns, **told)
    label_columns = match_columns("label", label, columns, origin)
    rows = table.take(order)
    memberships, class_names = read_memberships(
        rows,
        label_columns,
        separator=asked.label_separator,
        report=report,
        may_lack=True,
        several=asked.known.has_sets,
    )
    say_of_labels(class_names, memberships, rows.locate, report)
    patients = None if patient is None else _filled(rows, patient)
    sides = None if split is None else _sides(rows, split)
    if patients is not None:
        _check_apart(rows, patients, sides)
        n_patients = len(np.unique(patients))
        report(f"bags of each of the {n_patients} patients stay together in every hold-out")
    if sides is not None:
        counts = Counter(sides.tolist())
        shown = ", ".join(f"{counts[name]} {name}" for name in SPLITS if counts[name])
        report(f"bags are held out as column {split!r} says ({shown})")
    parts = {"group": group, "label": label_columns, "patient": patient, "split": split}
    return BagLabels(memberships, class_names, patients, sides, parts)


def patients_of_rows(
    table: Table, given: str | None, taken: Collection[str], group: str
) -> tuple[pl.Series | None, str | None]:
    """Return whom each row comes from, if several bags come from one, and the column that says it.

    `given`: the column that was named; one that is only called so must be filled and the same in
    all rows of each bag. `taken`: columns that play another part. `group`: that of bag ids.
    """
    columns = table.frame.columns
    column = pick_column(
        "patient", given, columns, origin=table.origin, report=say_nothing, taken=taken
    )
    if column is None:
        return None, None
    cells = table.frame[column].cast(pl.String).str.strip_chars().replace("", None)
    of_bag = pl.DataFrame({"bag": table.frame[group], "cells": cells}).group_by("bag")
    kinds = of_bag.agg(pl.col("cells").n_unique(), first=pl.first("cells"))
    odd = kinds.filter((pl.col("cells") > 1) | pl.col("first").is_null())
    if odd.height and given is not None:
        raise DataError(
            f"{table.origin}: column {column!r} is empty, or differs, in rows of the bag "
            f"{str(odd['bag'][0])!r}; a bag comes from one, whom all of its rows must name."
        )
    has_several = (n_patients := kinds["first"].n_unique()) < kinds.height
    may_be_kinds = plain_name(column) in ("case", "subject") and n_patients < MIN_CASES
    if odd.height or (given is None and (may_be_kinds or not has_several)):
        return None, None
    return (cells if has_several else None), column


def names_by_files(files: Sequence[Path], folder: Path) -> dict[str, Path]:
    """Return files by the name of their bag: their own, with their folders where two are alike."""
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


def labels_by_folders(
    places: Sequence[PurePath], folder: str, report: Report, known: KnownLabels
) -> BagLabels | None:
    """Return the labels that the folders of bags are called by; None where they are no labels.

    Of folders in folders the level with the fewest names is that of the labels, or the one a model
    knows; names of splits may stand above it, and another level with many names is of patients.
    `places`: the files of the bags, seen from `folder`.
    """
    parents = [place.parts[:-1] for place in places]
    levels = [list(names) for names in zip(*parents, strict=False)]
    levels = levels[: min(map(len, parents), default=0)]
    sides = None
    if levels and {name.lower() for name in levels[0]} <= set(SIDE_OF):
        sides = np.array([SIDE_OF[name.lower()] for name in levels.pop(0)])
        sides = sides if (sides == "train").any() else None
    of_model = [level for level in levels if set(level) <= set(known.classes)]
    several = [level for level in levels if len(set(level)) > 1]
    free = [level for level in several if not _are_numbered(level)]
    words = next(iter(of_model), min(free, key=lambda level: len(set(level)), default=None))
    if words is None or (not of_model and len(words) < MIN_PER_LABEL * len(set(words))):
        return None
    memberships, classes = _one_label_each(words)
    sizes = Counter(words)
    shown = ", ".join(f"{name} ({sizes[name]})" for name in classes[:MAX_TOLD])
    more = ", ..." if len(classes) > MAX_TOLD else ""
    report(f"took the names of folders below {folder} as labels: {shown}{more}")
    say_of_labels(classes, memberships, lambda row: str(places[row]), report)
    others = [level for level in several if level is not words]
    patients = next(
        (level for level in others if MIN_PATIENTS <= len(set(level)) < len(level)), None
    )
    if patients is not None:
        report(
            f"took {counted(len(set(patients)), 'folders')}, such as {patients[0]!r}, as patients: "
            "bags of each stay together in every hold-out"
        )
    if sides is not None:
        report("bags are held out as the folders of splits say")
    of_patients = None if patients is None else np.array(patients)
    return BagLabels(memberships, classes, of_patients, sides, {})


def _are_numbered(names: Sequence[str]) -> bool:
    """Tell whether folders are called by whom or what they hold and a number, as `patient_07`."""
    stems = {name.rstrip("0123456789") for name in names}
    is_one = len(stems) == 1 and not any(name in stems for name in names)
    parts = ("patient", "group", "user", "item")
    return is_one and any(usual_column(part, list(stems)) for part in parts)


def are_tables_of_bags(files: Sequence[Path], path: Path) -> bool:
    """Tell whether tables in folders called like labels hold a bag each: no column says more."""
    places = [file.relative_to(path) for file in files]
    is_partition = any("=" in part for place in places for part in place.parts)
    if is_partition or labels_by_folders(places, str(path), say_nothing, KnownLabels()) is None:
        return False
    return names_no_bag(files[0])


def names_no_bag(table: Path) -> bool:
    """Tell whether the columns of a table, read from its head alone, say of no bag or click."""
    if table.suffix.lower() == ".parquet":
        columns = list(pl.read_parquet_schema(table))
    else:
        with table.open("rb") as stream:
            head = stream.readline(MAX_HEAD).decode("utf-8", "replace")
        columns = [name.strip(" \"'\r\n\ufeff") for name in re.split(r"[,;\t]", head)]
    return not any(usual_column(part, columns) for part in ("group", "user", "item", "label"))


def labels_of_files(folder: Path, ids: Sequence[str]) -> BagLabels:
    """Return the labels that a torchmil folder keeps in a file per bag."""
    words = []
    for bag_id in ids:
        try:
            value = np.load(folder / f"{bag_id}.npy", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            raise DataError(f"bag {bag_id!r} has no readable label in {folder}.") from None
        if value.size != 1:
            raise DataError(
                f"bag {bag_id!r} has {counted(value.size, 'labels')} in {folder}; one is needed."
            )
        words.append(str(value.ravel()[0].item()))
    return BagLabels(*_one_label_each(words), None, None, {})


def _one_label_each(words: Sequence[str]) -> tuple[BoolArray, list[str]]:
    """Return which class each bag has, (n_bags, n_classes), and the classes."""
    classes, codes = np.unique(words, return_inverse=True)
    return np.eye(len(classes), dtype=np.bool_)[codes], classes.tolist()


def _only_words(table: Table, taken: Collection[str], report: Report) -> str | None:
    """Return the one column that can be the label where none is called so; None of several."""
    free = [name for name in table.frame.columns if name not in taken]
    if usual_column("label", free) is not None:
        return None
    distinct = {name: len(set(_text(table, name)) - {""}) for name in free}
    found = [name for name in free if 1 < distinct[name] <= len(table) / MIN_PER_LABEL]
    if len(found) != 1:
        return None
    report(f"took column {found[0]!r} as the label, the only one whose cells repeat (--label)")
    return found[0]


def _column_of_ids(table: Table, bag_ids: Sequence[str], folder: str, report: Report) -> str:
    """Return the column that names most of the bags."""
    known = _by_spelling(bag_ids)
    found = {
        name: sum(_bag_of(cell, known) is not None for cell in _text(table, name))
        for name in table.frame.columns
        if not table.frame.schema[name].is_nested()
    }
    best = max(found, key=lambda name: found[name], default=None)
    if best is None or not found[best]:
        raise MissingColumnError(
            f"no column of {table.origin} names the bags of {folder}, which are called "
            f"{', '.join(map(repr, bag_ids[:3]))}{', ...' if len(bag_ids) > 3 else ''}; name the "
            "bags by their files without the suffix.",
            "labels",
        )
    report(f"took column {best!r} as the bag")
    return best


def _rows_of_bags(table: Table, group: str, bag_ids: Sequence[str], folder: str) -> IntArray:
    """Return the row of each bag; each needs one row, and each row a file."""
    known, row_of = _by_spelling(bag_ids), dict[str, int]()
    strangers = []
    for row, cell in enumerate(_text(table, group)):
        bag = _bag_of(cell, known)
        if bag is None:
            strangers.append((row, cell))
        elif bag in row_of:
            raise DataError(
                f"{table.locate(row)}: bag {bag!r} has a row already ({table.locate(row_of[bag])})"
                "; give one row per bag, several labels joined by ';'."
            )
        else:
            row_of[bag] = row
    if strangers:
        row, cell = strangers[0]
        raise MissingColumnError(
            f"{table.locate(row)}: bag {cell!r} has no file in {folder}{_more(len(strangers))}; "
            "add the file or leave out the row.",
            "labels",
        )
    without = [bag for bag in bag_ids if bag not in row_of]
    if without:
        raise MissingColumnError(
            f"bag {without[0]!r} of {folder} has no row in {table.origin}{_more(len(without))}; "
            "add its label or move its file elsewhere.",
            "labels",
        )
    return np.array([row_of[bag] for bag in bag_ids], dtype=np.int64)


def _more(n_found: int) -> str:
    return "" if n_found == 1 else f" (nor have {counted(n_found - 1, 'others')})"


def _by_spelling(bag_ids: Sequence[str]) -> dict[str, str]:
    """Return bags by their names, and by what these become where files and tables are written.

    Letters with marks are one character or two, case is lost, and so are zeros before numbers;
    names that two bags would share are left out.
    """
    spellings = [(_spelt(bag), bag) for bag in bag_ids]
    n_bags = Counter(spelt for spelt, _ in spellings)
    alone = {spelt: bag for spelt, bag in spellings if n_bags[spelt] == 1}
    return {**alone, **{bag: bag for bag in bag_ids}}


def _spelt(name: str) -> str:
    spelt = unicodedata.normalize("NFC", name).casefold()
    return str(int(spelt)) if spelt.isascii() and spelt.isdecimal() else spelt


def _bag_of(cell: str, known: Mapping[str, str]) -> str | None:
    """Return the bag that a cell names, with or without a folder and a suffix."""
    path = PurePosixPath(cell.replace("\\", "/"))
    names = [cell, path.with_suffix("").as_posix() if path.name else "", path.name, path.stem]
    spelt = [*names, *map(_spelt, names)]
    return next((known[name] for name in spelt if name in known), None)


def _text(table: Table, column: str) -> list[str]:
    cells = table.frame[column].to_list()
    return ["" if cell is None else str(cell).strip() for cell in cells]


def _filled(table: Table, column: str) -> NDArray[Any]:
    cells = _text(table, column)
    empty = next((row for row, cell in enumerate(cells) if not cell), None)
    if empty is not None:
        raise DataError(f"{table.locate(empty)}: column {column!r} is empty; fill in the cell.")
    return np.array(cells)


def _sides(table: Table, column: str) -> NDArray[Any]:
    """Return "train", "validation" or "test" of each bag."""
    cells = _filled(table, column)
    for row, cell in enumerate(cells.tolist()):
        if cell.lower() not in SIDE_OF:
            raise DataError(
                f"{table.locate(row)}: column {column!r} says {cell!r}; train, validation or test "
                "is needed."
            )
    sides = np.array([SIDE_OF[cell.lower()] for cell in cells.tolist()])
    if not (sides == "train").any():
        raise DataError(f"{table.origin}: column {column!r} leaves no bag to train on.")
    return sides


def _check_apart(table: Table, patients: NDArray[Any], sides: NDArray[Any] | None) -> None:
    """Refuse a split that has a patient on both sides."""
    if sides is None:
        return
    first: dict[str, tuple[str, int]] = {}
    for row, (patient, side) in enumerate(zip(patients.tolist(), sides.tolist(), strict=True)):
        seen = first.setdefault(patient, (side, row))
        if seen[0] != side:
            raise DataError(
                f"{table.locate(row)}: patient {patient!r} is on both sides of the split, here in "
                f"{side} and in {seen[0]} before ({table.locate(seen[1])}); move all bags of a "
                "patient to one side."
            )
