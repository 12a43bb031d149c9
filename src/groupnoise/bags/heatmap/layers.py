"""One pixel per object: values laid out on a grid, or along a line, as a picture to lay over."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.object_answers import spacing_of
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.pages.render import data_address, encode_png

COLOUR = (214, 56, 32)
MIN_OPACITY, MAX_OPACITY = 16, 190
MAX_CELLS = 1000
"""Cells along a side; finer grids share cells, in which the highest value counts."""
N_BINS = 600
"""Cells of a timeline."""


@dataclass(frozen=True)
class Grid:
    """Where the objects of a bag lie on a grid.

    `rows`, `columns`: the cell of each object.
    `shape`: cells down and across.
    `box`: left, top, width and height of the grid in the units of the coordinates.
    """

    rows: IntArray
    columns: IntArray
    shape: tuple[int, int]
    box: tuple[float, float, float, float]

    def paint(self, values: FloatArray) -> NDArray[np.uint8]:
        """Return values from 0 to 1 as pixels; cells without an object are clear.

        Of shape (down, across, 4): the stronger a value, the less can be seen through.
        """
        cells = np.full(self.shape, -1.0)
        np.maximum.at(cells, (self.rows, self.columns), np.clip(values, 0, 1))
        return colour_cells(cells)


def colour_cells(cells: FloatArray) -> NDArray[np.uint8]:
    """Return cells from 0 to 1 as pixels; negative ones are clear."""
    pixels = np.zeros((*cells.shape, 4), dtype=np.uint8)
    is_there = cells >= 0
    pixels[is_there, :3] = COLOUR
    opacity = MIN_OPACITY + (MAX_OPACITY - MIN_OPACITY) * cells[is_there]
    pixels[is_there, 3] = np.rint(opacity).astype(np.uint8)
    return pixels


def lay_on_grid(coordinates: FloatArray, *, size: float | None = None) -> Grid:
    """Return the cells of objects in a plane.

    As fine as the objects are apart. `coordinates` (n_objects, 2): upper left corners. `size`: how
    wide objects are; where they overlap, the cell is the middle of each.
    """
    across, down = spacing_of(coordinates)
    if size is not None and len(np.unique(coordinates, axis=0)) == 1:
        across = down = size
    first = coordinates.min(axis=0)
    span = coordinates.max(axis=0) - first
    across, down = (
        max(step, length / (MAX_CELLS - 1))
        for step, length in zip((across, down), span, strict=True)
    )
    columns = np.rint((coordinates[:, 0] - first[0]) / across).astype(np.int64)
    rows = np.rint((coordinates[:, 1] - first[1]) / down).astype(np.int64)
    shape = (int(rows.max()) + 1, int(columns.max()) + 1)
    shift = [0.0 if size is None else max(0.0, (size - step) / 2) for step in (across, down)]
    box = (first[0] + shift[0], first[1] + shift[1], shape[1] * across, shape[0] * down)
    return Grid(rows, columns, shape, (float(box[0]), float(box[1]), float(box[2]), float(box[3])))


def paint_timeline(
    stretches: FloatArray | None, values: FloatArray, length: float
) -> NDArray[np.uint8]:
    """Return values along a line, one pixel high.

    Of shape (1, n_cells, 4): where objects overlap, the highest value counts. `stretches`
    (n_objects, 2): where each begins and ends; by default one cell each, in their order. `length`:
    where the line ends.
    """
    clipped = np.clip(values, 0, 1)
    if stretches is None:
        n_cells = min(len(values), MAX_CELLS)
        cells = np.full((1, n_cells), -1.0)
        np.maximum.at(cells[0], np.arange(len(values)) * n_cells // len(values), clipped)
        return colour_cells(cells)
    cells = np.full((1, N_BINS), -1.0)
    edges = np.rint(stretches * (N_BINS / length)).astype(int)
    for (begin, end), value in zip(edges.tolist(), clipped.tolist(), strict=True):
        part = cells[0, begin : max(end, begin + 1)]
        np.maximum(part, value, out=part)
    return colour_cells(cells)


def address_of(pixels: NDArray[np.uint8]) -> str:
    """Return pixels as the address of an image."""
    return data_address(encode_png(pixels))
