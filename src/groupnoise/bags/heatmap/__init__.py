"""Heat maps: which objects carried the label, laid over what they were cut from, which is here."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.bag_folder import find_bag_files, holds_bag_files
from groupnoise.bags.embedding.folder import RECORD, find_raw_files, read_record
from groupnoise.bags.embedding.pictures import open_picture
from groupnoise.bags.embedding.sequences import read_text
from groupnoise.core.checks import check_positive, require
from groupnoise.exceptions import DataError
from groupnoise.io.sources import say_nothing
from groupnoise.pages import data_address

MAX_SIDE = 480
"""Pixels of the longer side of a picture in the page."""
TILE_SIDE = 72
"""Pixels of a tile in the gallery."""


@dataclass(frozen=True)
class Sources:
    """Raw files by the name of their bag.

    `kind`: "pictures", "texts" or "recordings"; "" where there are no raw files.
    `files`: the raw file of each bag that has one.
    `size`: how wide objects are, in the units of their coordinates.
    `downsample`: units of the coordinates per pixel of the pictures.
    """

    kind: str = ""
    files: dict[str, Path] = field(default_factory=dict)
    size: float | None = None
    downsample: float = 1.0

    def picture(self, bag: str) -> NDArray[np.uint8] | None:
        """Return the picture of a bag, shape (height, width, 3), None if there is none."""
        if self.kind != "pictures" or bag not in self.files:
            return None
        return _open_picture(self.files[bag])

    def text(self, bag: str) -> str | None:
        """Return the text of a bag, None if there is none."""
        if self.kind != "texts" or bag not in self.files:
            return None
        return read_text(self.files[bag])

    def tile(self, bag: str, x: float, y: float) -> str:
        """Return a tile of the picture of a bag as an address, "" if there is none."""
        pixels = self.picture(bag)
        if pixels is None or self.size is None:
            return ""
        left, top, side = (round(value / self.downsample) for value in (x, y, self.size))
        part = pixels[top : top + max(1, side), left : left + max(1, side)]
        return _as_address(part, TILE_SIDE, "PNG") if part.size else ""


def find_sources(data: str, folder: Path | None, downsample: float = 1.0) -> Sources:
    """Return the raw files that belong to a folder of features.

    Empty where nothing is known. `data`: what the user gave as data; a folder that `groupnoise
    embed` wrote says where they are. `folder`: where they are, or where smaller copies are.
    `downsample`: units of the coordinates per pixel of the pictures there.
    """
    check_positive("--downsample", downsample)
    record = read_record(Path(data)) if (Path(data) / RECORD).is_file() else None
    if folder is None:
        if record is None:
            return Sources(size=_patch_size(data))
        folder = Path(data) / record.source
        if not folder.is_dir():
            return Sources(size=record.cut.size if record.kind == "pictures" else None)
    kind, files = find_raw_files(folder, None if record is None else record.kind)
    size = None
    if kind == "pictures":
        size = _patch_size(data) if record is None else record.cut.size
    return Sources(kind, {file.stem: file for file in files}, size, downsample)


def _patch_size(data: str) -> float | None:
    """Return how wide the objects of files with coordinates are, if the first of them says it."""
    if not holds_bag_files(data, labels=()):
        return None
    return find_bag_files(Path(data), None, say_nothing)[0].patch_size()


def thumbnail(pixels: NDArray[np.uint8]) -> str:
    """Return a picture as the address of a smaller one."""
    return _as_address(pixels, MAX_SIDE, "JPEG")


@lru_cache(maxsize=2)
def _open_picture(path: Path) -> NDArray[np.uint8]:
    return open_picture(path)


def _as_address(pixels: NDArray[np.uint8], side: int, form: str) -> str:
    image: Any = require("PIL.Image", extra="images").fromarray(np.ascontiguousarray(pixels))
    image.thumbnail((side, side))
    stream = io.BytesIO()
    try:
        image.save(stream, form)
    except OSError as error:
        raise DataError(f"a picture cannot be written as {form} ({error}).") from None
    return data_address(stream.getvalue(), f"image/{form.lower()}")
