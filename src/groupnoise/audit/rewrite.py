"""A cleaned copy in the form that the audited file had: its columns, fewer rows or labels."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from groupnoise.core.arrays import BoolArray
from groupnoise.exceptions import DataError
from groupnoise.io.files import atomic_path
from groupnoise.io.memberships import LABEL_SEPARATORS
from groupnoise.io.setting import RowLabels, setting_of
from groupnoise.io.tables import Table

FORMS = (".csv", ".tsv", ".txt", ".jsonl", ".parquet", ".arrow")
"""Suffixes that make a cleaned copy a file."""


def cleaned_table(
    table: Table, dataset: Any, cleaned: Any, *, label_separator: str | None = None
) -> pl.DataFrame:
    """Return the rows of a file that are left, with the labels that are left.

    `dataset`, `cleaned`: what was read from it, and what `cleaned_copy` made of that.
    `label_separator`: what joins several labels in a cell; guessed where a cell is written anew.
    """
    setting = setting_of(dataset)
    before, after = setting.row_labels(dataset), setting.row_labels(cleaned)
    if before is None or after is None:
        raise DataError(
            f"{table.origin} has not one row per {setting.object_name}, so a cleaned copy cannot "
            "have its form; give --clean a folder."
        )
    order = np.argsort(after.rows, kind="stable")
    rows = after.rows[order]
    frame = table.frame[rows]
    if after.memberships is None or before.memberships is None:
        return frame
    kept = after.memberships[order]
    earlier = np.zeros((len(table), kept.shape[1]), dtype=bool)
    earlier[before.rows] = before.memberships
    changed = np.flatnonzero((kept != earlier[rows]).any(axis=1))
    return _with_labels(frame, after, kept, changed.tolist(), label_separator)


def _with_labels(
    frame: pl.DataFrame,
    labels: RowLabels,
    kept: BoolArray,
    changed: Sequence[int],
    separator: str | None,
) -> pl.DataFrame:
    """Write the labels of changed rows anew; all other cells stay as they are."""
    columns = labels.columns
    if len(columns) > 1:  # one 0/1 column per class
        for number, column in enumerate(columns):
            cells = frame[column].to_list()
            for row in changed:
                if not kept[row, number]:
                    cells[row] = type(cells[row])(0)
            frame = frame.with_columns(pl.Series(column, cells, dtype=frame.schema[column]))
        return frame
    cells = frame[columns[0]].to_list()
    names = np.asarray(labels.class_names)
    for row in changed:
        cells[row] = rewritten_cell(cells[row], names[kept[row]].tolist(), separator)
    series = pl.Series(columns[0], cells, dtype=frame.schema[columns[0]])
    return frame.with_columns(series)


def rewritten_cell(cell: Any, labels: Sequence[str], separator: str | None = None) -> Any:
    """Return a cell with fewer labels, in the notation it had.

    Examples
    --------
    >>> rewritten_cell("cat|dog|emu", ["cat", "emu"])
    'cat|emu'
    >>> rewritten_cell('{"cat": 0.5, "dog": 0.5}', ["dog"])
    '{"dog": 0.5}'
    """
    if isinstance(cell, dict):
        return {label: weight if label in labels else None for label, weight in cell.items()}
    if isinstance(cell, list):
        return [label for label in cell if str(label) in labels]
    if not isinstance(cell, str):
        return cell
    if cell.lstrip().startswith("{") and ":" in cell:
        weights = json.loads(cell)
        return json.dumps({label: weights[label] for label in labels})
    if cell.lstrip().startswith(("[", "{", "(")):
        return json.dumps(list(labels))
    joined = separator or next((mark for mark in LABEL_SEPARATORS if mark in cell), ";")
    return joined.join(labels)


def write_cleaned_table(path: Path, frame: pl.DataFrame, *, separator: str, header: bool) -> None:
    """Write a table in the form its suffix names, atomically.

    `path`: ends in one of `FORMS`. `separator`: what to put between cells of text. `header`:
    whether text begins with the names of the columns.
    """
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            frame.write_parquet(temporary)
        elif path.suffix == ".arrow":
            frame.write_ipc(temporary)
        elif path.suffix == ".jsonl":
            frame.write_ndjson(temporary)
        else:
            frame.write_csv(temporary, separator=separator, include_header=header)
