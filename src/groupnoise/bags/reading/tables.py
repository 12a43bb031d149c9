"""One table per bag: its feature, coordinate and metadata columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.bags.reading.options import BagReadOptions
from groupnoise.core.words import quoted
from groupnoise.exceptions import DataError
from groupnoise.io.columns.exclusions import exclusion_reason
from groupnoise.io.columns.features import NoFeaturesError, extract_features
from groupnoise.io.columns.names import USUAL_NAMES, plain_name, usual_column
from groupnoise.io.columns.roles import check_column, match_columns
from groupnoise.io.datasets import FEATURE_SEPARATOR
from groupnoise.io.tables.cells import is_mostly_numeric, read_numbers
from groupnoise.io.tables.imputation import Imputer, check_no_gaps, find_gaps
from groupnoise.io.tables.sources import Report, ignore_report
from groupnoise.io.tables.table import Table, read_table

COORDINATE_COLUMNS = (("x", "y"), ("coord_x", "coord_y"), ("begin", "end"))
"""Column pairs read as coordinates."""
METADATA_ROLES = ("label", "truth", "group", "patient", "split")
"""Roles whose usual column names are not features."""
MAX_SAMPLED_TABLES = 64
"""Tables sampled to choose feature columns; a single one may lack rare values."""


@dataclass(frozen=True)
class FileOptions:
    """What is read from the file of a bag.

    `features`: the array of the features, or in a table their columns. `names`: columns that a
    table must have, in this order. `truth`: the array or column of the labels of objects. `form`:
    of a table, as `read_table` takes it. `of_model`: whether a model learned from the columns.
    `keeps_gaps`: whether missing numbers of a table are NaN, which all bags together fill, and not
    refused.
    """

    features: str | Sequence[str] | None = None
    names: Sequence[str] | None = None
    truth: str | None = None
    form: Mapping[str, Any] = field(default_factory=dict)
    of_model: bool = False
    keeps_gaps: bool = False


def file_options(tables: Sequence[Path], options: BagReadOptions) -> FileOptions:
    """Return what to read from each bag; feature columns are chosen from many of the tables.

    `tables`: of all bags, if each has one.
    """
    form = options.form
    truth = options.truth if options.labels_needed else None
    of_model = options.feature_names is not None
    spec = FileOptions(
        options.features, options.feature_names, truth, form, of_model, options.fill is not None
    )
    if not tables:
        return spec
    if options.labels_needed:
        columns = read_table(tables[0], **form).frame.columns
        spec = replace(spec, truth=find_truth(columns, truth, str(tables[0])))
    if spec.names is not None:
        return spec
    chosen = np.unique(np.linspace(0, len(tables) - 1, MAX_SAMPLED_TABLES).astype(int)).tolist()
    several = [read_table(tables[number], **form) for number in chosen]
    return replace(spec, names=choose_features(several, spec, options.report))


def choose_features(tables: Sequence[Table], spec: FileOptions, report: Report) -> Any:
    """Return the feature columns of all bags, or None if features come in lists.

    Columns that are constant, overall or within each bag, are left out: the latter may leak the
    label of the bag. `tables`: of some of the bags.
    """
    frame = pl.concat([table.frame for table in tables], how="diagonal_relaxed")
    ends = np.cumsum([len(table) for table in tables])
    bag_of_row = np.repeat(np.arange(len(tables)), [len(table) for table in tables])

    def locate(row: int) -> str:
        bag = int(bag_of_row[row])
        return tables[bag].locate(row - int(ends[bag]) + len(tables[bag]))

    whole = Table(frame, "tables", tables[0].origin, locate)
    columns = frame.columns
    named = () if spec.features is None else match_columns(
        "features", spec.features, columns, tables[0].origin
    )  # fmt: skip
    pair = find_coordinates(columns, named)
    apart = {name for name in _metadata_columns(columns) if name not in (*named, *pair)}
    if spec.truth is not None:
        apart.add(spec.truth)
    taken = apart | set(pair)
    free = [name for name in columns if name not in taken and is_mostly_numeric(whole, name)]
    free = [name for name in free if exclusion_reason(whole, name, bag_of_row) is None]
    for table in tables:
        check_has_columns(table.origin, [name for name in free if not named], table.frame.columns)
    alike = [] if named else _constant_within_bags(frame.select(free), bag_of_row)
    taken |= set(alike)
    told = (bag_of_row, spec.features, report)
    try:
        names = _names_of_features(whole, taken, *told)
    except NoFeaturesError:
        if not pair:
            raise
        names = _names_of_features(whole, taken - set(pair), *told)
        report(f"took {quoted(pair)} as features, for no other column is one")
    if alike:
        report(
            f"left out {quoted(alike)}: the same in all rows of each bag, which may give its label "
            "away (--features names columns)"
        )
    for name in sorted(name for name in apart if name != spec.truth):
        varies = name not in _constant_within_bags(frame.select(name), bag_of_row)
        is_label = plain_name(name) in (*USUAL_NAMES["label"], *USUAL_NAMES["truth"])
        remedy = f"; --truth {name} takes it as the label of each object" * (varies and is_label)
        report(f"left out column {name!r} of the tables of bags, which is no feature{remedy}")
    return names


def _names_of_features(
    whole: Table, taken: Collection[str], bag_of_row: NDArray[Any], features: Any, report: Report
) -> Any:
    # Missing numbers are refused later, where each bag is read.
    fill = Imputer(ignore_report)
    return extract_features(whole, features, taken, report, None, bag_of_row, fill=fill)[1]


def _metadata_columns(columns: Sequence[str]) -> list[str]:
    """Return the columns named like labels, bags or patients."""
    names = {name for part in METADATA_ROLES for name in USUAL_NAMES[part]}
    return [name for name in columns if plain_name(name) in names]


def _constant_within_bags(frame: pl.DataFrame, bag_of_row: NDArray[Any]) -> list[str]:
    """Return the columns that are constant within every bag, if bags have several rows."""
    if len(np.unique(bag_of_row)) == len(bag_of_row) or not frame.width:
        return []
    kinds = frame.group_by(pl.Series("bag", bag_of_row)).agg(pl.all().n_unique())
    return [name for name in frame.columns if (kinds[name] == 1).all()]


def check_has_columns(origin: str, names: Sequence[str], columns: Sequence[str]) -> None:
    """Raise if a table lacks a feature column of other bags."""
    there = set(columns)
    gone = [name for name in names if not {name, name.rpartition(FEATURE_SEPARATOR)[0]} & there]
    if gone:
        raise DataError(
            f"{origin} lacks column {gone[0]!r}, which tables of other bags have; write all alike, "
            "or name the columns with `features` (--features)."
        )


def find_coordinates(columns: Sequence[str], named: Sequence[str]) -> tuple[str, ...]:
    """Return the pair of coordinate columns, unless one is an explicit feature."""
    pair = next((p for p in COORDINATE_COLUMNS if set(p) <= set(columns)), ())
    return () if set(pair) & set(named) else pair


def find_truth(columns: Sequence[str], given: str | None, origin: str) -> str | None:
    """Return the column or array of object labels: the explicit one, or one with a usual name."""
    if given is not None:
        return check_column(given, columns, origin, "to be the truth", "truth")
    labels = USUAL_NAMES["label"]
    return usual_column("truth", [name for name in columns if plain_name(name) not in labels])


def read_bag_table(
    path: Any, spec: FileOptions
) -> tuple[NDArray[Any], tuple[str, ...] | None, NDArray[Any] | None, tuple[str, ...], Any]:
    """Return features and their names, coordinates and their names, and the truth of one bag."""
    table = read_table(path, **spec.form)
    columns = table.frame.columns
    names = spec.names
    if names is not None and not spec.of_model:
        check_has_columns(table.origin, names, columns)
    pair = find_coordinates(columns, names or ())
    coordinates = None
    if pair:
        coordinates = np.column_stack([read_numbers(table, name) for name in pair])
    features, fill = spec.features if names is None else None, None
    there = [name for name in names or () if name in columns]
    if spec.keeps_gaps:
        fill = Imputer(ignore_report, dict.fromkeys(there, 0.0))
    else:
        check_no_gaps(table, there)
    matrix, found = extract_features(table, features, pair, ignore_report, names, fill=fill)
    if fill is not None and names is not None:
        for at, name in enumerate(names):
            if name in columns:
                matrix[find_gaps(table.frame[name]).to_numpy(), at] = np.nan
    truth = None
    if spec.truth is not None and spec.truth in columns:
        truth = table.frame[spec.truth].cast(pl.String).fill_null("").to_numpy()
    return matrix, found, coordinates, pair, truth
