"""Roles of columns: given by the user, or guessed and reported."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import polars as pl

from groupnoise.core.checks import did_you_mean
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, MissingColumnError
from groupnoise.io.columns.names import (
    COUNT_NAMES,
    NAMED_PARTS,
    SESSIONS,
    only_other_id,
    plain_name,
    usual_column,
)
from groupnoise.io.tables.cells import BOOLEANS, find_time_columns, look_like_dates
from groupnoise.io.tables.delimited import NotUTF8Error
from groupnoise.io.tables.nested_cells import holds_numbers
from groupnoise.io.tables.sources import Guesses, Report

Read = TypeVar("Read")
ANNOTATOR_NAME = re.compile(
    r"(annotator|annotateur|anotador|bewerter|kodierer|ann|rater|vote|voter|coder|labell?er|worker"
    r"|llm|judge)(?=[ _.-]|\d)"
)
"""Beginnings of the names of annotators: ann_1, annotator 2, rater3."""
VOTE_SUFFIXES = re.compile(
    r"[ _.-](comments?|notes?|remarks?|reasons?|rationale|explanation|time|duration|seconds|date"
    r"|timestamp|confidence|certainty|kommentare?|bemerkung|grund|begründung|dauer|zeit|datum"
    r"|sicherheit|commentaire|comentario|commento)$"
)
"""Ends of names of columns about a vote: ann_1_comment."""
MIN_TIMESTAMP = 1e6
"""Ratings are smaller, seconds since 1970 larger."""
CLICK_PARTS = ("user", "item", "time", "rating")
_TRUTH = re.compile(
    r"(\w+_)?(truth|true_label|true_class|gold|gold_label|gold_standard)|golden:\w+"
)
"""How columns of the truth beside votes are called, those of Toloka's control tasks too."""


def is_truth_name(column: str) -> bool:
    """Tell whether a column is called as the truth beside votes is.

    Neither a model nor who answers may see such columns.

    >>> is_truth_name("label_truth"), is_truth_name("GOLDEN:result"), is_truth_name("golden_age")
    (True, True, False)
    """
    return _TRUTH.fullmatch(plain_name(column)) is not None


def pick_column(
    part: str,
    given: str | None,
    columns: Sequence[str],
    *,
    origin: str,
    report: Report,
    taken: Collection[str] = (),
) -> str | None:
    """Return the column of a role: the given one, one with a usual name, or None.

    `part`: a key of `USUAL_NAMES`.
    `given`: the name the user gave; refused if there is no such column.
    `taken`: columns that already play another part.
    """
    if given is not None:
        return check_column(given, columns, origin, f"to be the {part}", part)
    column = usual_column(part, [name for name in columns if name not in taken])
    if column is not None:
        sessions = [name for name in columns if plain_name(name) in SESSIONS and name != column]
        rather = f", rather than the sessions of {sessions[0]!r} (--user)" if sessions else ""
        report(f"took column {column!r} as the {part}{rather * (part == 'user')}")
    return column


def require_column(
    part: str,
    given: str | None,
    columns: Sequence[str],
    *,
    origin: str,
    report: Report,
    taken: Collection[str] = (),
) -> str:
    """Return the column of a role, or raise an error that says how to name it."""
    column = pick_column(part, given, columns, origin=origin, report=report, taken=taken)
    if column is None:
        several = ", or columns of 0 and 1, one per label, with commas or a pattern"
        raise MissingColumnError(
            f"{origin} has no column that looks like the {part}; name it with `{part}` "
            f"(--{part}){several * (part == 'label')}. Its columns are {_listing(columns)}.",
            part,
            tuple(columns),
        )
    return column


@dataclass(frozen=True)
class ClickColumns:
    """Which columns of a click log hold what."""

    user: str
    item: str
    time: str | None
    rating: str | None


