"""Cleaned copies of audited data and of the files they came from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from groupnoise.audit.issues import GroupIssues
from groupnoise.clicks.reading.filters import keep_clicks
from groupnoise.core.arrays import BoolArray
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.answer_files import write_columns
from groupnoise.io.datasets import (
    BagDataset,
    ClickDataset,
    PartialLabelDataset,
    subset_bags,
    subset_rows,
)
from groupnoise.io.files import atomic_path
from groupnoise.io.labels.columns import are_single_label_columns
from groupnoise.io.labels.memberships import LABEL_SEPARATORS, parse_literals
from groupnoise.io.labels.spellings import WEAK_SEPARATORS, spelling_key
from groupnoise.io.setting import RowLabels, setting_of
from groupnoise.io.tables.cells import BOOLEANS
from groupnoise.io.tables.table import Table

FORMS = (".csv", ".tsv", ".txt", ".jsonl", ".parquet", ".arrow", ".xlsx")
"""Suffixes with which a cleaned copy is a file."""
_WEIGHT = re.compile(r"\s*([:=]\s*[\d.]+|\([\d.]+\))\s*$")
"""The weight after a label."""
SUSPICIOUS_SHARE = 0.2
"""Share of dropped data from which a warning is given."""


def cleaned_copy(
    dataset: Any, issues: GroupIssues, *, drop_users: bool = False, drop_clicks: bool | None = None
) -> Any:
    """Return a data set without what its audit found wrong.

    Bags lose labels that look wrong, and go where none is left or one seems to be missing. Rows
    lose candidate labels that can be dropped, never the one chosen, and go where the right label
    seems to be missing. Histories lose stray clicks.

    Parameters
    ----------
    dataset : BagDataset, PartialLabelDataset or ClickDataset
        What was audited.
    issues : GroupIssues
        What `find_group_issues` returned for it.
    drop_users : bool, default=False
        Whether users that look like bots or repeat-clickers go with all of their clicks.
    drop_clicks : bool, optional
        Whether histories lose stray clicks; by default where `drop_users` is not asked for.

    Returns
    -------
    BagDataset, PartialLabelDataset or ClickDataset
        A new data set; `groupnoise.io.write_groups` writes it to a folder.
    """
    if drop_users or drop_clicks is not None:
        if issues.setting != "rs":
            option = "drop_users (--drop-users)" if drop_users else "drop_clicks (--drop-clicks)"
            raise ParameterError(f"{option} is for click histories.")
        drops = not drop_users if drop_clicks is None else drop_clicks
        return clean_clicks(dataset, issues, drop_users=drop_users, drop_clicks=drops)
    clean: dict[str, Any] = {"mil": clean_bags, "pll": clean_candidates, "rs": clean_clicks}
    return clean[dataset.setting](dataset, issues)


def clean_bags(dataset: BagDataset, issues: GroupIssues) -> BagDataset:
    """Return bags without wrong labels; bags with none left, or one missing, are dropped."""
    _check_same_data(issues, dataset.bags.n_objects)
    wrong = issues.ranked("wrong_target")
    bags, targets = issues.groups["source"][wrong], issues.groups["target"][wrong]
    labels, bare = dataset.labels.copy(), dataset.labels.sum(axis=1) == 0
    labels[bags[targets >= 0], targets[targets >= 0]] = False
    bare[bags[targets < 0]] = False
    kept = _check_some_left(labels.any(axis=1) | bare)
    return subset_bags(replace(dataset, labels=labels), kept)


def clean_candidates(dataset: PartialLabelDataset, issues: GroupIssues) -> PartialLabelDataset:
    """Return rows without droppable candidates; rows without the right candidate are dropped."""
    _check_same_data(issues, int(dataset.candidates.sum()))
    dropped = issues.ranked("droppable_candidate")
    rows, labels = issues.objects["source"][dropped], issues.objects["object"][dropped]
    candidates = dataset.candidates.copy()
    candidates[rows, labels] = False
    candidates[issues.groups["source"], issues.groups["object"]] = True
    kept = np.ones(len(candidates), dtype=bool)
    kept[issues.groups["source"][issues.ranked("wrong_target")]] = False
    return subset_rows(replace(dataset, candidates=candidates), _check_some_left(kept))


def clean_clicks(
    dataset: ClickDataset,
    issues: GroupIssues,
    *,
    drop_users: bool = False,
    drop_clicks: bool = True,
) -> ClickDataset:
    """Return histories without stray clicks, without users that look like bots, or without both."""
    _check_same_data(issues, dataset.histories.n_objects)
    kept = np.ones(dataset.histories.n_objects, dtype=bool)
    if drop_clicks:
        kept[issues.ranked("stray_click")] = False
    if drop_users and issues.users:
        kept &= ~np.isin(dataset.histories.group_of_object, issues.users["source"])
    # Notes about the original log do not apply.
    notes = {"clicks_dropped": int((~kept).sum())}
    return replace(keep_clicks(dataset, _check_some_left(kept)), notes=notes)


def describe_changes(dataset: Any, cleaned: Any) -> tuple[str, bool]:
    """Return a phrase about what a cleaned copy lacks, and whether that is suspiciously much.

    Candidate labels do not count for the latter: dropping them is the purpose.
    """
    setting = setting_of(dataset)
    (parts, before), (_, after) = _parts(dataset), _parts(cleaned)
    n_groups, n_left = setting.n_groups(dataset), setting.n_groups(cleaned)
    lost = [(before - after, before, parts), (n_groups - n_left, n_groups, setting.units)]
    told = [f"{n} of {counted(of, units)} ({n / of:.0%})" for n, of, units in lost if n]
    watched = lost[1:] if isinstance(dataset, PartialLabelDataset) else lost
    return " and ".join(told) or "nothing", any(n > SUSPICIOUS_SHARE * of for n, of, _ in watched)


def _parts(dataset: Any) -> tuple[str, int]:
    """Return the name and number of what cleaning drops of groups."""
    if isinstance(dataset, BagDataset):
        return "labels", int(dataset.labels.sum())
    if isinstance(dataset, PartialLabelDataset):
        return "candidates", int(dataset.candidates.sum())
    return "clicks", dataset.histories.n_objects


def _check_some_left(kept: BoolArray) -> BoolArray:
    if not kept.any():
        raise DataError("the audit finds fault with every group, so no cleaned copy would be left.")
    return kept


def _check_same_data(issues: GroupIssues, n_objects: int) -> None:
    if len(issues.objects["noise"]) != n_objects:
        raise DataError(
            "these issues were found in other data; give the data set that was audited."
        )


def cleaned_table(
    table: Table, dataset: Any, cleaned: Any, *, label_separator: str | None = None
) -> pl.DataFrame:
    """Return the rows of a file that are left, with the labels that are left."""
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
    """Rewrite the labels of changed rows; all other cells stay as they are."""
    columns, names = labels.columns, np.asarray(labels.class_names)
    if are_single_label_columns(frame, columns):
        for column in columns:
            cells = frame[column].to_list()
            for row in changed:
                if not _mentions([cells[row]], names[kept[row]].tolist()):
                    cells[row] = None
            frame = frame.with_columns(pl.Series(column, cells, dtype=frame.schema[column]))
        return frame
    if len(columns) > 1:  # one 0/1 column per class
        for number, column in enumerate(columns):
            cells = frame[column].to_list()
            for row in changed:
                if not kept[row, number]:
                    cells[row] = _negative_of(cells[row])
            frame = frame.with_columns(pl.Series(column, cells, dtype=frame.schema[column]))
        return frame
    cells = frame[columns[0]].to_list()
    for row in changed:
        cells[row] = rewritten_cell(cells[row], names[kept[row]].tolist(), separator)
    series = pl.Series(columns[0], cells, dtype=frame.schema[columns[0]])
    return frame.with_columns(series)


def _negative_of(cell: Any) -> Any:
    """Return the negative of an indicator cell: 0, the opposite word, or an empty cell."""
    word = cell.strip().lower() if isinstance(cell, str) else ""
    negative = dict(BOOLEANS).get(word)
    if negative is None:
        return None if word and not word[0].isdigit() else type(cell)(0)  # of what was ticked
    return negative.upper() if cell.isupper() else negative


def rewritten_cell(cell: Any, labels: Sequence[str], separator: str | None = None) -> Any:
    """Return a cell with fewer labels, in the notation it had.

    Examples
    --------
    >>> rewritten_cell("cat|dog|emu", ["cat", "emu"])
    'cat|emu'
    >>> rewritten_cell('{"cat": 0.5, "dog": 0.5}', ["dog"])
    '{"dog": 0.5}'
    >>> rewritten_cell("cat:0.2; dog:0.5; emu:0.3", ["cat", "emu"])
    'cat:0.2; emu:0.3'
    >>> rewritten_cell("brown cat / dog / emu", ["brown cat", "emu"])
    'brown cat / emu'
    """
    if isinstance(cell, dict):
        return {label: weight if label in labels else None for label, weight in cell.items()}
    if isinstance(cell, list):  # of labels, or of labels with a weight each
        named = [each.values() if isinstance(each, dict) else [each] for each in cell]
        return [each for each, words in zip(cell, named, strict=True) if _mentions(words, labels)]
    if not isinstance(cell, str):
        return cell
    if cell.lstrip().startswith("{") and ":" in cell:
        weights = next(parse_literals(cell))
        return json.dumps({each: weights[each] for each in weights if _mentions([each], labels)})
    if cell.lstrip().startswith(("[", "{", "(")):
        return json.dumps(list(labels))
    *marks, blank = LABEL_SEPARATORS
    for mark in (separator, *marks, *WEAK_SEPARATORS, blank):
        parts = cell.split(mark) if mark else []
        kept = [part for part in parts if _mentions([_WEIGHT.sub("", part)], labels)]
        if len(parts) > len(kept) == len(labels):
            return (mark or "").join(kept).strip()
    return (separator or ";").join(labels)


def _mentions(words: Iterable[Any], labels: Sequence[str]) -> bool:
    """Tell whether one of some words is a label, in any spelling."""
    keys = {spelling_key(label) for label in labels}
    return any(spelling_key(str(word)) in keys for word in words)


def write_cleaned_table(
    path: Path, frame: pl.DataFrame, *, separator: str, header: bool, has_mark: bool = False
) -> None:
    """Write a table in the form its suffix names, atomically."""
    if path.suffix == ".xlsx":
        write_columns(path, frame.to_dict(as_series=False))
        return
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            frame.write_parquet(temporary)
        elif path.suffix == ".arrow":
            frame.write_ipc(temporary)
        elif path.suffix == ".jsonl":
            frame.write_ndjson(temporary)
        else:
            nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
            frame = frame.with_columns(_as_json(frame[name]) for name in nested)
            frame.write_csv(
                temporary, separator=separator, include_header=header, include_bom=has_mark
            )


def _as_json(cells: pl.Series) -> pl.Series:
    """Return lists and objects as text; labels without a weight are left out of it."""
    plain = [
        {key: value for key, value in cell.items() if value is not None}
        if isinstance(cell, dict)
        else cell
        for cell in cells.to_list()
    ]
    return pl.Series(cells.name, [None if cell is None else json.dumps(cell) for cell in plain])
