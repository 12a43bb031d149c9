"""Which classes each row belongs to: indicator columns, lists or separated labels."""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import did_you_mean
from groupnoise.core.words import counted, quoted
from groupnoise.exceptions import DataError
from groupnoise.io.labels.columns import read_indicators
from groupnoise.io.labels.spellings import guess_separators, match_label
from groupnoise.io.tables.cells import (
    as_id_cells,
    check_no_empty_cells,
    ids_as_array,
    index_cells,
    more_rows,
    normalize_booleans,
)
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table

_IN_BRACKETS = r"(?s)^\s*(\[.*\]|\{.*\}|\(.*\))\s*$"
LABEL_SEPARATORS = (";", "|", "\n", "\t", ",", " ")
NO_LABEL = (
    *("none", "nothing", "background", "no label", "(none)", "(background)"),
    *("hintergrund", "nichts", "keine", "keiner", "keines", "kein label", "ohne"),
    *("arrière-plan", "arrière plan", "fond", "aucun", "aucune", "rien"),
    *("fondo", "ninguno", "ninguna", "nada", "sfondo", "nessuno", "nessuna", "niente"),
    *("nenhum", "nenhuma", "plano de fundo", "achtergrond", "geen", "niets", "bakgrund", "ingen"),
    *("tło", "brak", "фон", "нет", "背景", "なし", "无"),
)
"""Words, in lower case, for a row or an object that has none of the labels."""
_NO_CLASS = ("", "-1", "unknown", *NO_LABEL)
_WEIGHTED = re.compile(
    r"\s*([^;|,:=()]+?)\s*(?:[:=]\s*([01](?:\.\d*)?|0?\.\d+)|\(([01](?:\.\d*)?|0?\.\d+)\))\s*"
)
"""A label with a share of one: `cat:0.7`, `cat=0.7`, `cat (0.7)`."""
MAX_GRADES = 10
"""Different numbers that may be classes, however few groups there are."""
MAX_NAMED = 3
"""Labels that a sentence names."""


def is_bracketed(cells: pl.Series) -> bool:
    """Tell whether every cell of a text column stands in brackets."""
    return bool(cells.str.contains(_IN_BRACKETS).all())


def read_lists(cells: pl.Series) -> pl.Series | None:
    """Return cells as lists of labels, or None if one of them is no list of Python or JSON."""
    lists = []
    for cell in cells:
        labels = _read_list(cell)
        if labels is None:
            return None
        lists.append(labels)
    return pl.Series(cells.name, lists, dtype=pl.List(pl.String))


def without_brackets(cells: pl.Series) -> pl.Series:
    """Return text without its brackets and without any quotation mark."""
    bare = cells.str.strip_chars().str.replace(r"(?s)^.(.*).$", "${1}")
    return bare.str.replace_all("['\"]", "")


