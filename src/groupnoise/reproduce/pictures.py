"""What a fitted estimator saw and chose, as plain values that a page can draw."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import single_label
from groupnoise.reproduce.trials import BagTrial, CandidateTrial, ClickTrial

Picture = TypeVar("Picture", "BagPicture", "CandidatePicture", "HistoryPicture")

N_FIRST = 6
N_WRONG = 3


@dataclass(frozen=True)
class Gallery(Generic[Picture]):
    """Pictures of training groups: the first ones as they come, and the first mistakes.

    Mistakes that are among the first are not repeated.
    """

    first: list[Picture]
    mistakes: list[Picture]


@dataclass(frozen=True)
class BagPicture:
    """A bag of small pictures; `is_witness` tells which of them carry the label."""

    label: str
    images: FloatArray
    shares: list[float]
    is_witness: list[bool]
    chosen: int

    @property
    def is_right(self) -> bool:
        """Whether the chosen instance carries the label."""
        return self.is_witness[self.chosen]


@dataclass(frozen=True)
class CandidatePicture:
    """A small picture and its candidate labels; `truth` is the position of the right one."""

    image: FloatArray
    labels: list[str]
    shares: list[float]
    truth: int
    chosen: int

    @property
    def is_right(self) -> bool:
        """Whether the chosen label is the true one."""
        return self.chosen == self.truth


@dataclass(frozen=True)
class ShownClick:
    """One click of a history, and what the simulation knows about it."""

    title: str
    shelf: str
    responsibility: float
    is_stray: bool
    leads_on: bool


@dataclass(frozen=True)
class HistoryPicture:
    """A few clicks and the next one."""

    clicks: list[ShownClick]
    next_title: str
    next_shelf: str
    chosen: int

    @property
    def is_right(self) -> bool:
        """Whether the next click goes back to the chosen one."""
        return self.clicks[self.chosen].leads_on


def picture_bags(trial: BagTrial, estimator: Any) -> Gallery[BagPicture]:
    """Draw training bags with the instance chosen for their label."""
    train, labels = trial.train, single_label(trial.train.labels)
    if train.images is None or train.instance_labels is None:
        raise DataError(f"{trial.dataset} has no pictures or no instance labels to draw.")
    images, truth, offsets = train.images, train.instance_labels, train.bags.offsets
    selected = estimator.select(train.bags, labels)

    def draw(row: int) -> BagPicture:
        objects = slice(offsets[row], offsets[row + 1])
        return BagPicture(
            label=train.class_names[labels[row]],
            images=images[objects],
            shares=selected.responsibility[objects].tolist(),
            is_witness=(truth[objects] == labels[row]).tolist(),
            chosen=int(selected.chosen[row]),
        )

    is_right = truth[offsets[:-1] + selected.chosen] == labels
    first, mistakes = _shown(np.arange(len(labels)), is_right)
    return Gallery([draw(row) for row in first], [draw(row) for row in mistakes])


def picture_candidates(trial: CandidateTrial, estimator: Any) -> Gallery[CandidatePicture]:
    """Draw training rows with the weight of each candidate label."""
    train = trial.train
    if train.images is None or train.truth is None:
        raise DataError(f"{trial.dataset} has no pictures or no true labels to draw.")
    images, truth = train.images, train.truth
    selected = estimator.select(train.features, train.candidates.astype(np.int64))

    def draw(row: int) -> CandidatePicture:
        labels = np.flatnonzero(train.candidates[row])
        return CandidatePicture(
            image=images[row],
            labels=[train.class_names[label] for label in labels],
            shares=selected.responsibility[
                selected.offsets[row] : selected.offsets[row + 1]
            ].tolist(),
            truth=labels.tolist().index(truth[row]),
            chosen=int(selected.chosen[row]),
        )

    rank = np.cumsum(train.candidates, axis=1) - 1  # position of a label among the candidates
    is_right = rank[np.arange(len(truth)), truth] == selected.chosen
    first, mistakes = _shown(np.arange(len(truth)), is_right)
    return Gallery([draw(row) for row in first], [draw(row) for row in mistakes])


def picture_histories(trial: ClickTrial, estimator: Any) -> Gallery[HistoryPicture]:
    """Draw windows that hold a stray click and the cause of the next, one window per user."""
    clicks, windows = trial.clicks, trial.split.train
    if clicks.is_stray is None or clicks.titles is None or clicks.categories is None:
        raise DataError(f"{trial.dataset} does not name its items and its stray clicks.")
    titles, shelves = clicks.titles, clicks.categories
    groups, leads_on = windows.groups, trial.is_related(windows)
    starts = groups.offsets[:-1]
    begin = clicks.histories.offsets[windows.users] + windows.positions - groups.sizes
    within = groups.position_of_object
    is_stray = clicks.is_stray[np.repeat(begin, groups.sizes) + within]
    selected = estimator.select(groups)
    targets = np.asarray(groups.targets)

    def draw(row: int) -> HistoryPicture:
        objects = range(groups.offsets[row], groups.offsets[row + 1])
        return HistoryPicture(
            clicks=[
                ShownClick(
                    title=titles[groups.objects[each]],
                    shelf=shelves[groups.objects[each]],
                    responsibility=float(selected.responsibility[each]),
                    is_stray=bool(is_stray[each]),
                    leads_on=bool(leads_on[each]),
                )
                for each in objects
            ],
            next_title=titles[targets[row]],
            next_shelf=shelves[targets[row]],
            chosen=int(selected.chosen[row]),
        )

    telling = np.logical_or.reduceat(is_stray, starts) & np.logical_or.reduceat(leads_on, starts)
    rows = np.flatnonzero(telling)
    rows = rows[np.unique(windows.users[rows], return_index=True)[1]]
    first, mistakes = _shown(rows, leads_on[starts + selected.chosen][rows])
    return Gallery([draw(row) for row in first], [draw(row) for row in mistakes])


def _shown(rows: IntArray, is_right: BoolArray) -> tuple[IntArray, IntArray]:
    """Return the first rows, and the first mistakes after them."""
    later = rows[N_FIRST:]
    return rows[:N_FIRST], later[~is_right[N_FIRST:]][:N_WRONG]
