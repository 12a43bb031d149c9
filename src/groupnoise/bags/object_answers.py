"""What a model says of every object of every bag: probability, responsibility and position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.streamed_groups import answers_about
from groupnoise.io.datasets import BagDataset

STRETCH = ("begin", "end")
"""Names of coordinates that are a stretch of a recording or a text, not a place in a picture."""


@dataclass(frozen=True)
class ObjectAnswers:
    """Answers about the objects of bags.

    `bag_ids`: what the bags are called.
    `offsets`: where the objects of each bag begin.
    `class_names`: the classes of the model.
    `probability` (n_objects, n_classes): p(class | object), with what the background takes taken
        off.
    `background`: p(background | object): of no class at all. Zero for models that know no
        background.
    `responsibility` (n_objects, n_classes): how much of a class each object carries in its bag;
        sums to one over the bag.
    `predicted`: the label of each bag, several joined by `;`.
    `coordinates` (n_objects, n_coordinates): where objects lie.
    `coordinate_names`: what the coordinates are called.
    """

    bag_ids: list[str]
    offsets: IntArray
    class_names: list[str]
    probability: FloatArray
    background: FloatArray
    responsibility: FloatArray
    predicted: list[str]
    coordinates: FloatArray | None = None
    coordinate_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.bag_ids)

    @property
    def best(self) -> IntArray:
        """The likeliest class of each object, shape (n_objects,)."""
        likeliest: IntArray = self.probability.argmax(axis=1)
        return likeliest

    @property
    def is_placed(self) -> bool:
        """Whether objects lie in a plane."""
        return self.coordinate_names is not None and (
            len(self.coordinate_names) == 2 and self.coordinate_names != STRETCH
        )

    def part(self, bag: int) -> slice:
        """Return the objects of a bag.

        Of the arrays with one row per object.
        """
        return slice(int(self.offsets[bag]), int(self.offsets[bag + 1]))


def answer_objects(fitted: Any, dataset: BagDataset) -> ObjectAnswers:
    """Ask a fitted model about every object.

    Result: in the order of the data. `fitted`: ours or a baseline. Baselines do not say which
    object carries a label: their responsibilities are their probabilities, normalized over each
    bag. `dataset`: the bags; labels may be missing.
    """
    bags = dataset.bags
    given_class = np.asarray(answers_about(bags, fitted.predict_proba), dtype=np.float64)
    background = np.zeros(len(given_class))
    if hasattr(fitted, "background_proba"):
        background = np.asarray(answers_about(bags, fitted.background_proba), dtype=np.float64)
    probability = given_class * (1 - background)[:, None]
    ids = np.arange(len(bags)) if dataset.bag_ids is None else dataset.bag_ids
    names = [str(label) for label in fitted.classes_.tolist()]
    labels = np.asarray(fitted.predict_bags(bags))
    if labels.ndim == 2:
        words = np.array(names)
        predicted = [";".join(words[row.astype(bool)]) for row in labels]
    else:
        predicted = [str(label) for label in labels.tolist()]
    return ObjectAnswers(
        bag_ids=[str(bag) for bag in ids.tolist()],
        offsets=bags.offsets,
        class_names=names,
        probability=probability,
        background=background,
        responsibility=_responsibilities(fitted, dataset, probability),
        predicted=predicted,
        coordinates=dataset.coordinates,
        coordinate_names=dataset.coordinate_names,
    )


def best_objects(answers: ObjectAnswers, dataset: BagDataset, top: int = 1) -> dict[str, list[Any]]:
    """Return the objects that carry the labels of each bag, as columns of a table.

    Bag, label, rank, row (of the source, or in the file of the bag), responsibility, probability
    and coordinates; the most responsible object of a label first. `answers`: what a model says of
    every object. `dataset`: the same bags; where they have no labels, the predicted one is asked
    about.
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
        for label in asked or answers.predicted[number].split(";"):
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
    """Return how much of each class the objects of a bag carry, shape (n_objects, n_classes)."""
    bags = dataset.bags
    if not hasattr(fitted, "select") or hasattr(fitted, "disambiguate"):
        # Where no object of a bag shows a class at all, none is more responsible than another.
        kept = probability + 1e-12
        total = np.add.reduceat(kept, bags.offsets[:-1], axis=0)
        return kept / total[bags.group_of_object]
    from groupnoise.audit.evidence import posterior

    found = np.empty_like(probability)
    for column, label in enumerate(fitted.classes_):
        selected = fitted.select(bags, np.repeat(label, len(bags)))
        found[:, column] = posterior(selected.scores, selected.offsets).responsibility
    return found


def spacing_of(coordinates: FloatArray) -> tuple[float, float]:
    """Return how far objects on a grid are apart across and down; 1 where nothing says it.

    The least distance between two different columns, and rows. `coordinates` (n_objects, 2): where
    they lie.

    Examples
    --------
    >>> spacing_of(np.array([[0.0, 0.0], [256.0, 0.0], [768.0, 512.0]]))
    (256.0, 512.0)
    """
    apart = []
    for values in coordinates.T:
        steps = np.diff(np.unique(values))
        apart.append(float(steps[steps > 1e-9].min(initial=np.inf)))
    across, down = (step if np.isfinite(step) else min(apart) for step in apart)
    return (across, down) if np.isfinite(across) else (1.0, 1.0)
