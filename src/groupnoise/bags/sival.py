"""SIVAL: a generated data set like it, with shared scenes, and the reader of its AMIL edition.

As in SIVAL, an instance is a segment of an image. Its 30 features are 3 colour and 3 texture values
and their differences to those of the four neighbours, so they are correlated within an image.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from groupnoise.core.arrays import (
    BoolArray,
    FloatArray,
    IntArray,
    RandomState,
    generator_from,
    offsets_from_sizes,
)
from groupnoise.core.checks import check_count
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, MissingDataError
from groupnoise.io.datasets import BagDataset

N_VALUES = 6
ROWS, COLUMNS = 4, 8
OBJECT_SHAPES = ((1, 3), (2, 2), (2, 3), (3, 2), (2, 4))
MATERIALS_PER_OBJECT = 2
# Chosen so that neighbours behave as in SIVAL: there the nearest segment of another image
# shares the scene in 66 % of the cases and the class in 19 %; here in about 65 % and 16 %.
SURFACES_PER_SCENE = 14
LIGHT_SPREAD = 0.1
"""Standard deviation of the light between images of one scene; that of surfaces is 1."""
SEGMENT_SPREAD = 0.3


def make_sival_like(
    n_images_per_class: int = 60,
    *,
    n_classes: int = 25,
    n_scenes: int = 10,
    random_state: RandomState = None,
) -> BagDataset:
    """Generate bags like SIVAL's: a few segments of an object among the many of a scene.

    Every class is shown in every scene equally often, so the scene is independent of the class, yet
    segments of one scene resemble each other more than segments of one object.

    Result: bags of 31 or 32 instances of 30 features, 3 to 8 of them on the object;
    `instance_labels` is -1 for background. `n_scenes`: backgrounds that all classes share.
    `random_state`: seed of all draws.

    Examples
    --------
    >>> sival = make_sival_like(2, n_classes=3, random_state=0)
    >>> len(sival.bags), sival.bags.objects.shape[1], set(sival.bags.sizes.tolist()) <= {31, 32}
    (6, 30, True)
    """
    check_count("n_images_per_class", n_images_per_class)
    check_count("n_classes", n_classes, least=2)
    check_count("n_scenes", n_scenes)
    generator = generator_from(random_state)
    surfaces = generator.normal(size=(n_scenes, SURFACES_PER_SCENE, N_VALUES))
    materials = generator.normal(size=(n_classes, MATERIALS_PER_OBJECT, N_VALUES))

    n_images = n_images_per_class * n_classes
    order = generator.permutation(n_images)
    image_class = order // n_images_per_class
    image_scene = order % n_images_per_class % n_scenes
    on_object = _place_objects(n_images, generator)  # (images, rows, columns)
    scenery = _paint(surfaces[image_scene], generator)
    objects = _paint(materials[image_class], generator)
    values = np.where(on_object[..., None], objects, scenery)
    values += LIGHT_SPREAD * generator.normal(size=(n_images, 1, 1, N_VALUES))
    values += SEGMENT_SPREAD * generator.normal(size=values.shape)

    n_segments = ROWS * COLUMNS
    features = _with_neighbours(values).reshape(n_images, n_segments, 5 * N_VALUES)
    truth = np.where(on_object.reshape(n_images, n_segments), image_class[:, None], -1)
    kept = _merge_one_segment_of_some(truth, generator)
    return BagDataset(
        name="SIVAL-like",
        bags=Groups(features[kept].astype(np.float32), offsets_from_sizes(kept.sum(axis=1))),
        labels=image_class[:, None] == np.arange(n_classes),
        class_names=[f"object {label + 1}" for label in range(n_classes)],
        instance_labels=truth[kept].astype(np.int64),
    )


def _place_objects(n_images: int, generator: np.random.Generator) -> BoolArray:
    """Return where each image shows its object: a small rectangle of segments."""
    height, width = np.array(OBJECT_SHAPES)[generator.integers(len(OBJECT_SHAPES), size=n_images)].T
    top = generator.integers(ROWS - height, endpoint=True)
    left = generator.integers(COLUMNS - width, endpoint=True)
    rows, columns = np.arange(ROWS), np.arange(COLUMNS)
    in_rows = (rows >= top[:, None]) & (rows < (top + height)[:, None])
    in_columns = (columns >= left[:, None]) & (columns < (left + width)[:, None])
    return in_rows[:, :, None] & in_columns[:, None, :]


def _paint(palettes: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Give each segment of an image one value vector of its palette.

    `palettes` has shape (n_images, n_colours, n_values), the result (n_images, rows, columns,
    n_values).
    """
    n_images, n_colours = palettes.shape[:2]
    colour: IntArray = generator.integers(n_colours, size=(n_images, ROWS, COLUMNS))
    return palettes[np.arange(n_images)[:, None, None], colour]


