"""Columns that must not be features: ids, row numbers, constants and leaks of the label."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.io.columns.names import without_accents
from groupnoise.io.tables.cells import holds_times
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table

ID_WORDS = frozenset({
    "id", "ids", "uid", "uuid", "guid", "nr", "nummer", "ref", "reference", "referenz", "zip",
    "zipcode", "postcode", "plz", "phone", "telefon", "tel", "iban", "isbn", "ean", "aktenzeichen",
    "mrn", "ssn", "barcode", "serial", "prontuario", "matricula", "expediente", "dossier", "dni",
    "nif", "cpf", "siret", "codicefiscale", "cep", "telefono", "telephone", "telefone",
})  # fmt: skip
"""Last words of id names, without accents: instance_id, patientId, Prontuário."""
NUMBERED = re.compile(
    r"([a-z]{3,}(nummer|nr)|((case|patient|record|serial|account|order|invoice|lot|batch|customer"
    r"|member|sample|specimen|ticket|policy|file|phone) (number|no|num)))$"
)
"""Names of numbers that identify something: Fallnummer, Kundennr, serial no."""
FIRST_ROWS = 1000
MOSTLY = 0.9
"""Share of rows from which a column that names candidates counts as the truth."""
INDEX_NAME = re.compile(
    r"(unnamed: \d+|index|idx|row|rowid|row[_ ]?(nr|no|num|number)|level_0|__index_level_\d+__)?"
)
"""Names of row numbers, in lower case; data frames write theirs without a name."""
MIN_ROWS = 10
"""Rows from which a column of consecutive numbers is not a coincidence."""
MIN_NUMBERED = 5
"""Groups of three or more rows from which row numbers within them are not a coincidence."""
MAX_ANSWERS = 20
"""Distinct values up to which a column may be the label under another name."""
MAX_LOG_CHANCE, IMPOSSIBLE = -20.0, 1e12
"""Log probability below which a mapping to labels is not chance, and the cost of impossible
ones."""
MIN_CODES = 20
MIN_REPEATS = 4.0
"""Expected repetitions of measurements in such a range, where codes have none."""
MIN_DIGITS, LONG = 4, 8
MIN_EVEN, MAX_GAP = 50, 0.1
"""Distinct codes needed, and their greatest distance from a uniform distribution."""
OVERRIDE_HINT = "--features takes it if you name it"


@dataclass(frozen=True)
class RowTargets:
    """Labels of rows: `labels` of shape (n_rows, n_classes), and `class_names`."""

    labels: BoolArray
    class_names: Sequence[str]

    def leak_reason(self, cells: pl.Series, group_of_row: IntArray | None) -> str | None:
        """Return why a column leaks the label, or None.

        Either it names one of the candidates in each row, or it has a value that occurs in all bags
        with a label and in no others.
        """
        most = max(MAX_ANSWERS, len(self.class_names))
        # The first rows rule out most columns quickly: tables may have thousands of them.
        if len(cells) < MIN_ROWS or cells.head(FIRST_ROWS).n_unique() > 2 * most:
            return None
        words = cells.cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase()
        if not 2 <= words.n_unique() <= most:
            return None
        values, codes = np.unique(words.to_numpy(), return_inverse=True)
        if group_of_row is None:
            number = {name.lower(): column for column, name in enumerate(self.class_names)}
            columns = np.array([number.get(value, -1) for value in values])[codes]
            named = columns >= 0
            if (self.labels[np.arange(len(codes)), columns] & named).mean() >= MOSTLY:
                return "names candidates of the row: name it with --truth if it is the true label"
            if self._stands_for_labels(codes[words.to_numpy() != ""], words.to_numpy() != ""):
                return "each value always stands beside a candidate of its own, as the truth does"
            return None
        n_bags = int(group_of_row.max()) + 1
        holds = np.zeros((n_bags, len(values)), dtype=np.bool_)
        holds[group_of_row, codes] = True
        labels = np.zeros((n_bags, self.labels.shape[1]), dtype=np.bool_)
        labels[group_of_row] = self.labels
        told = (holds[:, :, None] == labels[:, None, :]).all(axis=0)
        told &= labels.any(axis=0) & ~labels.all(axis=0)
        if n_bags < MIN_ROWS or not told.any():
            return None
        return "tells the label of every bag by itself: name it with --truth if instances have it"

    def _stands_for_labels(self, codes: IntArray, is_filled: BoolArray) -> bool:
        """Tell whether values are codes or translations of labels.

        Each value has a label of its own that is a candidate in all its rows, with a probability
        too small for chance.
        """
        from scipy.optimize import linear_sum_assignment

        labels, (values, codes) = self.labels[is_filled], np.unique(codes, return_inverse=True)
        if not 2 <= len(values) <= labels.shape[1]:
            return False
        n_rows = np.bincount(codes)
        beside = np.zeros((len(values), labels.shape[1]))
        np.add.at(beside, codes, labels)
        log_chance = n_rows[:, None] * np.log(np.maximum(labels.mean(axis=0), 1e-9))
        cost = np.where(beside == n_rows[:, None], log_chance, IMPOSSIBLE)
        rows, columns = linear_sum_assignment(cost)
        n_choices = len(values) * np.log(labels.shape[1])
        return bool(cost[rows, columns].sum() + n_choices < MAX_LOG_CHANCE)


def exclusion_reason(table: Table, column: str, group_of_row: IntArray | None = None) -> str | None:
    """Return why a numeric column is not a feature (an id, a row number, a constant), or None."""
    if is_id_name(column):
        return "an id"
    if INDEX_NAME.fullmatch(column.strip().lower()):
        return "an index"
    cells = table.frame[column]
    text = cells.str.strip_chars() if cells.dtype == pl.String else cells
    numbers = text.cast(pl.Float64, strict=False)
    if len(numbers) < 2 or numbers.null_count() > cells.null_count():
        return None
    filled: FloatArray = numbers.drop_nulls().to_numpy()
    if len(filled) >= MIN_ROWS and (filled == np.floor(filled)).all() and not holds_times(cells):
        if _has_leading_zeros(text):
            return f"codes with zeros in front; {OVERRIDE_HINT}"
        if len(filled) < len(numbers) and _are_codes(filled):
            return f"whole numbers as ids are; {OVERRIDE_HINT}"
    if len(filled) < len(numbers):
        return None
    values = filled
    if (values == values[0]).all():
        return "constant"
    if len(values) < MIN_ROWS or not (values == np.floor(values)).all():
        return None
    if holds_times(cells):
        return "times"
    if _is_contiguous_range(values):
        return "row numbers"
    if (np.diff(values) > 0).all():
        return "rises from row to row, as ids do"
    of_groups = None if group_of_row is None else _group_number_reason(values, group_of_row)
    return of_groups or (
        f"whole numbers as ids are; {OVERRIDE_HINT}" if _are_codes(values) else None
    )


def shortened_id_warnings(ids: NDArray[Any], what: str) -> Iterator[str]:
    """Yield a warning if ids are numbers shortened by a spreadsheet; `what`: what they identify.

    >>> next(shortened_id_warnings(np.array(["1.00001E+12", "1.00002E+12"]), "users"))[:34]
    "ids of users look as '1.00001E+12'"
    """
    few = ids[:FIRST_ROWS].tolist() if ids.dtype.kind == "U" else []
    short = [each for each in few if re.fullmatch(r"\d(\.\d+)?[eE]\+\d\d", each)]
    if short:
        yield (
            f"ids of {what} look as {short[0]!r}, as spreadsheets shorten long numbers, so that "
            "several may have become one: export them as text, or name other ids (--group, --user)"
        )


def report_sentinel_values(matrix: FloatArray, columns: Sequence[str], report: Report) -> None:
    """Report numbers such as -999 that repeat far outside the range of all others.

    These usually stand for missing values. `matrix`: features, the first of which are `columns`.
    """
    for column, values in zip(columns, matrix.T, strict=False):
        for mark in {float(values.min()), float(values.max())}:
            if re.fullmatch(r"-?99+\.0", str(mark)) is None:
                continue
            others = values[values != mark]
            if not 2 <= len(others) <= len(values) - 2:
                continue
            if np.abs(others - mark).min() > np.ptp(others):
                report(
                    f"column {column!r} holds {mark:g} in {len(values) - len(others)} rows, far "
                    "from all other numbers; if that means that a number is missing, empty these "
                    "cells and say --fill median"
                )


def is_id_name(column: str) -> bool:
    """Tell whether a column is named as an id: `instance_id`, `patientId`, `ID`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", column.strip())
    words = re.split(r"[\W_]+", without_accents(apart.lower()).rstrip(" ._#"))
    return words[-1] in ID_WORDS or NUMBERED.search(" ".join(words)) is not None


