"""What a file holds, told by the names of its columns or arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from groupnoise.exceptions import DataError
from groupnoise.io.column_names import USUAL_NAMES, plain_name, usual_column
from groupnoise.io.columns import (
    are_unnamed_clicks,
    check_no_votes,
    is_resolved,
    only_other_id,
)
from groupnoise.io.named_arrays import ARRAY_FORMATS, load_arrays
from groupnoise.io.sources import find_source, say_nothing
from groupnoise.io.tables import DELIMITED, read_content

HEAD_BYTES = 1 << 18
"""Enough of a file to see the names of its columns."""
TELLING = {
    "rs": (("user", "item"), "clicks"),
    "mil": (("group", "label"), "bags"),
    "pll": (("candidates",), "candidate labels"),
}
"""The parts that columns must play in data of a setting, and what it is called."""


def settings_of_columns(columns: Sequence[str], given: Collection[str] = ()) -> list[str]:
    """Return the settings whose telling columns are all there.

    Of "rs", "mil" and "pll"; where bags are named, labels are those of bags, unless `resolve` gave
    each row its own. `columns`: names of the columns of a table. `given`: parts whose columns the
    user has named.

    Examples
    --------
    >>> settings_of_columns(["User_ID", "item", "when"])
    ['rs']
    >>> settings_of_columns(["bag", "labels", "x1"]), settings_of_columns(["labels", "x1"])
    (['mil'], ['pll'])
    >>> settings_of_columns(["colour", "size"])
    []
    """
    names = {plain_name(name) for name in columns}

    def plays(part: str) -> bool:
        return part in given or usual_column(part, columns) is not None

    if is_resolved(columns) and not {"group", "user", "item"} & set(given):
        return ["pll"]
    found = [name for name, (parts, _) in TELLING.items() if all(map(plays, parts))]
    if "mil" in found and "pll" in found and "candidates" not in given:
        named = names & set(USUAL_NAMES["candidates"])
        if named <= set(USUAL_NAMES["label"]):
            found.remove("pll")
    by_kind = not all(part in given or names & set(USUAL_NAMES[part]) for part in TELLING["rs"][0])
    if len(found) > 1 and "rs" in found and by_kind:
        found.remove("rs")  # `url` or `client` beside candidates is no click
    user = usual_column("user", columns)
    if not found and user and only_other_id(columns, user, say_nothing):
        return ["rs"]
    return found


def guess_setting(
    path: str, *, given: Collection[str] = (), format: str | None = None
) -> tuple[str, str]:
    """Return what a file holds and a sentence that says so.

    Returns `setting` and `sentence`. `path`: a table, or a folder of tables. `given`: parts whose
    columns the user has named. `format`: its format, where the suffix does not say it. Raises
    DataError if the names of the columns fit no setting, or several.
    """
    source = find_source(path, format=format)
    if source.format in ARRAY_FORMATS:
        return _of_arrays(path, list(load_arrays(source).arrays), given)
    first = source.paths[0]
    if source.format in DELIMITED or source.format == "jsonl":
        content = next(source.line_blocks(first, HEAD_BYTES), b"")
    else:
        content = source.read_bytes(first)
    if not content.strip():
        raise DataError(f"{path} is empty; give a file with at least one row.")
    head = read_content(first, content, source.format, report=say_nothing).frame
    columns = head.columns
    found = settings_of_columns(columns, given)
    if not found and are_unnamed_clicks(head):
        return "rs", "read as clicks (--setting rs), by its columns without names"
    if not found:
        check_no_votes(columns, path)
    if len(found) != 1:
        why = "fit more than one kind of data" if found else "do not tell what it holds"
        shown = f"{', '.join(columns[:12])}{', ...' * (len(columns) > 12)}"
        raise DataError(
            f"the columns of {path} {why}: it has {shown}; name them (--user and --item of clicks, "
            "--group and --label of bags, --candidates), or make labels of votes and lists of "
            "labels with `groupnoise resolve`."
        )
    parts, called = TELLING[found[0]]
    named = f"{' and '.join(parts)} column{'s' * (len(parts) > 1)}"
    if found == ["pll"] and is_resolved(columns):
        named = "columns, which `resolve` wrote"
    return found[0], f"read as {called} (--setting {found[0]}), by its {named}"


def _of_arrays(path: str, names: Sequence[str], given: Collection[str]) -> tuple[str, str]:
    """Return what arrays hold by their names, and a sentence that says so."""
    found = settings_of_columns(names, given)
    if len(found) != 1:
        raise DataError(
            f"{path} holds the arrays {', '.join(names)}, which do not tell what they are; say "
            "what it holds with --setting mil (bags), pll (candidate labels) or rs (clicks)."
        )
    return found[0], f"read as {TELLING[found[0]][1]} (--setting {found[0]}), by its arrays"
