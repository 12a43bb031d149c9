"""Reading titles and categories for the items of a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    from groupnoise.datasets.readers import read_table

    is_plain = path.with_suffix("" if path.suffix == ".gz" else path.suffix).suffix in ("", ".txt")
    frame = read_table(path, format="csv" if is_plain else None, header=True).frame
    for needed in (id_column, title_column):
        if needed not in frame.columns:
            raise DataError(f"{path} has no column {needed!r}; it has {', '.join(frame.columns)}.")
    items = _texts(frame, id_column)
    titles = dict(zip(items, _texts(frame, title_column), strict=True))
    keys = [str(item) for item in item_ids.tolist()]
    if not any(key in titles for key in keys):
        raise DataError(f"no id in column {id_column!r} of {path} is an item of the model.")
    named = [titles.get(key) or key for key in keys]
    if category_column not in frame.columns:
        return named, None
    first = [cell.split("|")[0] for cell in _texts(frame, category_column)]
    categories = dict(zip(items, first, strict=True))
    return named, [categories.get(key) or "other" for key in keys]


def _texts(frame: Any, column: str) -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in frame[column]]