def find_click_columns(
    head: pl.DataFrame,
    origin: str,
    report: Report,
    *,
    user: str | None,
    item: str | None,
    time: str | None,
    rating: str | None,
) -> ClickColumns:
    """Return the columns of a click log by the names given or guessed."""
    columns = head.columns
    context: dict[str, Any] = {"origin": origin, "report": report}
    if user is None and item is None and _have_no_names(columns):
        by_position = _unnamed_click_columns(head)
        if by_position is not None:
            parts = ", ".join(f"{name} is the {part}" for part, name in by_position.items())
            left = "".join(f", {n} is left out" for n in columns if n not in by_position.values())
            report(f"the columns have no names; took them by position: {parts}{left}")
            user, item = by_position["user"], by_position["item"]
            time = time or by_position.get("time")
            rating = rating or by_position.get("rating")
    user_column = require_column("user", user, columns, **context)
    item = item or only_other_id(columns, user_column, report)
    item_column = require_column("item", item, columns, taken={user_column}, **context)
    taken = {user_column, item_column}
    time_column = pick_column("time", time, columns, taken=taken, **context)
    dated, kind = find_time_columns(head.drop(list(taken)))
    if time_column is None and len(dated) == 1:
        time_column = dated[0]
        report(f"took column {time_column!r} as the time: it holds {kind}")
    if time_column is None and dated:
        report(
            f"several columns hold {kind} ({', '.join(dated)}) and none was named as the time "
            "(--time); took the order of the rows as the order of the clicks"
        )
    elif time_column is None:
        report("there is no time column; took the order of the rows as the order of the clicks")
    else:
        taken.add(time_column)
    no_numbers = {name for name in columns if rating is None and not holds_numbers(head[name])}
    rating_column = pick_column("rating", rating, columns, taken=taken | no_numbers, **context)
    for name in columns:
        if name not in {*taken, rating_column} and plain_name(name) in COUNT_NAMES:
            report(_unused_column_note(head[name]))
    return ClickColumns(user_column, item_column, time_column, rating_column)


def _unused_column_note(cells: pl.Series) -> str:
    """Return a note that a column is ignored, with the option that would use it.

    `cells`: of all or the first rows.
    """
    name = cells.name
    if not holds_numbers(cells):
        kinds = cells.cast(pl.String).drop_nulls().unique(maintain_order=True)
        shown = ", ".join(kinds.head(4)) + (", ..." if len(kinds) > 4 else "")
        yes = {pair[0] for pair in BOOLEANS}
        wanted = next((kind for kind in kinds if kind.strip().lower() in yes), kinds[0])
        return (
            f"left out column {name!r} ({shown}): every row counts as one click, whatever it says "
            f"there; --only {name}={wanted} learns from such rows alone"
        )
    numbers = cells.cast(pl.String).str.replace(",", ".").cast(pl.Float64, strict=False)
    if bool((numbers < 0).any()):
        return (
            f"left out column {name!r}: every row counts as one click, also where it is negative, "
            f"as of returns; --rating {name} --min-rating 1 leaves rows below one out"
        )
    return (
        f"left out column {name!r}: every row counts as one click; --rating {name} with "
        "--min-rating drops rows below a bound"
    )


def _have_no_names(columns: Sequence[str]) -> bool:
    """Tell whether columns have the names given to files without a header."""
    return list(columns) == [f"column_{i + 1}" for i in range(len(columns))]


def are_unnamed_clicks(head: pl.DataFrame) -> bool:
    """Tell whether a table without column names holds clicks."""
    columns = head.columns
    if not _have_no_names(columns) or not 2 <= len(columns) <= 4:
        return False
    users, items, *others = head.get_columns()
    if head.width > 2 and look_like_dates(items):  # the time stands second
        items, others = others[0], []
    if head.null_count().sum_horizontal()[0] or any(
        cells.str.contains(r"[\s.]").any() for cells in (users, items)
    ):
        return False
    if users.n_unique() == head.height:
        return False
    if not others and head.width > 2:
        return True
    *_, last = others or [items]
    has_times = look_like_dates(last)
    if has_times:
        others = others[:-1]
    numbers = [cells.cast(pl.Float64, strict=False) for cells in others]
    if any(cells.null_count() for cells in numbers):
        return False
    return has_times or head.width < 4 or bool((numbers[-1] > MIN_TIMESTAMP).all())


def _unnamed_click_columns(head: pl.DataFrame) -> dict[str, str] | None:
    """Return the roles of the columns of a log without a header, by their number.

    As in Amazon's ratings, or, if the second column holds dates, as in the sessions of YooChoose.
    """
    parts = {
        2: ("user", "item"),
        3: ("user", "item", "rating"),
        4: ("user", "item", "rating", "time"),
    }
    if head.width not in parts or head.height == 0:
        return None
    if head.width > 2 and look_like_dates(head.to_series(1)):
        return dict(zip(("user", "time", "item"), head.columns, strict=False))
    named = dict(zip(parts[head.width], head.columns, strict=True))
    if head.width == 3 and _looks_like_a_timestamp(str(head[0, 2])):
        named["time"] = named.pop("rating")
    return named


def _looks_like_a_timestamp(cell: str) -> bool:
    """Tell timestamps and dates from ratings, which are small numbers."""
    try:
        return float(cell) > MIN_TIMESTAMP
    except ValueError:
        return True


