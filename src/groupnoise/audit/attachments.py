"""What a case can be shown with: pictures in the data, picture files, and text."""

from __future__ import annotations

import mimetypes
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.exceptions import DataError
from groupnoise.io.columns import check_column, match_columns
from groupnoise.io.tables import Table, read_table
from groupnoise.pages import data_address, encode_png

LARGEST_BYTES = 200_000
"""A larger file is made smaller first, so that a page of sixty pictures can still be sent."""
THUMBNAIL_SIDE = 256
SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")
MAX_BYTES = 20_000_000
"""Larger files are not sent to a page."""
SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"BM": "image/bmp",
}
"""How pictures begin; what a file is called proves nothing."""


def picture_of_array(image: FloatArray) -> str:
    """Return a small picture as a data address: ink whose opacity is its darkness."""
    darkness = np.rint(np.clip(image, 0.0, 1.0) * 255).astype(np.uint8)
    return data_address(encode_png(np.stack([np.zeros_like(darkness), darkness], axis=-1)))


def picture_of_file(path: Path) -> str:
    """Return the picture in a file as a data address, made smaller if it is large."""
    kind = mimetypes.guess_type(path.name)[0] or ""
    if not kind.startswith("image/"):
        raise DataError(
            f"{path} does not end like a picture; give paths of .png, .jpg or the like."
        )
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"the picture {path} cannot be read ({error.strerror}).") from None
    if len(content) > LARGEST_BYTES and kind != "image/svg+xml":
        return _thumbnail(path)
    return data_address(content, kind)


def _thumbnail(path: Path) -> str:
    import io

    from groupnoise.core.checks import require

    image = require("PIL.Image", extra="plots").open(path).convert("RGB")
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    stream = io.BytesIO()
    image.save(stream, format="JPEG", quality=80)
    return data_address(stream.getvalue(), "image/jpeg")


@dataclass(frozen=True)
class Attachments:
    """Pictures and text of what is audited, by instance (bags), row (candidates) or item (clicks).

    `arrays` (n, height, width): darkness in [0, 1].
    `files`: the picture files of each; some may have none.
    `texts`: a text or title of each.
    """

    arrays: FloatArray | None = None
    files: Sequence[Sequence[Path]] | None = None
    texts: Sequence[str] | None = None

    @classmethod
    def of_dataset(cls, dataset: Any) -> Attachments:
        """Return what a data set itself brings: its pictures, or the titles of its items."""
        return cls(arrays=getattr(dataset, "images", None), texts=getattr(dataset, "titles", None))

    def pictures(self, number: int) -> list[str]:
        """Return the pictures of one as data addresses; files come before arrays."""
        if self.files is not None:
            return [picture_of_file(path) for path in self.files[number]]
        if self.arrays is not None:
            return [picture_of_array(self.arrays[number])]
        return []

    def text(self, number: int) -> str:
        """Return the text of one, empty if it has none."""
        return "" if self.texts is None else str(self.texts[number])


def read_row_attachments(
    table: Table, rows: IntArray, *, images: Sequence[str] = (), text: str | None = None
) -> Attachments:
    """Return the pictures and texts that belong to the instances of bags or to candidate rows."""
    _need_columns(table.origin, table.frame, images, text)
    return _attach(Path(table.origin).parent, table.frame[rows], images, text)


def read_item_attachments(
    path: Path | str, item_ids: NDArray[Any], *, images: Sequence[str] = (), text: str | None = None
) -> Attachments:
    """Read the pictures and titles of items from a table of items, whose first column is the id."""
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
        check_column(column, frame.columns, str(path), "to show")


def _attach(folder: Path, frame: Any, images: Sequence[str], text: str | None) -> Attachments:
    files = [
        [folder / cell for cell in row if cell] for row in frame.select(list(images)).iter_rows()
    ]
    texts = [cell or "" for cell in frame[text].to_list()] if text else None
    return Attachments(files=files if images else None, texts=texts)


class Picture(NamedTuple):
    """A picture as it is sent: its bytes, and what they are."""

    content: bytes
    media_type: str


def read_picture(path: Path) -> Picture:
    """Read a picture file, and refuse what is none."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise DataError(f"the picture {path} cannot be read ({said}).") from None
    if len(content) > MAX_BYTES:
        raise DataError(
            f"the picture {path} is larger than {MAX_BYTES // 1_000_000} MB; make it smaller."
        )
    media_type = next((kind for start, kind in SIGNATURES.items() if content.startswith(start)), "")
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        media_type = "image/webp"
    if not media_type:
        raise DataError(f"{path} is no PNG, JPEG, GIF, WebP or BMP picture.")
    return Picture(content, media_type)


def picture_columns(table: Table, named: str | None) -> list[str]:
    """Return the columns of picture paths: those named, or where every cell ends like one."""
    if named is not None:
        return match_columns("images", named.split(","), table.frame.columns, table.origin)
    found = []
    for name in table.frame.columns:
        cells = table.frame[name]
        if cells.dtype == pl.String:
            paths = cells.drop_nulls().str.strip_chars().str.to_lowercase()
            if len(paths) and all(path.endswith(SUFFIXES) for path in paths.to_list()):
                found.append(name)
    return found


def picture_paths(frame: Any, columns: Collection[str], folder: Path) -> list[list[Path]]:
    """Return the picture files of each row; paths are relative to the folder of the table."""
    cells = [frame[name].cast(pl.String).fill_null("").to_list() for name in columns]
    return [
        [folder / cell.strip() for cell in row if cell.strip()] for row in zip(*cells, strict=True)
    ] or [[] for _ in range(frame.height)]