def parse_literals(text: str) -> Iterator[Any]:
    """Yield the values of a text as a JSON and as a Python literal, if it is one."""
    parsers: tuple[Callable[[str], Any], ...] = (json.loads, ast.literal_eval)  # neither runs code
    for parse in parsers:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of escapes that Python does not know
                yield parse(text.strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue


def _read_list(text: str) -> list[str] | None:
    for value in parse_literals(text):
        if value == {}:  # an empty set, as Python does not write it
            return []
        if isinstance(value, (list, tuple, set)) and all(
            isinstance(label, (str, int, float)) for label in value
        ):
            return [_as_text(label) for label in value]
    return None


def _as_text(label: str | float) -> str:
    # pandas makes floats of whole numbers where other cells of the column were empty.
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def read_memberships(
    table: Table,
    columns: Sequence[str],
    *,
    separator: str | None,
    report: Report,
    may_lack: bool = False,
    several: bool = False,
    n_groups: int | None = None,
) -> tuple[BoolArray, list[str]]:
    """Return which classes each row belongs to.

    Returns `memberships` (n_rows, n_classes): True where a row belongs to a class; `class_names`:
    in the order of the columns, or sorted. `columns`: several columns are read as 0/1 indicators,
    one per class; a single column as one label, a list of labels (also as text in brackets), or
    labels joined by a separator. `separator`: what joins labels in a cell; guessed, and then
    reported. `report`: told of a guess. `may_lack`: whether an empty cell, or a word that says so,
    is a row without any label where rows may have several: where a cell shows it, a separator is
    given, or `several` says so. `n_groups`: how many groups of rows are labelled; by default each
    row is one.
    """
    if len(columns) > 1:
        return read_indicators(table, columns)
    _check_no_measurements(table, columns[0], n_groups or len(table))
    rows, labels = _labels_by_row(table, columns[0], separator, report, may_lack, several)
    vocabulary = labels.unique().sort()
    memberships = np.zeros((len(table), len(vocabulary)), dtype=np.bool_)
    memberships[rows, index_cells(labels, vocabulary)] = True
    return memberships, [str(name) for name in ids_as_array(vocabulary)]


def read_weights(
    table: Table, column: str, *, report: Report
) -> tuple[FloatArray, list[str]] | None:
    """Return the weights of the candidates where cells are objects such as `{"a": 0.7}`.

    Or lists of a label and its weight each, or text such as `a:0.7;b:0.3`.

    Returns `weights` (n_rows, n_classes): 0 where a label is no candidate; None instead of a pair
    if the cells are no objects; `class_names`: sorted. `column`: a column of objects, or of text in
    the notation of JSON or Python. `report`: told of a guess.
    """
    objects = _parse_weights(table.frame[column])
    if objects is None:
        return None
    report(f"took the numbers in column {column!r} as weights of the candidates")
    named = [{_as_text(label): weight for label, weight in cell.items()} for cell in objects]
    # In a column of structs every row has all labels, and no weight where it names none.
    class_names = sorted({label for row in named for label, weight in row.items() if weight})
    weights = np.zeros((len(named), len(class_names)))
    position = {label: number for number, label in enumerate(class_names)}
    for number, row in enumerate(named):
        for label, weight in row.items():
            if weight is None:
                continue
            if not isinstance(weight, (int, float)) or not 0 <= weight < np.inf:
                raise DataError(
                    f"{table.locate(number)}: column {column!r} gives {label!r} the weight "
                    f"{weight!r}; weights are numbers of at least 0."
                )
            if weight:
                weights[number, position[label]] = weight
    return weights, class_names


def label_weight_fields(kind: pl.DataType) -> tuple[str, str] | None:
    """Return the names of the label and the weight field in lists of objects of these two."""
    if not isinstance(kind, pl.List) or not isinstance(kind.inner, pl.Struct):
        return None
    names = [each.name for each in kind.inner.fields if each.dtype == pl.String]
    numbers = [each.name for each in kind.inner.fields if each.dtype.is_numeric()]
    return (names[0], numbers[0]) if len(names) == len(numbers) == 1 else None


def _parse_weights(cells: pl.Series) -> list[dict[Any, Any]] | None:
    """Return the weights by label of each cell; None if cells hold no weights."""
    kind = cells.dtype
    if isinstance(kind, pl.Struct):
        return [cell or {} for cell in cells.to_list()]
    if isinstance(kind, pl.List) and isinstance(kind.inner, pl.Struct):
        if (parts := label_weight_fields(kind)) is None:
            return None
        name, number = parts
        objects = [cell or () for cell in cells.to_list()]
        return [{each[name]: each[number] for each in cell} for cell in objects]
    if kind != pl.String:
        return None
    cells = cells.fill_null("").str.strip_chars()
    is_object = cells.str.contains(r"(?s)^\{.*:.*\}$")
    # An empty cell names no candidate; the reader refuses its row where one is needed.
    if is_object.any() and (is_object | cells.is_in(["", "{}"])).all():
        read: list[Any] = [next(parse_literals(cell), None) if cell else {} for cell in cells]
        return read if all(isinstance(each, dict) for each in read) else None
    split = [re.split(r"[;|,]", cell) if cell else [] for cell in cells]
    pairs = [[_WEIGHTED.fullmatch(part) for part in parts] for parts in split]
    if not cells.str.contains(r"\d\.\d").any() or not all(all(each) for each in pairs):
        return None
    return [{m[1]: float(m[2] or m[3]) for m in each if m} for each in pairs]


def read_truth(
    table: Table,
    column: str,
    class_names: Sequence[str],
    called: Mapping[str, str | None] | None = None,
) -> IntArray:
    """Return the class of each row, -1 for an empty cell or a word for no class.

    Positions in `class_names`. `called`: the class that a cell in lower case stands for, where it
    is not the name of one, or None for no class.
    """
    cells = table.frame[column]
    if cells.dtype.is_float():
        cells = as_id_cells(table, column, cells.fill_nan(None).fill_null(-1))
    text = cells.cast(pl.String).fill_null("").str.strip_chars()
    truth: IntArray = index_cells(text, pl.Series(list(class_names), dtype=pl.String)).copy()
    lower = text.str.to_lowercase()
    called = {**dict.fromkeys(_NO_CLASS), **(called or {})}
    own = {name.lower() for name in class_names}  # a label in other capitals is a label
    is_foreign = truth < 0
    for word in set(lower.unique()).intersection(called) - own:
        here = is_foreign & (lower == word).to_numpy()
        is_foreign &= ~here
        if (name := called[word]) is not None:
            truth[here] = list(class_names).index(name)
    for word in text.filter(pl.Series(is_foreign)).unique():
        known = match_label(word, class_names)
        if known is None or known in class_names:
            here = (text == word).to_numpy()
            is_foreign &= ~here
            truth[here] = -1 if known is None else list(class_names).index(known)
    if is_foreign.any():
        row = int(np.flatnonzero(is_foreign)[0])
        raise DataError(
            f"{table.locate(row)}: the truth {text[row]!r} is not one of the {len(class_names)} "
            f"labels ({_first_names(class_names)}){did_you_mean(text[row], class_names)}; write "
            "it as the labels are written, say 'background' where it is none of them, or leave the "
            "cell empty if it is unknown."
        )
    return truth


def _first_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:MAX_NAMED])) + ", ..." * (len(names) > MAX_NAMED)


