"""Predictions for every object of every bag, as tables and as one file per bag."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.bags.reading.labels import get_known_labels
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import check_choice, require
from groupnoise.core.groups import Groups
from groupnoise.core.streamed_groups import apply_in_blocks
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BagDataset
from groupnoise.io.folders.data_folder import new_data_folder

INTERVAL = ("begin", "end")
"""Coordinate names of intervals in recordings and texts, as opposed to places in pictures."""
FORMS = ("csv", "h5", "geojson")
BACKGROUND = "background"


@dataclass(frozen=True)
class ObjectPredictions:
    """Predictions for the objects of bags.

    `bag_ids`: what the bags are called.
    `offsets`: where the objects of each bag begin.
    `class_names`: the classes of the model.
    `probability` (n_objects, n_classes): p(class | object, its bag); with the background they sum
        to one.
    `background`: p(background | object, its bag): of no class at all. Zero for models that know no
        background.
    `responsibility` (n_objects, n_classes): how much of a class each object carries in its bag;
        sums to one over the bag.
    `answered`: the column of the class answered of each object, that after the last of background.
    `predicted`: the label of each bag, several joined by `;`, empty where it has none.
    `negative`: the label that no object carries, where there is one.
    `coordinates` (n_objects, n_coordinates): where objects lie.
    `coordinate_names`: what the coordinates are called.
    """

    bag_ids: list[str]
    offsets: IntArray
    class_names: list[str]
    probability: FloatArray
    background: FloatArray
    responsibility: FloatArray
    answered: IntArray
    predicted: list[str]
    negative: str | None = None
    coordinates: FloatArray | None = None
    coordinate_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.bag_ids)

    def labels(self, bag: int) -> list[str]:
        """Return the class that is answered of each object of a bag, or that it is background."""
        names = [*self.class_names, background_name(self.class_names)]
        return [names[each] for each in self.answered[self.part(bag)].tolist()]

    @property
    def is_placed(self) -> bool:
        """Whether objects lie in a plane."""
        return self.coordinate_names is not None and (
            len(self.coordinate_names) == 2 and self.coordinate_names != INTERVAL
        )

    def objects(self, bag: int) -> Iterator[tuple[str, FloatArray, float, FloatArray]]:
        """Yield label, probabilities, that of background and responsibilities of each object."""
        figures = (self.probability, self.background, self.responsibility)
        own = (each[self.part(bag)] for each in figures)
        return zip(self.labels(bag), *own, strict=True)

    def part(self, bag: int) -> slice:
        """Return the objects of a bag."""
        return slice(int(self.offsets[bag]), int(self.offsets[bag + 1]))


def predict_objects(fitted: Any, dataset: BagDataset) -> ObjectPredictions:
    """Predict every object, in the order of the data.

    `fitted`: ours or a baseline, whose responsibilities are its probabilities normalized over each
    bag. `dataset`: labels may be missing.
    """
    bags = dataset.bags
    probability, background = object_probabilities(fitted, bags)
    return ObjectPredictions(
        bag_ids=[str(bag) for bag in dataset.ids.tolist()],
        offsets=bags.offsets,
        class_names=[str(label) for label in fitted.classes_.tolist()],
        probability=probability,
        background=background,
        responsibility=_responsibilities(fitted, dataset, probability),
        answered=predicted_columns(fitted, np.c_[probability, background]),
        predicted=_labels_of_bags(fitted, bags),
        negative=get_known_labels(fitted).negative,
        coordinates=dataset.coordinates,
        coordinate_names=dataset.coordinate_names,
    )


def object_probabilities(fitted: Any, bags: Groups) -> tuple[FloatArray, FloatArray]:
    """Return p(class | object), (n_objects, n_classes), and p(background | object), in its bag.

    Together they sum to one. `fitted`: ours or a baseline, which knows neither bags nor
    background.
    """
    if hasattr(fitted, "background_proba"):
        found = np.asarray(fitted.predict_proba(bags, background=True), dtype=np.float64)
        return found[:, :-1], found[:, -1]
    probability = np.asarray(apply_in_blocks(bags, fitted.predict_proba), dtype=np.float64)
    return probability, np.zeros(len(probability))


def predicted_columns(fitted: Any, proba: FloatArray) -> IntArray:
    """Return which column is answered of each object: of baselines, the likeliest."""
    return getattr(fitted, "answered", lambda each: each.argmax(axis=1))(proba)


def threshold_notes(fitted: Any, bags: Groups, answered: IntArray) -> tuple[str, ...]:
    """Return notes on the instance threshold, and on bags whose label differs from their instances.

    None for baselines, and for models without background. `answered`: predicted column of each
    instance.
    """
    ensemble = getattr(fitted, "ensemble_", None)
    if ensemble is None or not ensemble.is_free:
        return ()
    n_bags, n_classes = len(bags), len(fitted.classes_)
    of_bags = np.asarray(fitted.predict_bags(bags))
    present = of_bags if of_bags.ndim == 2 else of_bags[:, None] == fitted.classes_
    shown = np.zeros((n_bags, n_classes + 1), dtype=bool)
    shown[bags.group_of_object, answered] = True
    named = [column for column in range(n_classes) if column != ensemble.negative]
    beyond, unshown = (
        int(each[:, named].any(axis=1).sum())
        for each in (shown[:, :-1] & ~present, present & ~shown[:, :-1])
    )
    label, notes = "a label", []
    why = "instances get their most likely label, bags all labels that are more likely than not"
    if ensemble.is_binary:
        label = str(fitted.classes_[named[0]])
        why = "for bags the threshold is 0.5"
        to_find = "these are rare, and `fit` chose it for balanced accuracy, to find most of them "
        to_find += "at the price of more false alarms"
        if ensemble.threshold >= 0.5:
            to_find = "`fit` chose it for balanced accuracy"
        notes.append(
            f"an instance is called {label} from a probability of {ensemble.threshold:.2g}: "
            f"{to_find}; use the probabilities to choose another threshold"
        )
    if beyond:
        notes.append(
            f"in {beyond} of {counted(n_bags, 'bags')} an instance is called {label} and its bag "
            f"is not: {why}; no instance has a higher probability of it than its bag"
        )
    if unshown:
        notes.append(
            f"{unshown} of {n_bags} bags are called {label} but none of their instances is: one "
            "probably carries it, but no single one is likely enough"
        )
    return tuple(notes)


def background_name(class_names: Sequence[str]) -> str:
    """Return a name for background that is not a class."""
    return "(background)" if BACKGROUND in class_names else BACKGROUND


def predict_bags_table(fitted: Any, dataset: BagDataset) -> dict[str, list[Any]]:
    """Return the predicted labels and the probabilities of each bag, as columns of a table."""
    bags, ids = dataset.bags, dataset.ids.tolist()
    columns: dict[str, list[Any]] = {"bag": ids, "labels": _labels_of_bags(fitted, bags)}
    for label, values in zip(
        fitted.classes_.tolist(), bag_probabilities(fitted, bags).T, strict=True
    ):
        columns[f"probability_{label}"] = values.tolist()
    return columns


def bag_probabilities(fitted: Any, bags: Groups) -> FloatArray:
    """Return P(class | bag), (n_bags, n_classes), of any bag classifier."""
    names = ("bag_proba", "bag_scores", "predict_proba")
    of_bags = next(getattr(fitted, name) for name in names if hasattr(fitted, name))
    return np.asarray(of_bags(bags), dtype=np.float64)


def _labels_of_bags(fitted: Any, bags: Groups) -> list[str]:
    """Return the predicted label of each bag; several are joined by `;`, none is ""."""
    labels = np.asarray(fitted.predict_bags(bags))
    if labels.ndim == 1:
        return [str(label) for label in labels.tolist()]
    words = np.array([str(label) for label in fitted.classes_.tolist()])
    return [";".join(words[row.astype(bool)]) for row in labels]


def top_objects(
    answers: ObjectPredictions, dataset: BagDataset, top: int = 1
) -> dict[str, list[Any]]:
    """Return the most responsible objects for the labels of each bag, as columns of a table.

    Bag, label, rank, row (of the source, or in the file of the bag), responsibility, probability
    and coordinates. A bag of the negative label, or of none, has one line whose other cells are
    empty. `dataset`: the same bags; without labels, the predicted ones are used.
    """
    names = list(answers.class_names)
    known = {name: k for k, name in enumerate(dataset.class_names) if name in names}
    columns: dict[str, list[Any]] = {
        name: [] for name in ("bag", "label", "rank", "row", "responsibility", "probability")
    }
    places = () if answers.coordinate_names is None else answers.coordinate_names
    columns.update({name: [] for name in places})
    for number, bag in enumerate(answers.bag_ids):
        part = answers.part(number)
        asked = [label for label, k in known.items() if dataset.labels[number, k]]
        if not asked and (not known or dataset.labels[number].any()):
            asked = [label for label in answers.predicted[number].split(";") if label]
        if not set(asked) - {answers.negative}:
            for name, cells in columns.items():
                cells.append({"bag": bag, "label": next(iter(asked), "")}.get(name))
            continue
        for label in asked:
            column = names.index(label)
            order = np.argsort(-answers.responsibility[part, column], kind="stable")[:top]
            for rank, at in enumerate(order.tolist(), start=1):
                row = part.start + at
                source = at if dataset.source_rows is None else int(dataset.source_rows[row])
                cells = [bag, label, rank, source]
                cells += [float(answers.responsibility[row, column])]
                cells += [float(answers.probability[row, column])]
                if answers.coordinates is not None:
                    cells += answers.coordinates[row].tolist()
                for name, cell in zip(columns, cells, strict=True):
                    columns[name].append(cell)
    return columns


def _responsibilities(fitted: Any, dataset: BagDataset, probability: FloatArray) -> FloatArray:
    """Return the responsibility of objects for the classes of their bag, (n_objects, n_classes)."""
    bags = dataset.bags
    if not hasattr(fitted, "select") or hasattr(fitted, "disambiguate"):
        # Uniform if no object of a bag has any probability of a class.
        kept = probability + 1e-12
        total = np.add.reduceat(kept, bags.offsets[:-1], axis=0)
        return kept / total[bags.group_of_object]
    from groupnoise.audit.evidence import object_posterior

    found = np.empty_like(probability)
    for column, label in enumerate(fitted.classes_):
        selected = fitted.select(bags, np.repeat(label, len(bags)))
        found[:, column] = object_posterior(selected.scores, selected.offsets).responsibility
    return found


def grid_spacing(coordinates: FloatArray) -> tuple[float, float]:
    """Return the horizontal and vertical spacing of objects on a grid; 1 if undetermined.

    The minimum distance between distinct values of each of the `coordinates` (n_objects, 2).

    Examples
    --------
    >>> grid_spacing(np.array([[0.0, 0.0], [256.0, 0.0], [768.0, 512.0]]))
    (256.0, 512.0)
    """
    apart = []
    for values in coordinates.T:
        steps = np.diff(np.unique(values))
        apart.append(float(steps[steps > 1e-9].min(initial=np.inf)))
    across, down = (step if np.isfinite(step) else min(apart) for step in apart)
    return (across, down) if np.isfinite(across) else (1.0, 1.0)


def write_object_predictions(
    folder: Path, answers: ObjectPredictions, form: str, *, size: tuple[float, float] | None = None
) -> list[Path]:
    """Write one file per bag.

    `folder`: must not exist; it appears whole or not at all. `answers`: what a model said. `form`
    (one of "csv", "h5", "geojson"): `h5` holds `coords`, `probabilities`, `responsibilities` and
    `labels` of a bag; `geojson` a square per object with its class and measurements, as viewers of
    slides read it. `size`: how wide and high objects are in the units of their coordinates; by
    default as far as they are apart.
    """
    check_choice("form", form, FORMS)
    if form == "h5":
        require("h5py", extra="h5")
    if form == "geojson" and not answers.is_placed:
        raise DataError(
            "objects without coordinates in a plane cannot be written as GeoJSON; write csv or h5."
        )
    for bag in answers.bag_ids:
        place = Path(bag)  # bags of one name lie in folders, as their features do
        if place.as_posix() != bag or place.is_absolute() or {"..", "."} & {*place.parts, bag}:
            raise DataError(f"bag {bag!r} cannot be the name of a file; write one table instead.")
    write = {"csv": _write_csv, "h5": _write_h5, "geojson": _write_geojson}[form]
    with new_data_folder(folder) as building:
        for number, bag in enumerate(answers.bag_ids):
            path = building / f"{bag}.{form}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, answers, number, size)
    return [folder / f"{bag}.{form}" for bag in answers.bag_ids]


def _write_csv(path: Path, answers: ObjectPredictions, bag: int, size: Any) -> None:
    part = answers.part(bag)
    places = answers.coordinate_names or ()
    header = ["row", *places, "label"]
    header += [f"probability_{name}" for name in answers.class_names]
    header.append("background")
    header += [f"responsibility_{name}" for name in answers.class_names]
    where: Any = np.zeros((part.stop - part.start, 0))
    if answers.coordinates is not None:
        where = answers.coordinates[part]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        told = zip(where, answers.objects(bag), strict=True)
        for row, (place, (label, probabilities, background, shares)) in enumerate(told):
            figures = [f"{value:.6g}" for value in (*probabilities, background, *shares)]
            writer.writerow([row, *(f"{value:g}" for value in place), label, *figures])


def _write_h5(path: Path, answers: ObjectPredictions, bag: int, size: Any) -> None:
    with require("h5py", extra="h5").File(path, "w") as file:
        if answers.coordinates is not None:
            file["coords"] = answers.coordinates[answers.part(bag)]
            file["coords"].attrs["names"] = list(answers.coordinate_names or ())
        write_h5_content(file, answers, bag)


def write_h5_content(node: Any, answers: ObjectPredictions, bag: int) -> None:
    """Write what was said of the objects of a bag into an HDF5 file, or a group of one."""
    part = answers.part(bag)
    node["probabilities"] = answers.probability[part].astype(np.float32)
    node["background"] = answers.background[part].astype(np.float32)
    node["responsibilities"] = answers.responsibility[part].astype(np.float32)
    node["labels"] = answers.labels(bag)
    node.attrs["classes"] = list(answers.class_names)
    node.attrs["predicted"] = answers.predicted[bag]


def _write_geojson(
    path: Path, answers: ObjectPredictions, bag: int, size: tuple[float, float] | None
) -> None:
    assert answers.coordinates is not None
    places: FloatArray = answers.coordinates[answers.part(bag)]
    width, height = grid_spacing(places) if size is None else size
    features = []
    kinds = ("probability", "responsibility")
    names = [f"{kind} {name}" for kind in kinds for name in answers.class_names]
    names.append("probability background")
    told = zip(places.tolist(), answers.objects(bag), strict=True)
    for (x, y), (label, probabilities, background, shares) in told:
        corners = [(x, y), (x + width, y), (x + width, y + height), (x, y + height), (x, y)]
        figures = [round(float(value), 6) for value in (*probabilities, *shares, background)]
        measured = dict(zip(names, figures, strict=True))
        features.append(
            {
                "type": "Feature",
                "geometry": {"type": "Polygon", "coordinates": [corners]},
                "properties": {
                    "objectType": "tile",
                    "classification": {"name": label},
                    "measurements": measured,
                },
            }
        )
    collection = {"type": "FeatureCollection", "features": features}
    path.write_text(json.dumps(collection), encoding="utf-8")
