"""Which raw files bags were made of, and where their objects lie in these."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.embedding.builtin_features import open_picture, open_recording, read_text
from groupnoise.bags.embedding.folder import RECORD, find_raw_files, read_record
from groupnoise.bags.embedding.spectrogram import RATE, draw_sound
from groupnoise.bags.reading.bag_file import BagFile
from groupnoise.bags.reading.folder import find_bag_files, is_bag_folder
from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_positive, require
from groupnoise.exceptions import DataError
from groupnoise.io.tables.sources import Report, ignore_report
from groupnoise.pages import data_address, encode_png

MAX_SIDE = 480
"""Pixels of the longer side of a picture in a page."""
TILE_SIDE, MIN_TILE = 72, 8
"""Pixels of a tile in a gallery, and of the picture below which it shows nothing."""
THUMBNAILS = "thumbnails"
"""The folder of pictures of whole slides in the folder of a job of TRIDENT."""


@dataclass(frozen=True)
class Sources:
    """Raw files by the name of their bag.

    `kind`: "pictures", "texts" or "recordings"; "" where there are no raw files.
    `files`: the raw file of each bag that has one.
    `size`: how wide objects are, in the units of their coordinates.
    `downsample`: units of the coordinates per pixel of the pictures; None where only the files of
        `bags` may say it.
    `bags`: the file of features of each bag.
    """

    kind: str = ""
    files: dict[str, Path] = field(default_factory=dict)
    size: float | None = None
    downsample: float | None = 1.0
    bags: Mapping[str, BagFile] = field(default_factory=dict)

    def picture(self, bag: str) -> NDArray[np.uint8] | None:
        """Return the picture of a bag, shape (height, width, 3), None if there is none."""
        if self.kind != "pictures" or bag not in self.files:
            return None
        return _open_picture(self.files[bag])

    def extent(self, bag: str) -> tuple[float, float] | None:
        """Return width and height of the picture of a bag in units of the coordinates, if any."""
        pixels = self.picture(bag)
        if pixels is None:
            return None
        scale = self._units_per_pixel(bag, pixels.shape[1])
        return pixels.shape[1] * scale, pixels.shape[0] * scale

    def holds(self, bag: str, positions: FloatArray) -> bool:
        """Tell whether objects lie in the picture of their bag; they do where there is none."""
        extent = self.extent(bag)
        return extent is None or bool((positions < np.array(extent)).all())

    def _units_per_pixel(self, bag: str, n_across: int) -> float:
        if self.downsample is not None:
            return self.downsample
        whole = self.bags[bag].slide_width() if bag in self.bags else None
        return 1.0 if whole is None else whole / n_across

    def text(self, bag: str) -> str | None:
        """Return the text of a bag, None if there is none."""
        if self.kind != "texts" or bag not in self.files:
            return None
        return read_text(self.files[bag])

    def sound(self, bag: str) -> tuple[str, float]:
        """Return a recording as the address of a picture, "" if there is none, and its seconds."""
        if self.kind != "recordings" or bag not in self.files:
            return "", 0.0
        samples = open_recording(self.files[bag])
        return data_address(encode_png(draw_sound(samples))), len(samples) / RATE

    def tile(self, bag: str, x: float, y: float) -> str:
        """Return a tile of the picture of a bag as an address, "" if there is none."""
        pixels = self.picture(bag)
        if pixels is None or self.size is None:
            return ""
        scale = self._units_per_pixel(bag, pixels.shape[1])
        left, top, side = (round(value / scale) for value in (x, y, self.size))
        part = pixels[top : top + side, left : left + side]
        return _as_address(part, TILE_SIDE, "PNG") if part.size and side >= MIN_TILE else ""


def find_sources(
    data: str, folder: Path | None, downsample: float | None = None, report: Report = ignore_report
) -> Sources:
    """Return the raw files that belong to a folder of features.

    Empty where nothing is known. `data`: what the user gave as data; a folder that `groupnoise
    embed` wrote says where they are, and a job of TRIDENT has pictures of its slides. `folder`:
    where they are, or where smaller copies are. `downsample`: units of the coordinates per pixel of
    the pictures there; by default what the files say, or 1. `report`: told of pictures that were
    found.
    """
    if downsample is not None:
        check_positive("--downsample", downsample)
    record = read_record(Path(data)) if (Path(data) / RECORD).is_file() else None
    if record is not None:
        place = folder or Path(data) / record.source
        size = record.cut.size if record.kind == "pictures" else None
        if folder is None and not place.is_dir():
            return Sources(size=size)
        kind, files = find_raw_files(place, record.kind)
        return Sources(kind, files, size, downsample or 1.0)
    bags = find_bag_files(Path(data), None, ignore_report) if is_bag_folder(data, labels=()) else []
    size = bags[0].patch_size() if bags else None
    if folder is None and bags:
        folder = _pictures_of_job(bags[0].path)
        if folder is not None:
            report(f"took the pictures in {folder} (--sources names others)")
    if folder is None:
        return Sources(size=size)
    kind, files = find_raw_files(folder)
    of_pictures = size if kind == "pictures" else None
    return Sources(kind, files, of_pictures, downsample, {bag.bag_id: bag for bag in bags})


def _pictures_of_job(file: Path) -> Path | None:
    """Return the pictures of slides beside or above the folder of features that TRIDENT wrote."""
    if not file.parent.name.startswith("features_"):
        return None
    found = (folder / THUMBNAILS for folder in file.parents[1:3])
    return next(
        (each for each in found if any(each.glob("*.jp*g")) or any(each.glob("*.png"))), None
    )


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