def _is_contiguous_range(values: FloatArray) -> bool:
    """Tell whether whole numbers are all different and fill the range they span."""
    span = values.max() - values.min() + 1
    return bool(span == len(values) and len(np.unique(values)) == len(values))


def _has_leading_zeros(text: pl.Series) -> bool:
    """Tell whether cells of one length, such as 01067, begin with zeros here and there."""
    if text.dtype != pl.String:
        return False
    lengths = text.drop_nulls().str.len_chars()
    return bool(
        lengths.min() == lengths.max()
        and lengths[0] >= MIN_DIGITS
        and text.str.contains(r"^0[0-9]*[1-9][0-9]*$").any()
    )


def _are_codes(values: FloatArray) -> bool:
    """Tell whether whole numbers are codes, like numbers of patients or places.

    Unlike codes, measurements repeat values in a small range, are not uniform over all numbers of a
    length, and differ in length.
    """
    n_rows, different = len(values), np.unique(values)
    if n_rows < MIN_CODES or different[0] < 0:
        return False
    span = different[-1] - different[0] + 1
    if len(different) == n_rows and n_rows**2 / (2 * span) >= MIN_REPEATS:
        return True
    n_digits = len(str(int(different[-1])))
    least = 10.0 ** (n_digits - 1)
    if n_digits >= LONG and different[0] >= least and len(different) >= MOSTLY * n_rows:
        return True
    if n_digits < MIN_DIGITS or len(different) < MIN_EVEN:
        return False
    even = (np.arange(len(different)) + 0.5) / len(different)
    # Kolmogorov-Smirnov bound of a uniform sample at the 5 % level.
    nearest = max(MAX_GAP, 1.36 / np.sqrt(len(different)))
    return any(
        np.abs((different - begin) / (10 * least - begin) - even).max() <= nearest
        for begin in (least, 0.0)
        if different[0] >= begin
    )


