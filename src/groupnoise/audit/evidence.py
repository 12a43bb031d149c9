"""Evidence of an audit: posteriors of a model in columns, pictures and texts."""

from __future__ import annotations

import mimetypes
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from groupnoise.core.arrays import Columns, FloatArray, IntArray
from groupnoise.exceptions import DataError
from groupnoise.io.columns.roles import check_column, match_columns
from groupnoise.io.tables.table import Table, read_table
from groupnoise.pages import data_address, encode_png


class Findings(NamedTuple):
    """Columns computed for a block of data.

    `groups`: one row per group, in the order of the data.
    `objects`: one row per object, in the order of the data.
    `gain`: log-likelihood gain of the labels of each source over label frequencies, in nats; None
        if the model was already scored on held-out groups.
    """

    groups: Columns
    objects: Columns
    gain: FloatArray | None = None


class Posterior(NamedTuple):
    """Posterior over the matching object of each group.

    `responsibility`: the probability of each object to match; sums to one over a group.
    `chosen`: row of the most probable object of each group, among all objects; first wins ties.
    `probability`, `margin`, `entropy`: the share of the chosen object, its lead over the runner-up
        (a group of one leads by one), and the entropy of the shares in nats.
    """

    responsibility: FloatArray
    chosen: IntArray
    probability: FloatArray
    margin: FloatArray
    entropy: FloatArray


def object_posterior(scores: FloatArray, offsets: IntArray) -> Posterior:
    """Return the posterior over the objects of each group from their log scores.

    The softmax is taken at temperature one whatever selection the model was trained with, so
    that probabilities mean the same under hard and soft selection.

    `scores`: log scores, groups one after the other.

    Examples
    --------
    >>> found = object_posterior(np.log([1.0, 3.0, 5.0]), np.array([0, 2, 3]))
    >>> found.responsibility.tolist(), found.chosen.tolist(), found.margin.tolist()
    ([0.25, 0.75, 1.0], [1, 2], [0.5, 1.0])
    """
    starts, sizes = offsets[:-1], np.diff(offsets)
    values = np.asarray(scores, dtype=np.float64)
    odds = np.exp(values - np.repeat(np.maximum.reduceat(values, starts), sizes))
    share = odds / np.repeat(np.add.reduceat(odds, starts), sizes)
    best = np.maximum.reduceat(share, starts)
    is_best = np.flatnonzero(share == np.repeat(best, sizes))
    chosen = is_best[np.searchsorted(is_best, starts)]
    others = share.copy()
    others[chosen] = 0.0
    surprise = -share * np.log(np.where(share > 0, share, 1.0))
    return Posterior(
        share,
        chosen,
        best,
        best - np.maximum.reduceat(others, starts),
        np.add.reduceat(surprise, starts),
    )


class ObjectTally:
    """Largest responsibility and number of choices of objects over the groups that hold them.

    `n_objects`: how many objects there are.
    """

    def __init__(self, n_objects: int) -> None:
        self._responsibility = np.zeros(n_objects)
        self._times_chosen = np.zeros(n_objects, dtype=np.int64)

    def add(self, objects: IntArray, found: Posterior) -> None:
        """Add groups with these objects, one group after the other."""
        np.maximum.at(self._responsibility, objects, found.responsibility)
        np.add.at(self._times_chosen, objects[found.chosen], 1)

    def columns(self) -> Columns:
        """Return the largest responsibility of each object and how often it was chosen."""
        return {"responsibility": self._responsibility, "times_chosen": self._times_chosen}


def choice_columns(found: Posterior, starts: IntArray, log_weight: FloatArray) -> Columns:
    """Return the columns about the object chosen in each group."""
    return {
        "chosen": found.chosen - starts,
        "probability": found.probability,
        "margin": found.margin,
        "entropy": found.entropy,
        "weight": np.exp(log_weight[found.chosen]),
    }


