"""Bags of instances (multiple-instance learning) from a table or from arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.bags.reading.bag_file import SUFFIXES
from groupnoise.bags.reading.folder import is_bag_folder, read_bag_folder
from groupnoise.bags.reading.label_table import read_patients
from groupnoise.bags.reading.labels import (
    KnownLabels,
    merge_spellings,
    read_bag_truth,
    report_label_issues,
)
from groupnoise.bags.reading.options import BagReadOptions
from groupnoise.bags.sival import load_amil
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.checks import check_features
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, MissingColumnError, MissingDataError
from groupnoise.io.columns.exclusions import RowTargets, shortened_id_warnings
from groupnoise.io.columns.features import extract_features
from groupnoise.io.columns.roles import match_columns, pick_column, require_column
from groupnoise.io.columns.word_features import read_categories, report_unknown_categories
from groupnoise.io.datasets import BagDataset
from groupnoise.io.folders.data_folder import open_if_stored
from groupnoise.io.labels.columns import merge_label_columns
from groupnoise.io.labels.memberships import read_memberships
from groupnoise.io.tables.array_files import NamedArrays, check_array_rows, class_index, read_input
from groupnoise.io.tables.cells import ids_as_array, number_ids, read_id_cells
from groupnoise.io.tables.imputation import ImputerState, make_imputer
from groupnoise.io.tables.nested_cells import non_numeric_columns
from groupnoise.io.tables.sources import Report, ignore_report
from groupnoise.io.tables.table import Table


def read_bags(
    source: Any,
    *,
    group: str | None = None,
    label: str | Sequence[str] | None = None,
    features: str | Sequence[str] | None = None,
    truth: str | None = None,
    label_separator: str | None = None,
    labels: Any = None,
    patient: str | None = None,
    split: str | None = None,
    name: str | None = None,
    report: Report | None = None,
    feature_names: Sequence[str] | None = None,
    labels_needed: bool = True,
    categories: Mapping[str, Sequence[str]] | None = None,
    fill: str | ImputerState | None = None,
    known: KnownLabels | None = None,
    **table_options: Any,
) -> BagDataset:
    """Read bags of instances from a table with one row per instance, or from arrays.

    Parameters
    ----------
    source : str, Path or frame
        CSV, TSV, Parquet, Arrow, JSON lines (a file, a folder, a glob, an address), `.npz`,
        `.mat`, a folder of AMIL `.names` and `.data` files, or a frame of pandas, polars or
        pyarrow. Or a folder with one `.h5`, `.pt`, `.npy`, `.npz` or `.csv` per bag, or one `.h5`
        with a group per bag, and `labels`.
    group : str, optional
        The column of bag ids, text or whole numbers, or several joined by commas, as
        `machine,day`; rows of a bag need not be adjacent.
    label : str or list of str, optional
        One column of bag labels (several labels joined by a separator are allowed), or one 0/1
        column per class. All rows of a bag must agree. Where bags may have several labels, an
        empty cell or a word such as `none` says that a bag has none.
    features : str or list of str, optional
        Numeric columns, by name or by patterns such as `f*`, or one column of lists. By default
        every numeric column that plays no other part and is no id, row number or constant.
    truth : str, optional
        The column of the true class of each instance; 'background', empty or -1 where none.
        'background' is the negative label where the bags have one; so is an empty cell, if
        nothing else says it and every other label of a bag has an instance.
    label_separator : str, optional
        What joins the labels of a bag in one cell; guessed.
    labels : str, Path or frame, optional
        For one file per bag: the table of bag ids and labels, whose columns `group`, `label`,
        `patient` and `split` name. By default `labels.csv` in the folder.
    patient : str, optional
        The column, of `labels` where there is one, that says whom a bag comes from: no hold-out
        parts their bags, and it is no feature.
    split : str, optional
        The column of `labels` that says train, validation or test, or a table of its own with a
        column of bag names per side, as `splits_0.csv` of CLAM; bags it does not name are left out.
    name : str, optional
        What to call the set; by default the file's name.
    report : callable, optional
        Told of each guess, one sentence at a time.
    feature_names : sequence of str, optional
        The columns a model learned from: they are taken in this order and no others, and guesses
        leave them alone. Arrays and lists do not name their columns, so there it has no say.
    labels_needed : bool, default=True
        False for bags to be answered about: labels and truth may be there or not and are not
        read, so that the set has no classes.
    known : KnownLabels, optional
        What a model knows of labels, for which the bags are read.
    categories : dict, optional
        The categories that a model learned, by column, as `columns` of its data has them: it is
        said, or warned, where cells hold others or none.
    fill : {"median", "no"} or dict, optional
        What stands in place of missing numbers of features: the median of their column, or numbers
        by column, as `columns` of an earlier data set has them (then columns far outside of their
        range are told of). By default the median, where at most half of a column's numbers are
        missing; more, and all with "no", are refused.
    **table_options
        Passed to `read_table`: `format`, `filesystem`, `separator`, `header`, `decimal`, `sheet`,
        `encoding`.

    Returns
    -------
    bags : BagDataset
        Bags in the order of their first rows.
    """
    stored = open_if_stored(source, BagDataset)
    if stored is not None:
        return stored
    tell = report or ignore_report
    options = BagReadOptions(
        tell, group, label, features, truth, label_separator, patient, split, feature_names,
        labels_needed, known or KnownLabels(), make_imputer(fill, tell), table_options,
    )  # fmt: skip
    if is_bag_folder(source, labels, labels_needed):
        # Of a file per bag gaps are filled where that was asked for.
        options = options if fill is not None else replace(options, fill=None)
        found = read_bag_folder(source, labels, options)
        return found if name is None else replace(found, name=name)
    path = Path(source) if isinstance(source, (str, Path)) else None
    _check_no_label_table(source, path, {"labels": labels, "split": split})
    if path is not None and any(path.glob("*.data")):
        tell(f"read {source} as AMIL: one .names and one .data file per class")
        return load_amil(name=name or path.name, folder=path)
    words = non_numeric_columns(group, label, truth)
    data = read_input(source, report=tell, words=words, **table_options)
    if isinstance(data, NamedArrays):
        return _bags_from_arrays(data, name or data.name, options)
    report_unknown_categories(data, categories, report)
    try:
        return _bags_from_table(data, name or data.name, options)
    except MissingColumnError as error:
        if error.part != "group" or path is None or not path.is_dir():
            raise
        raise MissingColumnError(
            f"{error} If each file is a bag, give the table of their labels (--labels).",
            error.part,
            error.columns,
        ) from None


def _check_no_label_table(source: Any, path: Path | None, given: Mapping[str, Any]) -> None:
    part = next((part for part, value in given.items() if value is not None), None)
    if part is None:
        return
    if path is not None and not path.exists():
        raise MissingDataError(f"there is no file or folder {source}; check the path.")
    if path is not None and path.is_dir():
        kinds = ", ".join(SUFFIXES)
        raise DataError(f"{source} holds no bags of a kind that is read ({kinds}).")
    raise MissingColumnError(
        f"{source} is not a folder with a file per bag, so it takes no `{part}` (--{part}).", part
    )


def _bags_from_table(table: Table, name: str, options: BagReadOptions) -> BagDataset:
    report, taken = options.report, set(options.feature_names or ())
    table, parts = _join_id_columns(table, options.group)
    taken.update(parts)
    group, label_columns, truth_column = _find_columns(table, options, taken)
    table = _fill_merged_cells(table, group, label_columns if options.labels_needed else (), report)
    bag_ids, bag_of_row = number_ids(read_id_cells(table, group))
    for sentence in shortened_id_warnings(bag_ids, "bags"):
        report(sentence)
    patients, patient_column = read_patients(table, options.patient, taken, group)
    if patient_column is not None:
        taken.add(patient_column)
    memberships: BoolArray = np.zeros((len(table), 0), dtype=np.bool_)
    class_names: list[str] = []
    if options.labels_needed:
        labelled, of_labels = merge_label_columns(table, label_columns, report)
        memberships, class_names = read_memberships(
            labelled, of_labels, separator=options.label_separator, report=report, may_lack=True,
            several=options.known.has_sets, n_groups=len(bag_ids),
        )  # fmt: skip
        class_names, memberships = merge_spellings(class_names, memberships, bag_of_row, report)
    answers = RowTargets(memberships, class_names) if class_names else None
    matrix, names = extract_features(
        table, options.features, taken, report, options.feature_names, bag_of_row,
        answers=answers, fill=options.fill,
    )  # fmt: skip
    learned = read_categories(table, names)
    order, bag_numbers = Groups.from_rows(np.arange(len(table)), bag_of_row)
    labels = _labels_of_bags(table, memberships, order, bag_ids[bag_of_row])
    first_rows = order.objects[order.offsets[:-1]]
    instance_labels = None
    if options.labels_needed:
        if patients is not None:
            report(
                f"bags of each of the {patients.n_unique()} in column {patient_column!r} stay "
                "together in every hold-out"
            )
        report_label_issues(
            class_names, labels, lambda bag: table.locate(int(first_rows[bag])), report
        )
        if truth_column is not None:
            of_row: IntArray = np.empty(len(table), dtype=np.int64)
            of_row[order.objects] = order.group_of_object
            class_names, right = read_bag_truth(
                table, truth_column, class_names, labels, of_row, options.known, report
            )
            labels = np.pad(labels, ((0, 0), (0, len(class_names) - labels.shape[1])))
            instance_labels = right[order.objects]
    return BagDataset(
        name=name,
        bags=Groups(matrix[order.objects], order.offsets),
        labels=labels,
        class_names=class_names,
        instance_labels=instance_labels,
        feature_names=names,
        bag_ids=bag_ids[bag_numbers],
        source_rows=order.objects,
        patients=None if patients is None else ids_as_array(patients[first_rows]),
        columns={"group": group, "label": label_columns, "truth": truth_column}
        | ({} if patient_column is None else {"patient": patient_column})
        | ({"categories": learned} if learned else {})
        | ({"fill": options.fill.learned} if options.fill is not None else {}),
    )


def _find_columns(
    table: Table, options: BagReadOptions, taken: set[str]
) -> tuple[str, list[str], str | None]:
    """Return the columns of bags, of their labels and of the truth, and add them to `taken`."""
    columns = table.frame.columns
    told: dict[str, Any] = {"origin": table.origin, "report": options.report, "taken": taken}
    group = require_column("group", options.group, columns, **told)
    taken.add(group)
    if options.label is not None:
        labels = match_columns("label", options.label, columns, table.origin)
    else:
        find = require_column if options.labels_needed else pick_column
        found = find("label", None, columns, **told)
        labels = [] if found is None else [found]
    taken.update(labels)
    truth = pick_column("truth", options.truth, columns, **told)
    taken |= set() if truth is None else {truth}
    return group, labels, truth


def _join_id_columns(table: Table, group: str | None) -> tuple[Table, list[str]]:
    """Return a table with ids made of several columns, where `group` names these, and which."""
    parts = [] if group is None else [part.strip() for part in group.split(",")]
    if group is None or len(parts) < 2 or group in table.frame.columns:
        return table, []
    if not set(parts) <= set(table.frame.columns):
        return table, []
    cells = [pl.col(part).cast(pl.String).str.strip_chars().replace("", None) for part in parts]
    ids = pl.concat_str(cells, separator=" ").alias(group)
    return replace(table, frame=table.frame.with_columns(ids)), parts


def _labels_of_bags(
    table: Table, memberships: BoolArray, order: Groups, bag_of_row: Any
) -> BoolArray:
    """Return the labels of each bag; rows that disagree inside a bag are refused."""
    first_rows = order.objects[order.offsets[:-1]]
    labels: BoolArray = memberships[first_rows]
    agrees = (memberships[order.objects] == labels[order.group_of_object]).all(axis=1)
    if not agrees.all():
        row = int(order.objects[~agrees].min())
        raise DataError(
            f"{table.locate(row)}: bag {str(bag_of_row[row])!r} has rows with different labels; "
            "correct them, or list several labels of a bag joined by ';' on each of its rows."
        )
    return labels


def _bags_from_arrays(data: NamedArrays, name: str, options: BagReadOptions) -> BagDataset:
    report = options.report
    features = data.need("features", options.features, report)
    matrix = check_features(f"{data.path}: features", features)
    bag_of_row = data.need("group", options.group, report).ravel()
    check_array_rows(data.path, "group", bag_of_row, len(matrix))
    order, bag_ids = Groups.from_rows(np.arange(len(matrix)), bag_of_row)
    labels: BoolArray = np.zeros((len(order), 0), dtype=np.bool_)
    class_names: list[str] = []
    instance_truth, instance_labels = None, None
    if options.labels_needed:
        given = data.need("label", options.label, report)
        labels, class_names = _array_labels(data, given, order, bag_ids, report)
        instance_truth = data.find("truth", options.truth, report)
    if instance_truth is not None:
        check_array_rows(data.path, "truth", instance_truth.ravel(), len(matrix))
        instance_labels = class_index(instance_truth.ravel(), class_names, data.path)[order.objects]
    return BagDataset(
        name=name,
        bags=Groups(matrix[order.objects], order.offsets),
        labels=labels,
        class_names=class_names,
        instance_labels=instance_labels,
        bag_ids=bag_ids,
        source_rows=order.objects,
    )


def _array_labels(
    data: NamedArrays, labels: NDArray[Any], order: Groups, bag_ids: NDArray[Any], report: Report
) -> tuple[BoolArray, list[str]]:
    """Return labels per bag from one label per bag or row, or from an indicator matrix."""
    n_bags, n_rows = len(order), order.n_objects
    if labels.ndim == 2 and 1 in labels.shape:
        labels = labels.ravel()
    if labels.ndim == 2 and len(labels) not in (n_bags, n_rows):
        labels = labels.T
    if len(labels) == n_bags:
        # One entry per bag follows the order of the sorted ids; ours is that of first rows.
        labels = labels[np.argsort(np.argsort(bag_ids, kind="stable"), kind="stable")]
    elif len(labels) == n_rows:
        labels = labels[order.objects[order.offsets[:-1]]]
    else:
        raise DataError(
            f"{data.path}: {counted(len(labels), 'labels')} fit neither its "
            f"{counted(n_bags, 'bags')} nor its {n_rows} "
            "rows; one per bag is needed."
        )
    if labels.ndim == 2:
        if not np.isin(labels, (0, 1)).all():
            raise DataError(f"{data.path}: a matrix of labels may hold only 0 and 1.")
        return labels.astype(np.bool_), data.class_names(labels.shape[1], report)
    classes, codes = np.unique(labels, return_inverse=True)
    class_names = [str(value) for value in classes]
    if class_names == [str(number) for number in range(len(classes))]:
        class_names = data.class_names(len(classes), report)
    one_hot = np.zeros((n_bags, len(classes)), dtype=np.bool_)
    one_hot[np.arange(n_bags), codes] = True
    return one_hot, class_names


def _fill_merged_cells(table: Table, group: str, labels: Sequence[str], report: Report) -> Table:
    """Return a table of bags whose ids or labels stand in the first of their rows alone.

    As spreadsheets write merged cells: ids that all stand once, above the empty cells of their
    rows, and one label in each bag. `group`, `labels`: the columns.
    """
    frame = table.frame
    ids = frame[group].cast(pl.String).str.strip_chars().replace("", None)
    filled = ids.drop_nulls()
    if len(ids) and ids[0] is not None and filled.n_unique() == len(filled) <= len(ids) / 2:
        below = frame[group].set(ids.is_null(), None).forward_fill()
        frame = frame.with_columns(below.alias(group))
        report(
            f"filled empty cells of column {group!r} with the one above: every other id occurs once"
        )
    for label in labels if len(labels) == 1 else ():
        if frame.schema[label].is_nested():
            continue
        cells = frame[label].cast(pl.String).str.strip_chars().replace("", None)
        sizes = (
            frame.select(group, said=cells)
            .group_by(group)
            .agg(n=pl.len(), n_said=pl.col("said").count())
        )
        if bool((sizes["n_said"] == 1).all()) and bool((sizes["n"] > 1).any()):
            said = frame[label].set(cells.is_null(), None)
            frame = frame.with_columns(said.alias(label)).with_columns(
                pl.col(label).drop_nulls().first().over(group)
            )
            report(f"took the one label of each bag in column {label!r} as that of all its rows")
    return table if frame is table.frame else replace(table, frame=frame)