def _group_number_reason(values: FloatArray, group_of_row: IntArray) -> str | None:
    """Return why a column that numbers groups or their rows is no feature, or None."""
    groups, first, codes = np.unique(group_of_row, return_index=True, return_inverse=True)
    if len(groups) == len(values):
        return None
    if _counts_rows(values, codes):
        return f"row numbers of each group; {OVERRIDE_HINT}"
    if len(groups) < MIN_ROWS:
        return None
    of_group = values[first]
    if (values == of_group[codes]).all():
        n_different = len(np.unique(of_group))
        if n_different == len(groups):
            return "the number of the group"
        lengths = {len(str(int(each))) for each in of_group}
        is_even = len(lengths) == 1 and min(lengths) >= MIN_DIGITS
        if (is_even and n_different >= MOSTLY * len(groups)) or _are_codes(of_group):
            return f"whole numbers as ids are; {OVERRIDE_HINT}"
    return None


def counts_rows_within_groups(frame: pl.DataFrame, column: str, group: str) -> bool:
    """Tell whether a column of whole numbers, as text or not, numbers the rows of each group."""
    numbers = frame[column].cast(pl.Float64, strict=False)
    codes: IntArray = frame[group].fill_null("").rank("dense").cast(pl.Int64).to_numpy()
    return not numbers.null_count() and _counts_rows(numbers.to_numpy(), codes)


def _counts_rows(values: FloatArray, codes: IntArray) -> bool:
    """Tell whether the rows of nearly every group are numbered consecutively, in any order.

    Groups of two rows do not count, since two values may be consecutive by chance; if there are few
    larger ones, all groups must be numbered.
    """
    order = np.lexsort((values, codes))
    begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sizes = np.diff(np.append(begins, len(order)))
    positions = np.arange(len(order)) - np.repeat(begins, sizes)
    is_large = sizes > 2
    if not is_large.any() or (is_large.sum() < MIN_NUMBERED and len(sizes) < MIN_ROWS):
        return False
    least = MOSTLY if is_large.sum() >= MIN_NUMBERED else 1.0
    for first in {0.0, 1.0, float(values.min())}:
        is_counted = np.logical_and.reduceat(values[order] == positions + first, begins)
        if min(is_counted[is_large].mean(), is_counted[sizes > 1].mean()) >= least:
            return True
    return False