def read_like_training_file(
    read: Callable[..., Read],
    given: Mapping[str, Any],
    remembered: Mapping[str, Any],
    report: Report | None,
) -> tuple[Read, dict[str, Any]]:
    """Read a file with the options of the training file; return the data and the options used.

    `read`: the reader, called with `report` and options. `given`: options of the user, which take
    precedence. `remembered`: options of the training file; columns that this file lacks are
    guessed, as is a table of labels of other bags, and the encoding is used if this file is not
    UTF-8. `report`: receives the final guesses.
    """
    if "fill" in remembered:  # further files are filled with the medians of the first
        given = {part: value for part, value in given.items() if part != "fill"}
    left = {part: value for part, value in remembered.items() if part not in given}
    encoding = left.pop("encoding", None)
    if "labels" in left and not Path(left["labels"]).is_file():
        del left["labels"]
    foreign: DataError | None = None
    while True:
        used, guesses = {**left, **given}, Guesses(None)
        try:
            found = read(report=guesses, **used)
        except NotUTF8Error:
            if encoding is None or "encoding" in used:
                raise
            left["encoding"] = encoding
            continue
        except MissingColumnError as error:
            if error.part not in left:
                raise
            if error.part == "min_rating" and report is not None:
                report("the model left out rows of low ratings; here are none, so all rows count")
            if error.part == "only" and report is not None:
                report(
                    f"the model kept only {left['only']}; this file has no such column, so all "
                    "rows count"
                )
            foreign = error if error.part == "labels" else foreign
            # A file without a header is known by its positions only if no column is named.
            gone = [part for part in CLICK_PARTS if left.get(part) not in error.columns]
            left = {part: left[part] for part in left if part not in (error.part, *gone)}
            continue
        except DataError as error:
            if foreign is None:
                raise
            raise DataError(f"{error} The labels of the training do not fit: {foreign}") from None
        if report is not None:
            same = [f"{part} {_quoted_names(left[part])}" for part in left if part in NAMED_PARTS]
            if same:
                report(f"columns as when the model was fitted: {', '.join(same)}")
            for sentence in guesses.sentences:
                report(sentence)
        return found, used


def _quoted_names(columns: Any) -> str:
    """Return the quoted name of a column, or of several."""
    names = columns if isinstance(columns, (list, tuple)) else [columns]
    return " and ".join(map(repr, names))


def annotator_columns(columns: Sequence[str]) -> tuple[str, list[str]] | None:
    """Return the common prefix of annotator columns, and these columns.

    >>> annotator_columns(["text", "ann_1", "ann_2"])
    ('ann_', ['ann_1', 'ann_2'])
    """
    by_word: dict[str, list[str]] = {}
    for name in columns:
        begins = ANNOTATOR_NAME.match(name.lower())
        if begins and not VOTE_SUFFIXES.search(name.lower()):
            # With what follows it, so that it can be typed as a pattern.
            word = name[: begins.end() + (not name[begins.end()].isdigit())]
            by_word.setdefault(word, []).append(name)
    return next(((word, found) for word, found in by_word.items() if len(found) > 1), None)


def check_no_votes(columns: Sequence[str], origin: str) -> None:
    """Refuse a table of votes where labels are needed, naming the command that makes them."""
    found = annotator_columns(columns)
    if found is not None:
        raise DataError(
            f"{origin} has no labels, but votes of {counted(len(found[1]), 'annotators')} "
            f"({found[0]}*); make "
            f"one label per row of them with `groupnoise resolve {origin} -o labels.csv`, then "
            "give labels.csv."
        )


def match_columns(
    part: str, given: str | Sequence[str], columns: Sequence[str], origin: str
) -> list[str]:
    """Return the columns of a list, a comma-separated list or patterns such as `f*`."""
    requested = given.split(",") if isinstance(given, str) and given not in columns else given
    requested = [requested] if isinstance(requested, str) else requested
    matched: dict[str, None] = {}
    for name in requested:
        if name in columns:
            matched[name] = None
            continue
        found = fnmatch.filter(columns, name.strip())
        if not found:
            check_column(name.strip(), columns, origin, f"to be the {part}", part)
        matched.update(dict.fromkeys(found or [name.strip()]))
    return list(matched)


def check_column(
    name: str, columns: Sequence[str], origin: str, purpose: str, part: str = ""
) -> str:
    """Return a column named by the user, or raise an error that suggests similar names."""
    if name not in columns:
        raise MissingColumnError(
            f"{origin} has no column {name!r} {purpose}{did_you_mean(name, columns)}; its columns "
            f"are {_listing(columns)}.",
            part,
            tuple(columns),
        )
    return name


def _listing(columns: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in columns[:12])
    return shown if len(columns) <= 12 else f"{shown} and {len(columns) - 12} more"
