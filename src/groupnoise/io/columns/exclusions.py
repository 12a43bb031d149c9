"""Why a column is no feature: it names rows, counts them, or gives the answer away."""

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
"""Last words of the names of ids, without accents: instance_id, patientId, Prontuário."""
NUMBERED = re.compile(
    r"([a-z]{3,}(nummer|nr)|((case|patient|record|serial|account|order|invoice|lot|batch|customer"
    r"|member|sample|specimen|ticket|policy|file|phone) (number|no|num)))$"
)
"""Names, of words between blanks, that say what they number: Fallnummer, Kundennr, serial no."""
FIRST_ROWS = 1000
MOSTLY = 0.9
"""Share of rows in which a column must name a candidate to be taken for the truth."""
INDEX_NAME = re.compile(
    r"(unnamed: \d+|index|idx|row|rowid|row[_ ]?(nr|no|num|number)|level_0|__index_level_\d+__)?"
)
"""How whole names of row numbers look, in lower case; frames write theirs without a name."""
MIN_ROWS = 10
"""Rows from which on a column that counts them is no coincidence."""
MIN_NUMBERED = 5
"""Groups of three rows or more from which on numbers of their rows are no coincidence."""
MAX_ANSWERS = 20
"""Different cells up to which a column may be the answer itself, under a name of its own."""
MAX_LOG_CHANCE, IMPOSSIBLE = -20.0, 1e12
"""Log probability below which values that stand for labels are no accident; and cost of others."""
MIN_CODES = 20
MIN_REPEATS = 4.0
"""Repeats that so many draws from such a range would have, where codes have none."""
MIN_DIGITS, LONG = 4, 8
MIN_EVEN, MAX_GAP = 50, 0.1
"""Different codes from which on, and how far at most, they may lie from an even spread."""
OVERRIDE_HINT = "--features takes it if you name it"


@dataclass(frozen=True)
class RowTargets:
    """What rows are labelled with: `labels` of shape (n_rows, n_classes), and `class_names`."""

    labels: BoolArray
    class_names: Sequence[str]

    def leak_reason(self, cells: pl.Series, group_of_row: IntArray | None) -> str | None:
        """Say how a column gives the answer away, or return None.

        One of the candidates in each row is the truth; a value that all bags with a label hold and
        no other bag does is that label.
        """
        most = max(MAX_ANSWERS, len(self.class_names))
        # Most columns are numbers, told by their first rows: tables may have thousands of them.
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
        """Tell whether values are labels in other words: each with a candidate in all its rows.

        A label of its own for every value, and so rare that chance would not have it: a true label
        under a translation or a code.
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
    """Say why a numeric column is no feature: an id, a row number, a constant; or return None."""
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
    """Yield a sentence where ids are numbers that a spreadsheet shortened; `what`: whose ids.

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
    """Say where a number of nines, such as -999, recurs far from all others.

    Farther than these lie from each other, as it does where it means that a number is missing.
    `matrix`: features, of which the first are those of `columns`.
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
    """Tell whether a column is called an id: `instance_id`, `patientId`, `ID`."""
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
    """Tell whether whole numbers name something, as numbers of patients and places do.

    Measurements of so small a range would repeat some value; they do not fill all numbers of so
    many digits evenly; and they have not all so many digits.
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
    # What chance leaves of even draws in 19 of 20 samples.
    nearest = max(MAX_GAP, 1.36 / np.sqrt(len(different)))
    return any(
        np.abs((different - begin) / (10 * least - begin) - even).max() <= nearest
        for begin in (least, 0.0)
        if different[0] >= begin
    )


def _group_number_reason(values: FloatArray, group_of_row: IntArray) -> str | None:
    """Say whether a column numbers the groups, or the rows inside each of them."""
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
    """Tell whether the rows of nearly every group are numbered, in whatever order they stand.

    From one number on, without a gap. Groups of two rows do not count, for two values of a feature
    are so by chance; where there are few others, all groups must be numbered.
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