def _with_neighbours(values: FloatArray) -> FloatArray:
    """Append the differences to the segments above, below, left and right; 0 at the border."""
    padded = np.pad(values, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    neighbours = (
        padded[:, :-2, 1:-1],
        padded[:, 2:, 1:-1],
        padded[:, 1:-1, :-2],
        padded[:, 1:-1, 2:],
    )
    return np.concatenate([values, *(neighbour - values for neighbour in neighbours)], axis=-1)


def _merge_one_segment_of_some(truth: IntArray, generator: np.random.Generator) -> BoolArray:
    """Leave one background segment out of every third image, as SIVAL's segmentation does."""
    kept = np.ones(truth.shape, dtype=bool)
    images = np.flatnonzero(generator.random(len(truth)) < 1 / 3)
    keys = np.where(truth[images] < 0, generator.random((len(images), truth.shape[1])), -1.0)
    kept[images, keys.argmax(axis=1)] = False
    return kept


@dataclass
class _Bag:
    """The segments of one image, by their number, and those that show the object."""

    segments: dict[str, FloatArray] = field(default_factory=dict)
    witnesses: set[str] = field(default_factory=set)
    label: int = -1


def load_amil(name: str, folder: str | Path) -> BagDataset:
    """Join the one-against-rest tasks of an AMIL folder into one multi-class data set.

    Result: bags sorted by id; those without a witness, as their object has no file, are left out.
    `instance_labels` is -1 for segments that do not show the object. `name`: of the data set.
    `folder`: has one `.names` and one `.data` file per object.
    """
    tasks = sorted(Path(folder).glob("*.data"))
    if not tasks:
        raise MissingDataError(
            f"{folder} holds no .data file; put the .names and .data files of AMIL-SIVAL there."
        )
    bags: dict[str, _Bag] = {}
    for label, path in enumerate(tasks):
        _add_task(bags, label, path)
    labelled = {bag_id: bag for bag_id, bag in sorted(bags.items()) if bag.label >= 0}
    if not labelled:
        raise DataError(f"no segment in {folder} is labelled 1, so no bag has a class.")

    rows: list[FloatArray] = []
    instance_labels: list[int] = []
    for bag in labelled.values():
        for segment, features in bag.segments.items():
            rows.append(features)
            instance_labels.append(bag.label if segment in bag.witnesses else -1)
    classes = np.array([bag.label for bag in labelled.values()])
    sizes = [len(bag.segments) for bag in labelled.values()]
    return BagDataset(
        name=name,
        bags=Groups(np.stack(rows), offsets_from_sizes(sizes)),
        labels=classes[:, None] == np.arange(len(tasks)),
        class_names=[path.stem for path in tasks],
        instance_labels=np.array(instance_labels, dtype=np.int64),
    )


def _add_task(bags: dict[str, _Bag], label: int, path: Path) -> None:
    """Add the segments of one task, except those that an earlier task had already."""
    n_features = _declared_features(path.with_suffix(".names"))
    seen: set[tuple[str, str]] = set()
    for line_number, line in enumerate(_lines(path), start=1):
        if not line.strip():
            continue
        place = f"{path} line {line_number}"
        cells = [cell.strip() for cell in line.strip().rstrip(".").split(",")]
        if len(cells) != n_features + 3:
            raise DataError(
                f"{place} has {counted(len(cells), 'values')} where {n_features + 3} are declared "
                f"(bag, segment, {counted(n_features, 'features')}, label)."
            )
        bag_id, segment, *values, is_witness = cells
        if is_witness not in {"0", "1"}:
            raise DataError(f"{place} ends with {is_witness!r}, not with 0 or 1.")
        if (bag_id, segment) in seen:
            raise DataError(f"{place} gives segment {segment} of bag {bag_id} a second time.")
        seen.add((bag_id, segment))
        bag = bags.setdefault(bag_id, _Bag())
        if segment not in bag.segments:
            bag.segments[segment] = _numbers(values, place)
        if is_witness == "1":
            if bag.label not in (-1, label):
                raise DataError(
                    f"{place} gives bag {bag_id} a second class; it has a witness in another file."
                )
            bag.label = label
            bag.witnesses.add(segment)


def _declared_features(path: Path) -> int:
    """Count the columns a `.names` file declares as continuous."""
    if not path.is_file():
        raise MissingDataError(f"{path} is missing; each .data file needs its .names file.")
    declarations = [line.split("|")[0] for line in _lines(path)]
    n_features = sum(bool(re.search(r":\s*continuous", line)) for line in declarations)
    if n_features == 0:
        raise DataError(f"{path} declares no continuous column, so there are no features.")
    return n_features


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}."
        ) from None


def _numbers(values: list[str], place: str) -> FloatArray:
    try:
        return np.array(values, dtype=np.float64)
    except ValueError as error:
        raise DataError(f"{place} holds a feature that is no number: {error}.") from None
