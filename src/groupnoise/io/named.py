"""Loading named data sets from their original files.

The files are fixed and have known checksums, so numpy and scipy suffice; files of users are read by
the readers of each room.
"""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.digits import (
    NONSENSE_TEXT,
    WALK_TEXT,
    draw_letter_words,
    load_digit_bags,
    words_of,
)
from groupnoise.bags.sival import load_amil, make_sival_like
from groupnoise.candidates.synthetic import load_digit_candidates
from groupnoise.clicks.shop import make_shop
from groupnoise.core.arrays import FloatArray, IntArray, RandomState, offsets_from_sizes
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError, GroupNoiseError
from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset
from groupnoise.io.registry import find_dataset, locate_dataset


def load_bags_npz(path: Path) -> BagDataset:
    """Read `X`, `bag` (rows ordered by bag), `bag_label` or `bag_labels`, `instance_label`."""
    arrays = _read_npz(path)
    # Sets of two classes name them by their sign.
    class_names = [str(name) for name in arrays.get("class_names", ("negative", "positive"))]
    if "bag_labels" in arrays:
        labels = arrays["bag_labels"].astype(bool)
        class_names = (
            class_names
            if len(class_names) == labels.shape[1]
            else [str(number) for number in range(labels.shape[1])]
        )
    else:
        labels = arrays["bag_label"][:, None] == np.arange(len(class_names))
    truth = arrays.get("instance_label")
    sizes = np.bincount(arrays["bag"], minlength=len(labels))
    return BagDataset(
        name=path.stem,
        bags=Groups(arrays["X"], offsets_from_sizes(sizes)),
        labels=labels,
        class_names=class_names,
        # A novel class, which no bag is labelled with, is background.
        instance_labels=None
        if truth is None
        else np.where(truth < len(class_names), truth, -1).astype(np.int64),
    )


def load_candidates_mat(path: Path) -> PartialLabelDataset:
    """Read `data`, `target` and `partial_target`, with labels along either axis."""
    from groupnoise.candidates.reading import (
        read_candidates,  # loads polars, which others do without
    )

    return read_candidates(path)


def load_clicks(path: Path, items_path: Path | None = None) -> ClickDataset:
    """Read `user item` lines in time order, and titles from a table with a header."""
    words = _read_text(path).split()
    try:
        pairs = np.array(words, dtype=np.int64).reshape(-1, 2)
    except ValueError:
        raise DataError(f"{path} must hold two whole numbers per line, user and item.") from None
    clicks = _histories(path.stem, pairs[:, 0], pairs[:, 1])
    if items_path is None:
        return clicks
    header, *lines = _read_text(items_path).splitlines()
    columns = header.split("\t")
    table = (line.split("\t") for line in lines)
    rows = {cells[0]: dict(zip(columns, cells, strict=True)) for cells in table}
    known = [rows.get(str(item), {}) for item in clicks.item_ids]
    category = next((name for name in ("genres", "attributes", "brand") if name in columns), "")
    return replace(
        clicks,
        titles=[row.get("title", "") for row in known],
        categories=[row.get(category, "").replace("|", ", ") for row in known],
    )


def load_movietweetings(path: Path, movies_path: Path | None = None) -> ClickDataset:
    """Read `user::movie::rating::time` lines; clicks of a user are put in order of time."""
    table = np.array([line.split("::") for line in _read_text(path).splitlines()])
    user, movie, _, timestamp = table.T
    order = np.lexsort((timestamp.astype(np.int64), user.astype(np.int64)))
    clicks = _histories(path.stem, user[order].astype(np.int64), movie[order])
    clicks = replace(clicks, timestamps=timestamp[order].astype(np.int64))
    if movies_path is None:
        return clicks
    lines = (line.split("::") for line in _read_text(movies_path).splitlines())
    movies = {number: (name, genres) for number, name, genres in lines}
    known = [movies.get(str(item), ("", "")) for item in clicks.item_ids]
    return replace(
        clicks,
        titles=[name for name, _ in known],
        categories=[genres.replace("|", ", ") for _, genres in known],
    )


def _histories(name: str, users: IntArray, items: NDArray[Any]) -> ClickDataset:
    """Group clicks, each user's in order, by user."""
    item_ids, item_index = np.unique(items, return_inverse=True)
    histories, user_ids = Groups.from_rows(item_index.astype(np.int64), users)
    return ClickDataset(
        name=name,
        histories=histories,
        item_ids=item_ids,
        user_ids=user_ids,
        notes={"rows_read": len(items)},
    )


def load_letter_words(path: Path, *, text: str, random_state: RandomState) -> BagDataset:
    """Draw the words of a text from a pool file: a header, then `letter,16 numbers` lines."""
    features, letters = read_letters(path)
    return draw_letter_words(words_of(text), features, letters, random_state=random_state)


def read_letters(path: Path) -> tuple[FloatArray, IntArray]:
    """Return the features and the letters, A is 0, of a pool file."""
    rows = [line.split(",") for line in _read_text(path).splitlines()[1:]]
    letters = np.array([ord(row[0]) - ord("A") for row in rows], dtype=np.int64)
    return np.array([row[1:] for row in rows], dtype=np.float64), letters


def _read_text(path: Path) -> str:
    try:
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        text = content.decode("utf-8")
    except (EOFError, OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from None
    if not text.strip():
        raise DataError(f"{path} is empty.")
    return text


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return dict(archive)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is not a complete .npz archive: {error}.") from None


Dataset = BagDataset | PartialLabelDataset | ClickDataset

_READ: dict[str, Callable[..., Dataset]] = {
    "amil": partial(load_amil, "SIVAL"),
    "bags-npz": load_bags_npz,
    "candidates-mat": load_candidates_mat,
    "clicks": load_clicks,
    "movietweetings": load_movietweetings,
}
"""Called with the path of each file."""

_DRAWN: dict[str, Callable[..., Dataset]] = {
    "digit-bags": load_digit_bags,
    "digit-candidates": load_digit_candidates,
    "letter-nonsense": partial(load_letter_words, text=NONSENSE_TEXT),
    "letter-walk": partial(load_letter_words, text=WALK_TEXT),
    "shop": make_shop,
    "sival-like": make_sival_like,
}
"""Called with the path of each file, if any, and `random_state`."""


def load_dataset(
    name: str,
    *,
    data_dir: str | Path | None = None,
    verify: bool = True,
    random_state: RandomState = 0,
) -> Dataset:
    """Load a data set of the registry.

    Parameters
    ----------
    name : str
        Its name or an alias; `list_datasets` has them all.
    data_dir : path, optional
        Searched before `GROUPNOISE_DATA` and the user's cache.
    verify : bool, default=True
        Compare each file with its known checksum first.
    random_state : int, numpy generator or None, default=0
        Decides what is drawn in the sets that are drawn or generated.

    Returns
    -------
    BagDataset, PartialLabelDataset or ClickDataset
        By the setting of the set.

    Raises
    ------
    MissingDataError
        If a file is not there; the message says what to get, from where, and where to put it.
    DataError
        If a file is not what it should be.

    Examples
    --------
    >>> len(load_dataset("digit-bags").bags)
    300
    """
    entry = find_dataset(name)
    paths = locate_dataset(entry, data_dir, verify=verify)
    load = _READ.get(entry.form) or partial(_DRAWN[entry.form], random_state=random_state)
    try:
        dataset = load(*paths)
    except GroupNoiseError:
        raise
    except (ValueError, LookupError) as error:
        raise DataError(
            f"{paths[0]} is not of the form in which {entry.title} comes: {error!r}."
        ) from None
    return replace(dataset, name=entry.title)