def class_columns(classes: NDArray[Any], class_names: list[str]) -> IntArray:
    """Return the column of a fitted model for each class of a data set.

    A model trained on names knows classes by name; one trained on a 0/1 matrix, as in a
    cross-fit, numbers them in the order of the data, whatever they are called.
    """
    from groupnoise.exceptions import UnknownTargetError

    if classes.dtype.kind in "iu" and classes.tolist() == list(range(len(class_names))):
        return np.arange(len(class_names))
    known = {str(label): column for column, label in enumerate(classes.tolist())}
    missing = [name for name in class_names if name not in known]
    if not missing:
        return np.array([known[name] for name in class_names])
    raise UnknownTargetError(
        f"the model does not know the class {missing[0]!r} of the data; audit with a model that "
        "was fitted on the same classes, or cross-fit."
    )


LARGEST_BYTES = 200_000
"""Larger files are shown as thumbnails, so that pages stay small."""
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
"""Signatures of picture formats; suffixes are not trusted."""


def picture_of_array(image: FloatArray) -> str:
    """Return a small picture as a data address, with darkness as opacity."""
    darkness = np.rint(np.clip(image, 0.0, 1.0) * 255).astype(np.uint8)
    return data_address(encode_png(np.stack([np.zeros_like(darkness), darkness], axis=-1)))


def picture_of_file(path: Path) -> str:
    """Return the picture in a file as a data address, as a thumbnail if it is large."""
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
    """Pictures and texts to show, by instance (bags), row (candidates) or item (clicks).

    `arrays` (n, height, width): darkness in [0, 1].
    `files`: the picture files of each; some may have none.
    `texts`: a text or title of each.
    """

    arrays: FloatArray | None = None
    files: Sequence[Sequence[Path]] | None = None
    texts: Sequence[str] | None = None

    @classmethod
    def of_dataset(cls, dataset: Any) -> Attachments:
        """Return the pictures or item titles of a data set."""
        return cls(arrays=getattr(dataset, "images", None), texts=getattr(dataset, "titles", None))

    def pictures(self, number: int) -> list[str]:
        """Return the pictures of an entry as data addresses; files take precedence over arrays."""
        if self.files is not None:
            return [picture_of_file(path) for path in self.files[number]]
        if self.arrays is not None:
            return [picture_of_array(self.arrays[number])]
        return []

    def text(self, number: int) -> str:
        """Return the text of an entry, empty if it has none."""
        return "" if self.texts is None else str(self.texts[number])


def read_row_attachments(
    table: Table, rows: IntArray, *, images: Sequence[str] = (), text: str | None = None
) -> Attachments:
    """Return the pictures and texts of instances of bags, or of candidate rows."""
    _check_columns(table.origin, table.frame, images, text)
    return _attach(Path(table.origin).parent, table.frame[rows], images, text)


def read_item_attachments(
    path: Path | str, item_ids: NDArray[Any], *, images: Sequence[str] = (), text: str | None = None
) -> Attachments:
    """Read the pictures and titles of items from a table of items, whose first column is the id."""
    frame = read_table(path).frame
    _check_columns(path, frame, images, text)
    row_of = {str(item): row for row, item in enumerate(frame.to_series(0).to_list())}
    rows = [row_of.get(str(item), frame.height) for item in item_ids.tolist()]
    if min(rows) == frame.height:
        raise DataError(f"no id in the first column of {path} is an item of the data.")
    unlisted = frame.clear(1)  # a row of empty cells
    return _attach(Path(path).parent, frame.vstack(unlisted)[rows], images, text)


def _check_columns(path: Path | str, frame: Any, images: Sequence[str], text: str | None) -> None:
    for column in [*images, *([text] if text else [])]:
        check_column(column, frame.columns, str(path), "to show")


def _attach(folder: Path, frame: Any, images: Sequence[str], text: str | None) -> Attachments:
    files = [
        [folder / cell for cell in row if cell] for row in frame.select(list(images)).iter_rows()
    ]
    texts = [cell or "" for cell in frame[text].to_list()] if text else None
    return Attachments(files=files if images else None, texts=texts)


class Picture(NamedTuple):
    """Bytes and media type of a picture."""

    content: bytes
    media_type: str


def read_picture(path: Path) -> Picture:
    """Read a picture file, refusing other files."""
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
    """Return the columns of picture paths: those named, or with picture suffixes in all cells."""
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
