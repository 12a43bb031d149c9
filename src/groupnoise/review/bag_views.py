"""What is shown of the objects of a bag: cells of a table, tiles, sentences, or where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from groupnoise.audit.attachments import (
    Picture,
    picture_columns,
    picture_of_array,
    picture_paths,
    read_picture,
)
from groupnoise.bags.heatmap.sources import Sources, find_sources, thumbnail
from groupnoise.bags.object_answers import STRETCH
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BagDataset
from groupnoise.io.tables import Table
from groupnoise.review.questions import shown

MAX_CELLS = 12
"""Cells of an object that are shown."""


class BagViews:
    """What people see of bags and their objects.

    `dataset`: the bags.
    `sources`: the pictures, texts or recordings that objects were cut from.
    `table`: the table that the bags were read from: one row per object.
    `pictures`: columns of the table that hold picture paths; by default those whose cells end like
        one.
    """

    def __init__(
        self,
        dataset: BagDataset,
        *,
        sources: Sources | None = None,
        table: Table | None = None,
        pictures: str | None = None,
    ) -> None:
        self._dataset, self._sources = dataset, sources or Sources()
        ids: Sequence[Any] = (
            range(len(dataset.bags)) if dataset.bag_ids is None else dataset.bag_ids.tolist()
        )
        self.bag_ids = [str(each) for each in ids]
        self._table = None if dataset.source_rows is None else table
        self._paths: list[list[Path]] | None = None
        self._columns: list[str] = []
        if self._table is not None:
            named = picture_columns(self._table, pictures)
            folder = Path(self._table.origin).parent
            if named:
                self._paths = picture_paths(self._table.frame, named, folder)
            self._columns = _told(self._table, dataset.columns or {}, named)

    @classmethod
    def of(
        cls, dataset: BagDataset, data: str, table: Table | None, pictures: str | None
    ) -> BagViews:
        """Return the views of bags that were read from a file or a folder."""
        sources = find_sources(data, None) if Path(data).is_dir() else None
        return cls(dataset, sources=sources, table=table, pictures=pictures)

    def _row(self, bag: int, position: int) -> int:
        assert self._dataset.source_rows is not None
        return int(self._dataset.source_rows[self._dataset.bags.offsets[bag] + position])

    def bag_cells(self, bag: int) -> dict[str, str]:
        """Return what is told of a bag as a whole."""
        text = self._sources.text(self.bag_ids[bag])
        return {} if text is None else {"text": shown(text)}

    def bag_pictures(self, bag: int) -> list[str]:
        """Return the picture that a bag was cut from, as an address."""
        pixels = self._sources.picture(self.bag_ids[bag])
        return [] if pixels is None else [thumbnail(pixels)]

    def object_view(self, bag: int, position: int, question: int) -> dict[str, Any]:
        """Return what is shown of an object: `text`, and the address of a `picture`."""
        view: dict[str, Any] = {}
        text = self._text(bag, position)
        if text:
            view["text"] = text
        picture = self._picture(bag, position, question)
        if picture:
            view["picture"] = picture
        return view

    def _text(self, bag: int, position: int) -> str:
        if self._table is not None:
            row = self._row(bag, position)
            cells = ((name, self._table.frame[name][row]) for name in self._columns)
            return "; ".join(f"{name}: {shown(cell)}" for name, cell in cells if cell is not None)
        where = self._dataset.coordinates
        if where is None:
            return ""
        at = where[self._dataset.bags.offsets[bag] + position]
        names = self._dataset.coordinate_names or ()
        if names == STRETCH:
            text = self._sources.text(self.bag_ids[bag])
            if text is not None:
                return text[int(at[0]) : int(at[1])]
            return f"{at[0]:g} to {at[1]:g}"
        return ", ".join(f"{name} {value:g}" for name, value in zip(names, at, strict=False))

    def _picture(self, bag: int, position: int, question: int) -> str:
        flat = self._dataset.bags.offsets[bag] + position
        if self._paths is not None and self._paths[self._row(bag, position)]:
            return f"/v1/picture/{question}/{position}"
        if self._dataset.images is not None:
            return picture_of_array(self._dataset.images[flat])
        where = self._dataset.coordinates
        if where is not None and where.shape[1] == 2 and self._sources.kind == "pictures":
            return self._sources.tile(self.bag_ids[bag], *where[flat])
        return ""

    def object_picture(self, bag: int, position: int) -> Picture:
        """Return the picture file that the table names for an object."""
        size = int(self._dataset.bags.sizes[bag])
        if self._paths is None or not 0 <= position < size:
            raise DataError(f"bag {self.bag_ids[bag]} has no picture {position}.")
        files = self._paths[self._row(bag, position)]
        if not files:
            raise DataError(f"bag {self.bag_ids[bag]} has no picture {position}.")
        return read_picture(files[0])


def _told(table: Table, roles: Mapping[str, Any], pictures: Sequence[str]) -> list[str]:
    """Return the columns that tell a person something: text before numbers, roles left out."""
    taken = {*pictures}
    for part, names in roles.items():
        if part != "features":
            taken |= {names} if isinstance(names, str) else set(names or ())
    free = [name for name in table.frame.columns if name not in taken]
    words = [name for name in free if not table.frame.schema[name].is_numeric()]
    return [*words, *(name for name in free if name not in words)][:MAX_CELLS]
