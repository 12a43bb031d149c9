"""Review questions about bags: which object carries a label of its bag."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.audit.evidence import (
    Picture,
    picture_columns,
    picture_of_array,
    picture_paths,
    read_picture,
)
from groupnoise.bags.embedding.sources import Sources, find_sources, thumbnail
from groupnoise.bags.object_predictions import INTERVAL
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, ProgressCallback
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BagDataset, keep_objects
from groupnoise.io.tables.sources import Report, ignore_report
from groupnoise.io.tables.table import Table
from groupnoise.review.questions import Answers, answer_columns, checksum, display_text

MAX_SHOWN = 30
"""Objects of a bag to choose from at most, the most probable ones."""
NONE = "none of them"
"""The answer that no object of the bag carries the label."""
N_FOLDS = 5
SEARCH_BUDGET = "5s"
MAX_CELLS = 12
"""Cells of an object that are shown at most."""


@dataclass(frozen=True)
class Responsibilities:
    """How likely each object of a bag carries one of its labels.

    `bags`, `labels`: the bag and the column of the label of each question.
    `responsibility`: per question, one probability per object of the bag; sums to one.
    """

    bags: IntArray
    labels: IntArray
    responsibility: list[FloatArray]


class BagQuestions:
    """Asks which object of each bag carries its label.

    `responsibilities`: out-of-fold probabilities.
    `views`: the presentation of objects.
    """

    def __init__(
        self, dataset: BagDataset, responsibilities: Responsibilities, views: BagViews
    ) -> None:
        self.dataset, self.responsibilities, self.views = dataset, responsibilities, views
        best = np.array([share.max() for share in responsibilities.responsibility])
        self.order: Sequence[int] = np.argsort(best, kind="stable").tolist()
        self.proposed: Sequence[str | None] = [
            object_name(int(share.argmax())) for share in responsibilities.responsibility
        ]
        self.doubt: FloatArray = 1.0 - best

    def about(self) -> dict[str, Any]:
        """Return the bags, their labels and a checksum of the objects."""
        bags = self.dataset.bags
        cells = (np.ascontiguousarray(bags.objects).tobytes().hex(), bags.offsets.tolist())
        names = [self.dataset.class_names[k] for k in self.responsibilities.labels]
        asked = zip(self.responsibilities.bags.tolist(), names, strict=True)
        return {
            "questions": len(names),
            "labels": self.dataset.class_names,
            "data": checksum([("objects", cells), ("asked", asked), ("ids", self.views.bag_ids)]),
        }

    def allows(self, number: int, answer: str) -> bool:
        """Tell whether the answer is an object of the bag, or none of them."""
        return answer == NONE or position_of(answer, self._size(number)) is not None

    def _size(self, number: int) -> int:
        return len(self.responsibilities.responsibility[number])

    def describe(self, number: int) -> dict[str, Any]:
        """Return the bag, its label, and its objects to choose from."""
        bag = int(self.responsibilities.bags[number])
        label = self.dataset.class_names[self.responsibilities.labels[number]]
        share = self.responsibilities.responsibility[number]
        likely = np.argsort(-share, kind="stable")[:MAX_SHOWN]
        size = self._size(number)
        cells = {"bag": self.views.bag_ids[bag], "label": label, "objects": str(size)}
        more = f"; the {MAX_SHOWN} likeliest of {size} are shown" if size > MAX_SHOWN else ""
        return {
            "row": number,
            "ask": f"Which of these objects carries {label}?",
            "cells": cells | self.views.bag_cells(bag),
            "pictures": self.views.bag_pictures(bag),
            "why": f"probabilities come from models that did not see this bag{more}",
            "labels": [
                {
                    "label": object_name(int(position)),
                    "weight": round(float(share[position]), 4),
                    "named": True,
                    **self.views.object_view(bag, int(position), number),
                }
                for position in likely
            ]
            + [{"label": NONE, "weight": None, "named": True}],
        }

    def picture(self, number: int, position: int) -> Picture:
        """Return the picture file of an object."""
        return self.views.object_picture(int(self.responsibilities.bags[number]), position)

    def export(self, given: Answers) -> dict[str, list[Any]]:
        """Return one row per question, with answers of people in place of the proposed ones.

        Bag, label, the object from 0 (empty where none carries the label), its row in the source
        from 0 where there is one, probability, `look`, `answered_by` and `note`.
        """
        n_questions = len(self.responsibilities.bags)
        said = {number: str(e["label"]) for number, e in given.items() if e["label"] is not None}
        look = np.empty(n_questions, dtype=np.int64)
        # Answered questions come last.
        look[sorted(self.order, key=said.__contains__)] = np.arange(1, n_questions + 1)
        columns: dict[str, list[Any]] = {
            "bag": [self.views.bag_ids[bag] for bag in self.responsibilities.bags],
            "label": [self.dataset.class_names[k] for k in self.responsibilities.labels],
        }
        positions: list[int | None] = []
        sure: list[float] = []
        for number, share in enumerate(self.responsibilities.responsibility):
            positions.append(position_of(said.get(number, str(self.proposed[number])), len(share)))
            sure.append(1.0 if number in said else round(float(share.max()), 6))
        columns["object"] = positions
        rows = self.dataset.source_rows
        if rows is not None:
            first = self.dataset.bags.offsets[self.responsibilities.bags]
            columns["source_row"] = [
                None if at is None else int(rows[start + at])
                for at, start in zip(positions, first, strict=True)
            ]
        columns |= {"probability": sure, "look": look.tolist()}
        return columns | answer_columns(given, n_questions)


def object_name(position: int) -> str:
    """Return the name of an object on the page, counted from 0 as in all files."""
    return f"object {position}"


def position_of(answer: str, size: int) -> int | None:
    """Return the position of an object in its bag; None for other answers."""
    word, _, number = answer.partition(" ")
    if word != "object" or not number.isdecimal() or int(number) >= size:
        return None
    return int(number)


def object_responsibilities(
    dataset: BagDataset,
    *,
    known: Mapping[int, str] | None = None,
    estimator: Any = None,
    budget: float | str = SEARCH_BUDGET,
    seed: int = 0,
    report: Report | None = None,
    on_progress: ProgressCallback | None = None,
) -> Responsibilities:
    """Return the out-of-fold probability that each object carries a label of its bag.

    One question per bag and positive label. `known`: answers by question. Of an answered bag with
    one label only the chosen object is trained on; with several labels, the chosen objects get
    known instance labels. Labels that no object carries are dropped, and bags without labels left
    are not trained on. `estimator`: a Max-Matching classifier of bags; by default it chooses its
    parameters. `budget`: time for that choice. `report`: receives the negative label and warnings
    of the models. `on_progress`: called with `stage`, `done` and `total` as folds begin.
    """
    from groupnoise.audit.evidence import class_columns, object_posterior
    from groupnoise.bags.audit import BagSource
    from groupnoise.bags.estimator import MaxMatchingMILClassifier
    from groupnoise.bags.reading.negative_label import find_negative_label
    from groupnoise.bags.search.held_out_bags import draw_folds

    names: NDArray[Any] = np.asarray(dataset.class_names)
    negative, _ = find_negative_label("auto", names, dataset.labels)
    asked = dataset.labels.copy()
    if negative is not None:
        (report or ignore_report)(
            f"took {names[negative]!s} as the negative label: no object carries it, so nothing is "
            "asked about its bags"
        )
        asked[:, negative] = False
    bags, labels = np.nonzero(asked)
    if not len(bags):
        raise DataError(f"no bag of {dataset.name} has a label that an object could carry.")
    template = estimator or MaxMatchingMILClassifier(
        negative_label=negative, budget=budget, random_state=seed
    )
    taught = BagSource(*_apply_answers(dataset, bags, labels, known or {}))
    n_folds = max(2, min(N_FOLDS, len(dataset.bags) // 2))
    patients = dataset.patients
    codes = None if patients is None else np.unique(patients, return_inverse=True)[1]
    folds = draw_folds(dataset.labels, n_folds, np.random.default_rng(seed), codes)
    responsibility: list[FloatArray] = [np.zeros(0)] * len(bags)
    sentences: dict[str, None] = {}
    for fold in np.unique(folds):
        if on_progress is not None:
            on_progress({"stage": "training", "done": int(fold), "total": n_folds})
        training = np.flatnonzero(folds != fold)
        if not taught.dataset.labels[np.ix_(training, labels)].any():
            by = " by the answers" if known else ""
            raise DataError(f"{dataset.name} has{by} too few labelled bags to hold some out.")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            model = taught.fit(template, training)
        sentences |= {str(each.message): None for each in caught}
        columns = class_columns(model.classes_, dataset.class_names)
        mine = np.flatnonzero(folds[bags] == fold)
        if len(mine):
            held = dataset.bags.subset(bags[mine])
            found = model.select(held, model.classes_[columns[labels[mine]]])
            shares = object_posterior(found.scores, found.offsets).responsibility
            for number, share in zip(mine, np.split(shares, found.offsets[1:-1]), strict=True):
                responsibility[number] = share
    for sentence in sentences:  # each once, however many folds warn
        (report or ignore_report)(sentence)
    return Responsibilities(bags.astype(np.int64), labels.astype(np.int64), responsibility)


def _apply_answers(
    dataset: BagDataset, bags: IntArray, asked: IntArray, known: Mapping[int, str]
) -> tuple[BagDataset, IntArray, BoolArray]:
    """Return bags after applying answers, known instance labels, and which bags to train on."""
    kept = np.ones(dataset.bags.n_objects, dtype=bool)
    truth = np.full(dataset.bags.n_objects, -1, dtype=np.int64)
    labels = dataset.labels.copy()
    for number, answer in known.items():
        bag = int(bags[number])
        start, stop = dataset.bags.offsets[bag], dataset.bags.offsets[bag + 1]
        position = position_of(answer, int(stop - start))
        if position is None:
            labels[bag, asked[number]] = False
        elif dataset.labels[bag].sum() == 1:
            kept[start:stop] = False
            kept[start + position] = True
        else:
            truth[start + position] = asked[number]
    # Bags that lost all labels are not trained on; bags without labels from the start are.
    teaches = labels.any(axis=1) | ~dataset.labels.any(axis=1)
    return keep_objects(replace(dataset, labels=labels), kept), truth[kept], teaches


class BagViews:
    """Presentation of bags and their objects.

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
        self.bag_ids = [str(each) for each in dataset.ids.tolist()]
        self._table = None if dataset.source_rows is None else table
        self._paths: list[list[Path]] | None = None
        self._columns: list[str] = []
        if self._table is not None:
            named = picture_columns(self._table, pictures)
            folder = Path(self._table.origin).parent
            if named:
                self._paths = picture_paths(self._table.frame, named, folder)
            self._columns = _display_columns(self._table, dataset.columns or {}, named)

    @classmethod
    def of(
        cls, dataset: BagDataset, data: str, table: Table | None, pictures: str | None
    ) -> BagViews:
        """Return the views of bags read from a file or a folder."""
        sources = find_sources(data, None) if Path(data).is_dir() else None
        return cls(dataset, sources=sources, table=table, pictures=pictures)

    def _row(self, bag: int, position: int) -> int:
        assert self._dataset.source_rows is not None
        return int(self._dataset.source_rows[self._dataset.bags.offsets[bag] + position])

    def bag_cells(self, bag: int) -> dict[str, str]:
        """Return the cells shown of a bag as a whole."""
        text = self._sources.text(self.bag_ids[bag])
        return {} if text is None else {"text": display_text(text)}

    def bag_pictures(self, bag: int) -> list[str]:
        """Return the picture of a whole bag, as a data address."""
        pixels = self._sources.picture(self.bag_ids[bag])
        return [] if pixels is None else [thumbnail(pixels)]

    def object_view(self, bag: int, position: int, question: int) -> dict[str, Any]:
        """Return the `text` and the address of the `picture` of an object."""
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
            return "; ".join(
                f"{name}: {display_text(cell)}" for name, cell in cells if cell is not None
            )
        where = self._dataset.coordinates
        if where is None:
            return ""
        at = where[self._dataset.bags.offsets[bag] + position]
        names = self._dataset.coordinate_names or ()
        if names == INTERVAL:
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


def _display_columns(table: Table, roles: Mapping[str, Any], pictures: Sequence[str]) -> list[str]:
    """Return the columns to show: those without a role, text before numbers."""
    taken = {*pictures}
    for part, names in roles.items():
        if part not in ("features", "categories", "fill"):
            taken |= {names} if isinstance(names, str) else set(names or ())
    free = [name for name in table.frame.columns if name not in taken]
    words = [name for name in free if not table.frame.schema[name].is_numeric()]
    return [*words, *(name for name in free if name not in words)][:MAX_CELLS]
