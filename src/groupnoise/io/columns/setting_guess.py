"""Guessing the setting of a file from the names of its columns or arrays, then from its cells."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from groupnoise.exceptions import DataError
from groupnoise.io.answer_files import BAG_REVIEW_COLUMNS, is_resolved
from groupnoise.io.columns.cell_guess import (
    CellProfile,
    Interpretation,
    alternative_bags,
    indicator_columns,
    interpret_cells,
    is_called_label,
    labelled_bag_interpretations,
)
from groupnoise.io.columns.names import (
    INDICATORS,
    USUAL_NAMES,
    only_other_id,
    plain_name,
    usual_column,
)
from groupnoise.io.columns.roles import are_unnamed_clicks, check_no_votes
from groupnoise.io.labels.spellings import find_label_columns
from groupnoise.io.tables.array_files import ARRAY_FORMATS, load_arrays
from groupnoise.io.tables.delimited import holds_histories, read_separator
from groupnoise.io.tables.sources import Source, find_source, ignore_report
from groupnoise.io.tables.table import DELIMITED, Table, read_content

MIN_MARKS, MAX_MARKS = 3, 10
"""Indicator columns from which candidates are suggested, and how many of them are listed."""
MAX_VOTED = 30
"""Distinct values of a column of votes at most."""
HEAD_BYTES = 1 << 18
"""Enough of a file to see the names of its columns."""
REQUIRED_PARTS = {
    "rs": (("user", "item"), "clicks"),
    "mil": (("group", "label"), "bags"),
    "pll": (("candidates",), "candidate labels"),
}
"""Required roles of columns by setting, and the name of the data."""


class Guess(NamedTuple):
    """A guessed `setting`, a `sentence` to report, and `columns` guessed from cells."""

    setting: str
    sentence: str
    columns: Mapping[str, str] = {}


def settings_by_columns(columns: Sequence[str], given: Collection[str] = ()) -> list[str]:
    """Return the settings ("rs", "mil", "pll") whose required columns are all present.

    With a bag column, labels are those of bags, unless the table was written by `resolve`.
    `columns`: column names of a table. `given`: roles whose columns the user named.

    >>> settings_by_columns(["User_ID", "item", "when"])
    ['rs']
    >>> settings_by_columns(["bag", "labels", "x1"]), settings_by_columns(["labels", "x1"])
    (['mil'], ['pll'])
    >>> settings_by_columns(["colour", "size"])
    []
    """
    names = {plain_name(name) for name in columns}

    def plays(part: str) -> bool:
        if part in given or usual_column(part, columns) is not None:
            return True
        n_indicators = sum(name.lower().startswith(INDICATORS) for name in columns)
        return part == "candidates" and n_indicators > 1

    if is_resolved(columns) and not {"group", "user", "item"} & set(given):
        return ["pll"]
    found = [name for name, (parts, _) in REQUIRED_PARTS.items() if all(map(plays, parts))]
    if "mil" in found and "pll" in found and "candidates" not in given:
        named = names & set(USUAL_NAMES["candidates"])
        if named <= set(USUAL_NAMES["label"]):
            found.remove("pll")
    by_kind = not all(
        part in given or names & set(USUAL_NAMES[part]) for part in REQUIRED_PARTS["rs"][0]
    )
    if len(found) > 1 and "rs" in found and by_kind:
        found.remove("rs")  # `url` or `client` beside candidates is no click
    user = usual_column("user", columns)
    if not found and user and only_other_id(columns, user, ignore_report):
        return ["rs"]
    return found


def _check_bags_agree(table: Table, known: Mapping[str, str]) -> None:
    """Refuse a table of bags with inconsistent labels in a few rows, naming the first of them.

    `known`: as in :func:`interpret_cells`.
    """
    cells = CellProfile(table.frame, known)
    found = cells.inconsistent_bags()
    if not found:
        return
    group, label = min(found, key=lambda pair: (not is_called_label(pair[1]), found[pair]))
    rows = cells.frame.select(group, label).with_row_index("row")
    usual = rows.group_by(group).agg(pl.col(label).mode().first().alias("usual"))
    odd = rows.join(usual, on=group, how="left").filter(pl.col(label).ne_missing(pl.col("usual")))
    row, n_odd = int(odd["row"].min()), found[group, label]  # type: ignore[arg-type]
    raise DataError(
        f"{table.locate(row)}: bag {str(cells.frame[group][row])!r} has rows with different labels,"
        f" as {n_odd} of {cells.distinct[group]} have, if {group!r} is the bag and {label!r} its "
        f"label; correct {'that row' if n_odd == 1 else 'these rows'}, or name other columns "
        "(--group and --label)."
    )


def guess_setting(
    path: str,
    *,
    given: Mapping[str, Any] | None = None,
    setting: str | None = None,
    format: str | None = None,
    separator: str | None = None,
    encoding: str | None = None,
    **form: Any,
) -> Guess:
    """Return the guessed setting of a file, with the evidence.

    `setting`: if known, only columns are guessed, from the cells.
    """
    given = given or {}
    source = find_source(path, format=format, encoding=encoding)
    if source.format in ARRAY_FORMATS:
        return _guess_from_arrays(path, list(load_arrays(source).arrays), given)
    first, content = source.paths[0], _first_bytes(source)
    if not content.strip():
        raise DataError(f"{path} is empty; give a file with at least one row.")
    is_log = source.format == "text" and setting in (None, "rs")
    if is_log and holds_histories(content):
        return Guess(
            "rs", "read as clicks (--setting rs), because each line is a user and their items"
        )
    if separator is not None:
        separator = read_separator(separator)
    table = read_content(
        first, content, source.format, report=ignore_report, separator=separator, **form
    )
    head, columns = table.frame, table.frame.columns
    if set(BAG_REVIEW_COLUMNS) <= set(columns):
        raise DataError(
            f"{path} is what `review` exported about bags, without what they hold; fit the bags "
            f"themselves, with --learn-truth {path}."
        )
    found = settings_by_columns(columns, given) if setting is None else []
    if not found and setting in (None, "rs") and are_unnamed_clicks(head):
        return Guess("rs", "read as clicks (--setting rs), by the values of its unnamed columns")
    if not found and (by_cells := _guess_from_cells(path, table, given, setting)) is not None:
        return by_cells
    if found == ["mil"] and "label" not in given:
        other = alternative_bags(
            head, usual_column("group", columns), usual_column("label", columns)
        )
        if len(other) == 1 and "group" not in given:
            return _as_guess(other[0])
    if found == ["rs"] and not given:
        clicks = _usual_columns(columns, "user", "item", "time", "rating")
        if bags := labelled_bag_interpretations(head, clicks):
            ids = {part: name for part, name in clicks.items() if part in REQUIRED_PARTS["rs"][0]}
            raise DataError(_ambiguity_message(path, [Interpretation("rs", ids, ""), *bags]))
    if len(found) != 1:
        raise DataError(_columns_message(path, head, found))
    parts, called = REQUIRED_PARTS[found[0]]
    named = f"{' and '.join(parts)} column{'s' * (len(parts) > 1)}"
    if found == ["pll"] and is_resolved(columns):
        named = "columns, which `resolve` wrote"
    return Guess(found[0], f"read as {called} (--setting {found[0]}), from its {named}")


def _first_bytes(source: Source) -> bytes:
    """Return the first lines of the first file, or all of a file that is not text."""
    if source.format in DELIMITED or source.format == "jsonl":
        return next(source.line_blocks(source.paths[0], HEAD_BYTES), b"")
    return source.read_bytes(source.paths[0])


def _usual_columns(columns: Sequence[str], *parts: str) -> dict[str, str]:
    usual = {part: usual_column(part, columns) for part in parts}
    return {part: name for part, name in usual.items() if name}


def _guess_from_cells(
    path: str, table: Table, given: Mapping[str, Any], setting: str | None
) -> Guess | None:
    """Return the setting guessed from cells, or None; an ambiguous table is refused."""
    check_no_votes(table.frame.columns, path)
    known = _usual_columns(table.frame.columns, "group", "label", "user", "item")
    known |= {part: name for part, name in given.items() if isinstance(name, str) and name}
    interpretations = [
        each for each in interpret_cells(table.frame, known) if setting in (None, each.setting)
    ]
    for each in interpretations:
        if each.setting == "pll":
            _check_is_no_vote(path, table.frame, each.columns["candidates"])
    if len(interpretations) == 1 and not interpretations[0].doubt:
        return _as_guess(interpretations[0])
    if interpretations:
        raise DataError(_ambiguity_message(path, interpretations))
    _check_bags_agree(table, known)
    return None


def _check_is_no_vote(path: str, frame: pl.DataFrame, candidates: str) -> None:
    """Refuse a candidate column that is one of several columns of votes."""
    votes = [
        name
        for name, kind in frame.schema.items()
        if name not in (candidates, usual_column("truth", frame.columns))
        and kind == pl.String
        and 2 <= frame[name].drop_nulls().n_unique() <= MAX_VOTED
        and find_label_columns(frame.select(candidates), frame[name].unique())
    ]
    if len(votes) > 1:
        every = ",".join(name for name in frame.columns if name in {*votes, candidates})
        raise DataError(
            f"{path} has no labels, but what look like votes ({every}); make one label per row "
            f"of them with `groupnoise resolve {path} --annotators '{every}' -o labels.csv`, or "
            f"say --candidates '{candidates}' if that column alone is to be learned from."
        )


def _columns_message(path: str, head: pl.DataFrame, found: Sequence[str]) -> str:
    """Return an error message: columns fit no setting, or several (`found`)."""
    why = "fit more than one kind of data" if found else "do not tell what it holds"
    shown = f"{', '.join(head.columns[:12])}{', ...' * (head.width > 12)}"
    files = ", give the table of labels (--labels) if each file is a bag"
    files *= Path(path).is_dir()
    return (
        f"the columns of {path} {why}: it has {shown}; name them (--user and --item of clicks, "
        f"--group and --label of bags, --candidates){files}, or make labels of "
        f"votes and lists of labels with `groupnoise resolve`{_indicator_hint(head)}."
    )


def _indicator_hint(head: pl.DataFrame) -> str:
    marks = indicator_columns(head)
    if len(marks) < MIN_MARKS:
        return ""
    if usual_column("user", head.columns) is not None and len(marks) == head.width - 1:
        return "; of a table of users and items make a row of each click, with its user and item"
    few = ",".join(marks) if len(marks) <= MAX_MARKS else f"{marks[0]},...,{marks[-1]}"
    return f"; if each of the columns of 0 and 1 is a candidate, say --candidates '{few}'"


def _as_guess(reading: Interpretation) -> Guess:
    called = REQUIRED_PARTS[reading.setting][1]
    sentence = f"read as {called} (--setting {reading.setting}), by its values: {reading.why}"
    return Guess(reading.setting, sentence, reading.columns)


def _ambiguity_message(path: str, interpretations: Sequence[Interpretation]) -> str:
    """Return an error message that lists the interpretations of a file as options."""
    ways = [
        " ".join(f"--{part} {name!r}" for part, name in each.columns.items())
        for each in interpretations
    ]
    more = "in more than one way" if len(ways) > 1 else f"so, but {interpretations[0].doubt}"
    say = "which" if len(ways) > 1 else "that if it is right"
    return (
        f"the columns of {path} may be read {more}: by their cells {' or '.join(ways[:4])}; say "
        f"{say}."
    )


def _guess_from_arrays(path: str, names: Sequence[str], given: Collection[str]) -> Guess:
    found = settings_by_columns(names, given)
    if len(found) != 1:
        raise DataError(
            f"{path} holds the arrays {', '.join(names)}, which do not tell what they are; say "
            "what it holds with --setting mil (bags), pll (candidate labels) or rs (clicks)."
        )
    called = REQUIRED_PARTS[found[0]][1]
    return Guess(found[0], f"read as {called} (--setting {found[0]}), from its array names")
