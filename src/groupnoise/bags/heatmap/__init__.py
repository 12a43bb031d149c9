"""The page of heat maps: a card per bag and a gallery per class, in one self-contained file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.embedding.sources import Sources, thumbnail
from groupnoise.bags.object_predictions import INTERVAL, ObjectPredictions, grid_spacing
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.io.datasets import BagDataset
from groupnoise.pages import data_address, encode_png, render_page

VALUES = ("probability", "responsibility")
NO_LABEL = "no label"
"""Shown for a bag without labels."""
MAX_CLASSES = 8
"""With more classes, a card shows only the true and the predicted ones."""
MAX_TEXT = 20_000
"""Maximum characters of a text on a card."""
SUMMARY = 160
"""Maximum characters of a sentence in the gallery."""
COLOUR = (214, 56, 32)
MIN_OPACITY, MAX_OPACITY = 16, 190
MAX_CELLS = 1000
"""Maximum cells along a side; objects of finer grids share cells, which show the highest value."""
N_BINS = 600
"""Cells of a timeline."""


@dataclass(frozen=True)
class Layer:
    """A picture of the values of one class, laid over a bag."""

    value: str
    label: int
    address: str


@dataclass(frozen=True)
class Span:
    """A piece of a text with its values by class; text between sentences has no values."""

    text: str
    probability: list[float] = field(default_factory=list)
    responsibility: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class BagCard:
    """The card of a bag.

    `name`, `given`, `predicted`: its id, its labels ("" if unknown), and its predicted labels.
    `scores`: the highest probability of each class among its objects.
    `form`: "plane", "line" or "text".
    `own`: the class shown first: that of its first label, or the predicted one; where no object can
        have these, the most probable other one.
    `picture`: address of the picture below the layers, "" for none.
    `box`: left, top, width and height of the layers in per cent.
    `begin`, `end`: captions at both ends of a line.
    """

    name: str
    given: str
    predicted: str
    is_wrong: bool
    n_objects: int
    scores: list[float]
    form: str
    own: int = 0
    picture: str = ""
    aspect: float = 1.0
    box: list[float] = field(default_factory=lambda: [0.0, 0.0, 100.0, 100.0])
    layers: list[Layer] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    begin: str = ""
    end: str = ""


@dataclass(frozen=True)
class Shown:
    """One object of the gallery."""

    bag: str
    position: str
    probability: float
    address: str = ""
    text: str = ""


def make_card(
    bag: int, answers: ObjectPredictions, dataset: BagDataset, sources: Sources
) -> BagCard:
    """Return the card of a bag."""
    part = answers.part(bag)
    name, predicted = answers.bag_ids[bag], answers.predicted[bag]
    given = ""
    if dataset.class_names:
        given = ";".join(np.array(dataset.class_names)[dataset.labels[bag]].tolist()) or NO_LABEL
    names = answers.class_names
    probability, responsibility = answers.probability[part], answers.responsibility[part]
    # Relative to the highest of the bag, so that small ones are visible.
    responsibility = responsibility / np.maximum(responsibility.max(axis=0), 1e-12)
    scores = probability.max(axis=0)
    own = [*given.split(";"), *predicted.split(";")]
    likeliest = np.argsort(-scores, kind="stable").tolist()
    carried = {names[k]: k for k in likeliest if names[k] != answers.negative}
    first = carried[next((each for each in own if each in carried), next(iter(carried)))]
    labels = [
        k
        for k, label in enumerate(names)
        if len(names) <= MAX_CLASSES or label in own or k == first
    ]
    card = BagCard(
        name=name,
        given=given,
        predicted=predicted,
        is_wrong=_is_wrong(bag, answers, dataset),
        n_objects=part.stop - part.start,
        scores=[round(float(value), 4) for value in scores],
        form="plane" if answers.is_placed else "line",
        own=first,
    )
    values = {"probability": probability, "responsibility": responsibility}
    positions = None if answers.coordinates is None else answers.coordinates[part]
    text = sources.text(name)
    if text is not None and answers.coordinate_names == INTERVAL and positions is not None:
        return replace(card, form="text", spans=_spans(text, positions, values))
    if positions is not None and answers.is_placed:
        return _on_plane(card, positions, values, labels, sources)
    if answers.coordinate_names != INTERVAL or positions is None:
        layers = _layers(values, labels, lambda each: paint_timeline(None, each, 1.0))
        end = f"object {card.n_objects - 1}"
        return replace(card, aspect=12.0, layers=layers, begin="object 0", end=end)
    picture, length = sources.sound(name)
    length = max(float(positions.max()), length, 1e-9)  # its end may be background
    layers = _layers(values, labels, lambda each: paint_timeline(positions, each, length))
    unit = " s" if picture else ""
    card = replace(card, picture=picture, begin=f"0{unit}", end=f"{length:.4g}{unit}")
    return replace(card, aspect=12.0, layers=layers)


def _layers(
    values: dict[str, FloatArray], labels: list[int], paint: Callable[[FloatArray], Any]
) -> list[Layer]:
    return [
        Layer(kind, label, data_address(encode_png(paint(found[:, label]))))
        for kind, found in values.items()
        for label in labels
    ]


def _on_plane(
    card: BagCard,
    positions: FloatArray,
    values: dict[str, FloatArray],
    labels: list[int],
    sources: Sources,
) -> BagCard:
    grid: Grid = lay_on_grid(positions, size=sources.size)
    layers = _layers(values, labels, grid.paint)
    pixels: NDArray[np.uint8] | None = sources.picture(card.name)
    extent = sources.extent(card.name)
    left, top, width, height = grid.box
    if pixels is None or extent is None or not sources.holds(card.name, positions):
        return replace(card, aspect=width / height, layers=layers)
    across, down = extent
    box = [100 * left / across, 100 * top / down, 100 * width / across, 100 * height / down]
    return replace(
        card,
        picture=thumbnail(pixels),
        aspect=across / down,
        box=[round(value, 4) for value in box],
        layers=layers,
    )


def _spans(text: str, positions: FloatArray, values: dict[str, FloatArray]) -> list[Span]:
    """Return the text in pieces: sentences with their values, and the text between them."""
    spans, last = [], 0
    for row, (begin, end) in enumerate(positions.astype(int).tolist()):
        if end > MAX_TEXT:
            spans.append(Span(" …"))
            break
        if begin > last:
            spans.append(Span(text[last:begin]))
        figures = {name: found[row].round(3).tolist() for name, found in values.items()}
        spans.append(Span(text[begin:end], figures["probability"], figures["responsibility"]))
        last = end
    return spans


def make_gallery(
    label: int, n_shown: int, answers: ObjectPredictions, dataset: BagDataset, sources: Sources
) -> tuple[list[Shown], list[Shown]]:
    """Return the most probable objects of a class, and the least probable ones in its bags.

    `label`: index of the class. `n_shown`: how many of each. `answers`: the predictions. `dataset`:
    the bags; without known labels, the least probable objects come from all bags. `sources`: the
    raw files.
    """
    values = answers.probability[:, label]
    bag_of_object = np.repeat(np.arange(len(answers)), np.diff(answers.offsets))
    order: IntArray = np.argsort(-values, kind="stable")
    name = answers.class_names[label]
    last = order[::-1]
    if name in dataset.class_names:
        is_of_class = dataset.labels[:, dataset.class_names.index(name)]
        last = last[is_of_class[bag_of_object[last]]]
    chosen = (order[:n_shown], last[:n_shown])
    top, bottom = (
        [_shown(int(row), int(bag_of_object[row]), values, answers, sources) for row in rows]
        for rows in chosen
    )
    return top, bottom


def _shown(
    row: int, bag: int, values: FloatArray, answers: ObjectPredictions, sources: Sources
) -> Shown:
    name, position = answers.bag_ids[bag], f"object {row - int(answers.offsets[bag])}"
    address = words = ""
    if answers.coordinates is not None:
        where = answers.coordinates[row]
        position = ", ".join(f"{value:g}" for value in where)
        if answers.is_placed:
            address = sources.tile(name, float(where[0]), float(where[1]))
        elif answers.coordinate_names == INTERVAL:
            position = f"{where[0]:g} to {where[1]:g}"
            text = sources.text(name)
            if text is not None:
                words = text[int(where[0]) : int(where[1])][:SUMMARY]
    return Shown(name, position, float(values[row]), address, words)


def heatmap_page(
    answers: ObjectPredictions,
    dataset: BagDataset,
    sources: Sources,
    *,
    max_bags: int = 200,
    n_gallery: int = 10,
    command: str = "",
) -> str:
    """Return heat maps of bags as the text of a page; mistakes come first."""
    shown = range(len(answers))
    if len(answers) > max_bags:
        wrong = [_is_wrong(bag, answers, dataset) for bag in shown]
        first = sorted(shown, key=lambda bag: not wrong[bag])[:max_bags]
        kept = sorted(first)
    else:
        kept = list(shown)
    cards = [make_card(bag, answers, dataset, sources) for bag in kept]
    galleries = [
        (name, *make_gallery(label, n_gallery, answers, dataset, sources))
        for label, name in enumerate(answers.class_names[: 2 * MAX_CLASSES])
    ]
    given = sorted({label for card in cards for label in card.given.split(";") if label})
    return render_page(
        "heatmap.html",
        package="groupnoise.bags.heatmap",
        name=dataset.name,
        n_bags=len(answers),
        n_objects=int(answers.offsets[-1]),
        cards=cards,
        class_names=answers.class_names,
        labels=given,
        values=VALUES,
        galleries=galleries,
        has_labels=bool(dataset.class_names),
        negative=answers.negative,
        command=command,
    )


def _is_wrong(bag: int, answers: ObjectPredictions, dataset: Any) -> bool:
    if not dataset.class_names:
        return False
    given = {
        name for name, has in zip(dataset.class_names, dataset.labels[bag], strict=True) if has
    }
    return given != set(filter(None, answers.predicted[bag].split(";")))


@dataclass(frozen=True)
class Grid:
    """The positions of the objects of a bag on a grid.

    `rows`, `columns`: the cell of each object.
    `shape`: cells down and across.
    `box`: left, top, width and height of the grid in the units of the coordinates.
    """

    rows: IntArray
    columns: IntArray
    shape: tuple[int, int]
    box: tuple[float, float, float, float]

    def paint(self, values: FloatArray) -> NDArray[np.uint8]:
        """Return values from 0 to 1 as RGBA pixels of shape (down, across, 4).

        Higher values are more opaque; cells without an object are transparent.
        """
        cells = np.full(self.shape, -1.0)
        np.maximum.at(cells, (self.rows, self.columns), np.clip(values, 0, 1))
        return colour_cells(cells)


def colour_cells(cells: FloatArray) -> NDArray[np.uint8]:
    """Return cells from 0 to 1 as RGBA pixels; negative ones are transparent."""
    pixels = np.zeros((*cells.shape, 4), dtype=np.uint8)
    is_there = cells >= 0
    pixels[is_there, :3] = COLOUR
    opacity = MIN_OPACITY + (MAX_OPACITY - MIN_OPACITY) * cells[is_there]
    pixels[is_there, 3] = np.rint(opacity).astype(np.uint8)
    return pixels


def lay_on_grid(coordinates: FloatArray, *, size: float | None = None) -> Grid:
    """Return a grid of the objects in a plane, with cells as wide as the objects are apart.

    `coordinates` (n_objects, 2): upper left corners. `size`: the width of objects; where they
    overlap, a cell is the middle of its object.
    """
    across, down = grid_spacing(coordinates)
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
    """Return values along a line as RGBA pixels of shape (1, n_cells, 4).

    Where objects overlap, the highest value is shown. `stretches` (n_objects, 2): where each object
    begins and ends; by default one cell each, in their order. `length`: where the line ends.
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
