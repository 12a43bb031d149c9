"""Picture files that a table names: found, bounded and served as what they are."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from groupnoise.exceptions import DataError
from groupnoise.io.columns import match_columns
from groupnoise.io.tables import Table

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


class Picture(NamedTuple):
    """A picture as it is sent: its bytes, and what they are."""

    content: bytes
    media_type: str


def read_picture(path: Path) -> Picture:
    """Read a picture file, and refuse what is none.

    Result: its media type is that of its first bytes. `path`: a file that the data name.
    """
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


def picture_columns(table: Table, named: str | None, taken: Collection[str] = ()) -> list[str]:
    """Return the columns of picture paths: those named, or where every cell ends like one.

    Empty where there are none. `named`: names or patterns, joined by commas. `taken`: columns that
    play another part.
    """
    if named is not None:
        return match_columns("images", named.split(","), table.frame.columns, table.origin)
    found = []
    for name in table.frame.columns:
        cells = table.frame[name]
        if cells.dtype == pl.String and name not in taken:
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
