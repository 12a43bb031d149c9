"""Labels of a folder of bags: from a table, from subfolders, or from a file per bag."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.bags.reading.bag_file import ARRAYS, TABLES
from groupnoise.bags.reading.labels import KnownLabels, report_label_issues
from groupnoise.bags.reading.names import bags_by_spelling, match_bag, others_clause
from groupnoise.bags.reading.options import BagReadOptions
from groupnoise.bags.reading.splits import (
    SIDE_BY_NAME,
    check_patients_separate,
    filled_cells,
    is_split_table,
    read_header,
    read_split_column,
    split_summary,
    text_cells,
)
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, MissingColumnError, MissingDataError
from groupnoise.io.columns.names import plain_name, usual_column
from groupnoise.io.columns.roles import match_columns, pick_column, require_column
from groupnoise.io.labels.memberships import read_memberships
from groupnoise.io.tables.sources import Report, ignore_report
from groupnoise.io.tables.table import Table, read_table

FEATURE_FOLDERS = ("h5_files", "features", "pt_files")
"""Subfolders with the files of bags, as CLAM and torchmil write them."""
LABEL_FILES = ("labels.csv", "labels.tsv", "labels.parquet", "labels.xlsx")
"""Names of label tables, in any case."""
MIN_PER_LABEL = 3
"""Minimum mean bags per label in a column that is guessed to be the label."""
LABEL_SUFFIXES = (*TABLES, ".xlsx")
MAX_SHOWN = 6
MIN_PATIENTS = 5
"""Minimum folders of a level that is read as patients."""
MIN_CASES = 10
"""Distinct values from which columns `case` and `subject` are read as patients."""


@dataclass(frozen=True)
class BagLabels:
    """Labels and metadata of bags, in the order of their files."""

    labels: BoolArray
    class_names: list[str]
    patients: NDArray[Any] | None
    split: NDArray[Any] | None
    columns: dict[str, Any]

    def split_by(self, sides: NDArray[Any], told_by: str | None) -> BagLabels:
        """Return the bags that belong to a side; `told_by`: the split table, to be recorded."""
        kept = np.flatnonzero(sides != "")
        return replace(
            self,
            labels=self.labels[kept],
            patients=None if self.patients is None else self.patients[kept],
            split=sides[kept],
            columns=self.columns | ({} if told_by is None else {"split": told_by}),
        )


def find_label_table(folder: Path) -> Path | None:
    """Return the label table in a folder: by its name, or the only table beside arrays."""
    try:
        files = [file for file in sorted(folder.iterdir()) if not file.name.startswith(".")]
    except OSError:
        return None
    named = {file.name.lower(): file for file in files if file.is_file()}
    found = next((named[name] for name in LABEL_FILES if name in named), None)
    tables = [file for file in named.values() if file.suffix.lower() in LABEL_SUFFIXES]
    tables = [file for file in tables if not is_split_table(file)]
    is_alone = len(tables) == 1 and any(
        file.suffix.lower() in ARRAYS or file.name in FEATURE_FOLDERS for file in files
    )
    return found or (tables[0] if is_alone else None)


def read_label_table(
    source: Any, bag_ids: Sequence[str], folder: str, options: BagReadOptions
) -> BagLabels:
    """Read labels from a table with one row per bag, in the order of `bag_ids`.

    By default the id column is the one that matches most files.
    """
    if isinstance(source, (str, Path)) and not Path(source).is_file():
        raise MissingDataError(f"there is no table of labels {source}; give it with --labels.")
    encoding = options.form.get("encoding")
    table = read_table(source, decimal=".", encoding=encoding)  # ids and labels are words
    origin, report = table.origin, options.report
    known = bags_by_spelling(bag_ids)
    if any(match_bag(name, known) for name in table.frame.columns):
        report(f"{origin} has no header line: its first line names a bag")
        table = read_table(source, decimal=".", encoding=encoding, header=False)
    columns = table.frame.columns
    if options.group is not None:
        group = match_columns("group", [options.group], columns, origin)[0]
    else:
        group = _column_of_ids(table, bag_ids, folder, report)
    order = _rows_of_bags(table, group, bag_ids, folder)
    taken = {group}
    told: dict[str, Any] = {"origin": origin, "report": report, "taken": taken}
    patient = pick_column("patient", options.patient, columns, **told)
    taken |= {patient} if patient is not None else set()
    # A file is no column of this table: it says the split alone.
    column = None if options.split_file is not None else options.split
    split = pick_column("split", column, columns, **told)
    taken |= {split} if split is not None else set()
    label = options.label or _guess_label_column(table, taken, report)
    if label is None:
        label = require_column("label", None, columns, **told)
    label_columns = match_columns("label", label, columns, origin)
    rows = table.take(order)
    memberships, class_names = read_memberships(
        rows,
        label_columns,
        separator=options.label_separator,
        report=report,
        may_lack=True,
        several=options.known.has_sets,
    )
    report_label_issues(class_names, memberships, rows.locate, report)
    patients = None if patient is None else filled_cells(rows, patient)
    sides = None if split is None else read_split_column(rows, split)
    if patients is not None:
        if sides is not None:
            check_patients_separate(
                patients, sides, lambda bag: f"{rows.locate(bag)}, bag {bag_ids[bag]!r}"
            )
        n_patients = len(np.unique(patients))
        report(f"bags of each of the {n_patients} patients stay together in every hold-out")
    if sides is not None:
        report(f"bags are held out as column {split!r} says ({split_summary(sides)})")
    parts = {"group": group, "label": label_columns, "patient": patient, "split": split}
    return BagLabels(memberships, class_names, patients, sides, parts)


def read_patients(
    table: Table, given: str | None, taken: Collection[str], group: str
) -> tuple[pl.Series | None, str | None]:
    """Return the patient of each row, if patients have several bags, and the column.

    `given`: the explicit column; a guessed one must be complete and constant within bags. `taken`:
    columns with another role. `group`: the column of bag ids.
    """
    columns = table.frame.columns
    column = pick_column(
        "patient", given, columns, origin=table.origin, report=ignore_report, taken=taken
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
            f"{str(odd['bag'][0])!r}; all rows of a bag must name the same one."
        )
    has_several = (n_patients := kinds["first"].n_unique()) < kinds.height
    may_be_kinds = plain_name(column) in ("case", "subject") and n_patients < MIN_CASES
    if odd.height or (given is None and (may_be_kinds or not has_several)):
        return None, None
    return (cells if has_several else None), column


def labels_from_folders(
    places: Sequence[PurePath], folder: str, report: Report, known: KnownLabels
) -> BagLabels | None:
    """Return labels from the names of subfolders; None if they do not look like labels.

    Of nested folders, labels are the level with the fewest names, or one known to the model; split
    names may be above, and a level with many names is read as patients. `places`: files of the
    bags relative to `folder`.
    """
    parents = [place.parts[:-1] for place in places]
    levels = [list(names) for names in zip(*parents, strict=False)]
    levels = levels[: min(map(len, parents), default=0)]
    sides = None
    if levels and {name.lower() for name in levels[0]} <= set(SIDE_BY_NAME):
        sides = np.array([SIDE_BY_NAME[name.lower()] for name in levels.pop(0)])
        sides = sides if (sides == "train").any() else None
    of_model = [level for level in levels if set(level) <= set(known.classes)]
    several = [level for level in levels if len(set(level)) > 1]
    free = [level for level in several if not _are_numbered(level)]
    words = next(iter(of_model), min(free, key=lambda level: len(set(level)), default=None))
    if words is None or (not of_model and len(words) < MIN_PER_LABEL * len(set(words))):
        return None
    memberships, classes = encode_labels(words)
    sizes = Counter(words)
    shown = ", ".join(f"{name} ({sizes[name]})" for name in classes[:MAX_SHOWN])
    more = ", ..." if len(classes) > MAX_SHOWN else ""
    report(f"took the names of folders below {folder} as labels: {shown}{more}")
    report_label_issues(classes, memberships, lambda row: str(places[row]), report)
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
    """Return whether folders are numbered entities, such as `patient_07`."""
    stems = {name.rstrip("0123456789") for name in names}
    is_one = len(stems) == 1 and not any(name in stems for name in names)
    parts = ("patient", "group", "user", "item")
    return is_one and any(usual_column(part, list(stems)) for part in parts)


def are_tables_of_bags(files: Sequence[Path], path: Path) -> bool:
    """Return whether tables in folders named by labels are one bag each."""
    is_partition = any("=" in part for file in files for part in file.relative_to(path).parts)
    return not is_partition and _are_in_label_folders(files, path) and lacks_id_columns(files[0])


def is_unrelated_table(table: Path, bags: Sequence[Path]) -> bool:
    """Return whether a table beside folders named by labels is unrelated to the bags."""
    columns = read_header(table)
    is_data = any(usual_column(part, columns) for part in ("user", "item", "label"))
    return not is_data and _are_in_label_folders(bags, table.parent)


def _are_in_label_folders(files: Sequence[Path], path: Path) -> bool:
    places = [file.relative_to(path) for file in files]
    return labels_from_folders(places, str(path), ignore_report, KnownLabels()) is not None


def lacks_id_columns(table: Path) -> bool:
    """Return whether a table has no column of bags, clicks or labels, judged by its header."""
    columns = read_header(table)
    return not any(usual_column(part, columns) for part in ("group", "user", "item", "label"))


def read_label_files(folder: Path, ids: Sequence[str]) -> BagLabels:
    """Return labels from one file per bag, as in a torchmil folder."""
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
    return BagLabels(*encode_labels(words), None, None, {})


def encode_labels(words: Sequence[str]) -> tuple[BoolArray, list[str]]:
    """Return one-hot labels (n_bags, n_classes) and the classes."""
    classes, codes = np.unique(words, return_inverse=True)
    return np.eye(len(classes), dtype=np.bool_)[codes], classes.tolist()


def _guess_label_column(table: Table, taken: Collection[str], report: Report) -> str | None:
    """Return the only column that can be the label, if no column is named so."""
    free = [name for name in table.frame.columns if name not in taken]
    if usual_column("label", free) is not None:
        return None
    distinct = {name: len(set(text_cells(table, name)) - {""}) for name in free}
    found = [name for name in free if 1 < distinct[name] <= len(table) / MIN_PER_LABEL]
    if len(found) != 1:
        return None
    report(f"took column {found[0]!r} as the label, the only one whose cells repeat (--label)")
    return found[0]


def _column_of_ids(table: Table, bag_ids: Sequence[str], folder: str, report: Report) -> str:
    """Return the column that matches most bags."""
    known = bags_by_spelling(bag_ids)
    found = {
        name: sum(match_bag(cell, known) is not None for cell in text_cells(table, name))
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
    known, row_of = bags_by_spelling(bag_ids), dict[str, int]()
    unmatched = []
    for row, cell in enumerate(text_cells(table, group)):
        bag = match_bag(cell, known)
        if bag is None:
            unmatched.append((row, cell))
        elif bag in row_of:
            raise DataError(
                f"{table.locate(row)}: bag {bag!r} has a row already ({table.locate(row_of[bag])})"
                "; give one row per bag, several labels joined by ';'."
            )
        else:
            row_of[bag] = row
    if unmatched:
        row, cell = unmatched[0]
        if not cell:
            raise DataError(
                f"{table.locate(row)}: column {group!r} is empty; write the name of the bag, or "
                "leave out the row."
            )
        raise MissingColumnError(
            f"{table.locate(row)}: bag {cell!r} has no file in {folder}"
            f"{others_clause(len(unmatched))}; add the file or leave out the row.",
            "labels",
        )
    without = [bag for bag in bag_ids if bag not in row_of]
    if without:
        raise MissingColumnError(
            f"bag {without[0]!r} of {folder} has no row in {table.origin}"
            f"{others_clause(len(without))}; add its label or move its file elsewhere.",
            "labels",
        )
    return np.array([row_of[bag] for bag in bag_ids], dtype=np.int64)