def _labels_by_row(
    table: Table,
    column: str,
    separator: str | None,
    report: Report,
    may_lack: bool,
    several: bool,
) -> tuple[IntArray, pl.Series]:
    """Return one entry per label of a row: the row, and the label as an id cell."""
    cells = normalize_booleans(table.frame[column])
    if may_lack:
        cells = _nullify_blanks(cells)
    else:
        check_no_empty_cells(table, column, cells)
    if cells.dtype == pl.String and is_bracketed(cells):
        report(f"took the brackets in column {column!r} as those of lists")
        lists = read_lists(cells.fill_null("[]")) if separator is None else None
        cells = without_brackets(cells) if lists is None else lists
    if cells.dtype == pl.String:
        separators = (separator,) if separator else _guess_separators(cells, column, report)
        separator = separators[0] if separators else None
        for joint in separators[1:]:
            cells = cells.str.replace_all(joint, separators[0], literal=True)
        cells = cells.str.split(separator) if separator else cells
    # An empty list has no label; the reader refuses its row where one is needed.
    flat = pl.DataFrame({"row": np.arange(len(cells)), "label": cells})
    if isinstance(cells.dtype, (pl.List, pl.Array)):
        flat = flat.explode("label")
    if flat["label"].dtype.is_nested():
        raise DataError(
            f"{table.origin}: column {column!r} holds objects or lists in its cells where labels "
            "are needed; write the labels alone, as text or as a list of text."
        )
    if flat["label"].dtype == pl.String:
        flat = flat.with_columns(pl.col("label").str.strip_chars())
        flat = flat.filter(pl.col("label") != "")
    flat = flat.drop_nulls()
    if may_lack:
        several |= separator is not None or isinstance(cells.dtype, (pl.List, pl.Array))
        flat = _drop_no_label_words(flat, column, report) if several else flat
        _check_missing_labels(table, column, flat, several)
    if flat.height == 0:
        raise DataError(f"{table.origin}: column {column!r} holds no label at all.")
    rows: IntArray = flat["row"].to_numpy()
    return rows, as_id_cells(table.take(rows), column, flat["label"])


