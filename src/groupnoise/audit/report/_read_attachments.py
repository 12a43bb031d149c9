"""Picture paths and texts from further columns of the table that the data was read from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.audit.report._attachments import Attachments
from groupnoise.datasets import read_bags, read_candidates, read_table
from groupnoise.exceptions import DataError

ROW_NUMBER = "row number of the audit"


def read_row_attachments(
    path: Path | str, setting: str, *, images: Sequence[str] = (), text: str | None = None
) -> Attachments:
    """Read the pictures and texts that belong to the instances of bags or to candidate rows.

    Parameters
    ----------
    path : path
        The table that `read_bags` or `read_candidates` read.
    setting : {"mil", "pll"}
        Which of the two.
    images : sequence of str
        Columns of picture paths, relative to the folder of the table.
    text : str, optional
        A column of text.
    """
    frame = read_table(path).frame
    _need_columns(path, frame, images, text)
    numbered = frame.with_columns(**{ROW_NUMBER: np.arange(frame.height)})
    # Read once more with the row number as the only feature: it tells where each row has gone.
    if setting == "mil":
        order = read_bags(numbered, features=[ROW_NUMBER]).bags.objects[:, 0]
    else:
        order = read_candidates(numbered, features=[ROW_NUMBER]).features[:, 0]
    return _attach(Path(path).parent, frame[order.astype(np.int64)], images, text)


def read_item_attachments(
    path: Path | str,
    item_ids: NDArray[Any],
    *,
    images: Sequence[str] = (),
    text: str | None = None,
) -> Attachments:
    """Read the pictures and titles of items from a table of items, whose first column is the id.

    Parameters
    ----------
    path : path
        The table of items; an item that it does not list goes without.
    item_ids : ndarray of shape (n_items,)
        The items of the log.
    images : sequence of str
        Columns of picture paths, relative to the folder of the table.
    text : str, optional
        A column of titles.
    """
    frame = read_table(path).frame
    _need_columns(path, frame, images, text)
    row_of = {str(item): row for row, item in enumerate(frame.to_series(0).to_list())}
    rows = [row_of.get(str(item), frame.height) for item in item_ids.tolist()]
    if min(rows) == frame.height:
        raise DataError(f"no id in the first column of {path} is an item of the data.")
    unlisted = frame.clear(1)  # a row of empty cells
    return _attach(Path(path).parent, frame.vstack(unlisted)[rows], images, text)


def _need_columns(path: Path | str, frame: Any, images: Sequence[str], text: str | None) -> None:
    for column in [*images, *([text] if text else [])]:
        if column not in frame.columns:
            raise DataError(f"{path} has no column {column!r}; it has {', '.join(frame.columns)}.")


def _attach(folder: Path, frame: Any, images: Sequence[str], text: str | None) -> Attachments:
    files = [
        [folder / cell for cell in row if cell] for row in frame.select(list(images)).iter_rows()
    ]
    texts = [cell or "" for cell in frame[text].to_list()] if text else None
    return Attachments(files=files if images else None, texts=texts)
