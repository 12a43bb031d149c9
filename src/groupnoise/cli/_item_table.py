"""Reading titles and categories for the items of a model."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from groupnoise.exceptions import DataError


def read_item_table(
    path: Path,
    item_ids: NDArray[Any],
    *,
    id_column: str,
    title_column: str,
    category_column: str,
) -> tuple[list[str], list[str] | None]:
    """Return the title and category of each item, in the order of `item_ids`.

    Items missing from the table get their id as title and no category; so do empty cells.
    Categories are None where the table has no such column.
    """
    delimiter = "\t" if ".tsv" in path.suffixes else ","
    titles: dict[str, str] = {}
    categories: dict[str, str] = {}
    with _open_text(path) as stream:
        rows = csv.DictReader(stream, delimiter=delimiter)
        columns = rows.fieldnames or []
        for needed in (id_column, title_column):
            if needed not in columns:
                raise DataError(
                    f"{path} has no column {needed!r}; it has {', '.join(columns) or 'no header'}."
                )
        for row in rows:
            item = row[id_column]
            titles[item] = row[title_column] or ""
            categories[item] = (row.get(category_column) or "").split("|")[0]
    keys = [str(item) for item in item_ids.tolist()]
    if not any(key in titles for key in keys):
        raise DataError(f"no id in column {id_column!r} of {path} is an item of the model.")
    named = [titles.get(key) or key for key in keys]
    if category_column not in columns:
        return named, None
    return named, [categories.get(key) or "other" for key in keys]


def _open_text(path: Path) -> IO[str]:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, "rt", encoding="utf-8", newline="")
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}).") from None