def _check_no_measurements(table: Table, column: str, n_groups: int) -> None:
    """Refuse numbers that are different in nearly every group: measurements, not classes."""
    cells = table.frame[column].drop_nulls()
    if cells.dtype == pl.String:
        cells = cells.str.strip_chars()
        cells = cells.filter(cells != "").str.replace(r"^([+-]?\d+),(\d+)$", "${1}.${2}")
    elif not cells.dtype.is_numeric():
        return
    numbers = cells.cast(pl.Float64, strict=False)
    n_different = numbers.n_unique()
    if numbers.null_count() or n_different <= max(MAX_GRADES, n_groups // 2):
        return
    is_fraction = bool((numbers != numbers.floor()).any())
    if is_fraction or (n_groups >= 2 * MAX_GRADES and n_different >= 0.9 * n_groups):
        raise DataError(
            f"{table.origin}: column {column!r} holds {n_different} different numbers for "
            f"{counted(n_groups, 'labels')}, so it is a measurement and no class; regression is "
            "not what this does: cut the numbers into classes, such as low and high, or name "
            "another column."
        )


def _nullify_blanks(cells: pl.Series) -> pl.Series:
    """Return cells with blanks and NaN as null."""
    if cells.dtype == pl.String:
        return cells.set((cells.str.strip_chars() == "").fill_null(False), None)
    return cells.fill_nan(None) if cells.dtype.is_float() else cells


def _drop_no_label_words(flat: pl.DataFrame, column: str, report: Report) -> pl.DataFrame:
    """Drop words for no label; a word that occurs beside other labels is a label."""
    if flat["label"].dtype != pl.String:
        return flat
    alone = pl.len().over("row") == 1
    said = pl.col("label").str.to_lowercase().is_in(NO_LABEL) & alone.all().over("label")
    words = flat.filter(said)["label"].unique().sort().to_list()
    if words:
        report(f"took {quoted(words)} in column {column!r} as no label")
    return flat.filter(~said)


def _check_missing_labels(table: Table, column: str, flat: pl.DataFrame, several: bool) -> None:
    """Refuse rows without a label where every row has exactly one."""
    without = np.setdiff1d(np.arange(len(table)), flat["row"].to_numpy())
    if len(without) and flat["label"].n_unique() == 1 and not several:
        raise DataError(
            f"{table.locate(int(without[0]))}: column {column!r} is empty there"
            f"{more_rows(len(without))}, and every other row says {str(flat['label'][0])!r}; write "
            "a word such as 'negative' into those cells if that is what they mean."
        )
    if len(without) and flat.height and not several:
        raise DataError(
            f"{table.locate(int(without[0]))}: column {column!r} is empty there"
            f"{more_rows(len(without))}, and every other row has one label; write the label, such "
            "as 'negative', or drop such rows; where a bag may have several labels or none, say "
            "--label-separator ';'."
        )


def _guess_separators(cells: pl.Series, column: str, report: Report) -> tuple[str, ...]:
    for separator in LABEL_SEPARATORS:
        if cells.str.contains(separator, literal=True).any():
            # A blank separates numbers, or words in changing positions; names may contain blanks.
            if separator == " " and not cells.str.contains(r"^[\d\s]+$").all():
                continue
            report(f"split the labels of column {column!r} at {separator!r}")
            parts = cells.str.split(separator).explode().drop_nulls()
            return (separator, *guess_separators(parts, report))
    return guess_separators(cells.drop_nulls(), report, blanks=True)
