"""The demonstration: a small task per setting, and the methods compared on each of them.

All methods of a task share the estimator, the learning rates to choose among, the epochs and the
validation part; they differ in the objective alone, as in the paper's ablation. The models are
small and linear, and every parameter that matters is written down here, so that the demonstration
does not change with the defaults of an estimator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from groupnoise.bags.digits import load_digit_bags
from groupnoise.bags.estimator import MaxMatchingMILClassifier
from groupnoise.candidates.estimator import MaxMatchingPartialLabelClassifier
from groupnoise.candidates.synthetic import load_digit_candidates
from groupnoise.clicks.estimator import MaxMatchingRecommender
from groupnoise.clicks.evaluation.splits import split_clicks
from groupnoise.clicks.shop import make_shop
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_choice
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import single_label
from groupnoise.reproduce.methods import ABLATIONS
from groupnoise.reproduce.run import Method, TrialResult, run_method
from groupnoise.reproduce.running import run_jobs
from groupnoise.reproduce.trials import BagTrial, CandidateTrial, ClickTrial

Picture = TypeVar("Picture", "BagPicture", "CandidatePicture", "HistoryPicture")

N_FIRST = 6
N_WRONG = 3
SETTINGS = ("mil", "pll", "rs")
OURS = "max_matching"


@dataclass(frozen=True)
class Gallery(Generic[Picture]):
    """Pictures of training groups: the first ones, and the first mistakes.

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
    """One click of a history, and its simulated cause."""

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
    return _gallery(draw, np.arange(len(labels)), is_right)


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
    return _gallery(draw, np.arange(len(truth)), is_right)


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
    return _gallery(draw, rows, leads_on[starts + selected.chosen][rows])


def _gallery(
    draw: Callable[[int], Picture], rows: IntArray, is_right: BoolArray
) -> Gallery[Picture]:
    """Draw the first rows, and the first mistakes after them."""
    mistakes = rows[N_FIRST:][~is_right[N_FIRST:]][:N_WRONG]
    return Gallery([draw(row) for row in rows[:N_FIRST]], [draw(row) for row in mistakes])


@dataclass(frozen=True)
class DemoSize:
    """The size of the demonstration: full, or a smoke test."""

    feature_rates: tuple[float, ...]
    """Candidate learning rates for bags and candidate labels."""
    table_rates: tuple[float, ...]
    """Candidate learning rates for the shop, whose item vectors get fewer steps each."""
    n_bags: tuple[int, int, int]
    """Training, validation and test bags."""
    bag_epochs: int
    candidate_epochs: int
    n_users: int
    recommender_epochs: int


WHOLE = DemoSize(
    feature_rates=(0.03, 0.01, 0.003, 0.001),
    table_rates=(0.1, 0.03, 0.01),
    n_bags=(400, 200, 600),
    bag_epochs=20,
    candidate_epochs=15,
    n_users=800,
    recommender_epochs=6,
)
QUICK = DemoSize(
    feature_rates=(0.01,),
    table_rates=(0.03,),
    n_bags=(90, 60, 120),
    bag_epochs=6,
    candidate_epochs=4,
    n_users=200,
    recommender_epochs=2,
)


@dataclass(frozen=True)
class DemoTask:
    """One setting of the demonstration."""

    setting: str
    make_trial: Callable[[int], Any]
    make_estimator: Callable[..., Any]
    soft_selection: str
    draw: Callable[[Any, Any], Gallery[Any]]
    learning_rates: tuple[float, ...]

    def methods(self) -> list[Method]:
        """Return the methods to compare; only their objectives differ."""
        soft = self.soft_selection
        objectives: dict[str, dict[str, Any]] = {
            **ABLATIONS,
            "max_matching_paper": {"selection": "max", "weighting_strength": 1.0},
            OURS: {"selection": soft, "weighting_strength": 1.0},
            # With true labels a group is one object (or all of one cause): no weighting.
            "supervised": {"selection": soft, "weighting_strength": 0.0},
        }
        return [
            Method(
                name,
                partial(self.make_estimator, **objective),
                {"learning_rate": self.learning_rates},
                supervised=name == "supervised",
            )
            for name, objective in objectives.items()
        ]


@dataclass(frozen=True)
class Demo:
    """The results of the demonstration."""

    seeds: list[int]
    results: list[TrialResult]
    galleries: dict[str, Gallery[Any]]
    """For each setting, pictures of what Max-Matching chose under the first seed."""


def demo_tasks(settings: Sequence[str] = SETTINGS, *, quick: bool = False) -> list[DemoTask]:
    """Return the tasks of the demonstration."""
    for setting in settings:
        check_choice("settings", setting, SETTINGS)
    size = QUICK if quick else WHOLE
    tasks = {
        "mil": DemoTask(
            "mil",
            partial(_digit_bags, n_bags=size.n_bags),
            partial(MaxMatchingMILClassifier.paper, batch_size=32, max_epochs=size.bag_epochs),
            "marginal",
            picture_bags,
            size.feature_rates,
        ),
        "pll": DemoTask(
            "pll",
            _digit_candidates,
            partial(
                MaxMatchingPartialLabelClassifier.fixed,
                encoder="linear",
                scaling="none",
                normalize="objects",
                temperature=(1.0, 0.3),
                batch_size=64,
                schedule="constant",
                keep="best",
                max_epochs=size.candidate_epochs,
            ),
            "tempered",
            picture_candidates,
            size.feature_rates,
        ),
        "rs": DemoTask(
            "rs",
            partial(_shop, n_users=size.n_users),
            partial(
                MaxMatchingRecommender.paper,
                dim=32,
                candidates="full",
                min_window=1,  # windows are given; supervised ones are short
                batch_size=512,
                max_epochs=size.recommender_epochs,
            ),
            "marginal",
            picture_histories,
            size.table_rates,
        ),
    }
    return [tasks[setting] for setting in settings]


def run_demo(
    tasks: Sequence[DemoTask],
    seeds: Sequence[int],
    *,
    n_jobs: int | None = None,
    on_result: Callable[[TrialResult], None] | None = None,
) -> Demo:
    """Train every method of every task under every seed."""

    def tell(outcome: tuple[TrialResult, Gallery[Any] | None]) -> None:
        if on_result is not None:
            on_result(outcome[0])

    jobs = [
        partial(_run_one, task, seed, method, with_pictures=method.name == OURS and not position)
        for task in tasks
        for position, seed in enumerate(seeds)
        for method in task.methods()
    ]
    outcomes = run_jobs(jobs, n_jobs=n_jobs, on_result=tell)
    return Demo(
        seeds=list(seeds),
        results=[result for result, _ in outcomes],
        galleries={result.setting: gallery for result, gallery in outcomes if gallery},
    )


def _run_one(
    task: DemoTask, seed: int, method: Method, *, with_pictures: bool
) -> tuple[TrialResult, Gallery[Any] | None]:
    trial = task.make_trial(seed)
    results, estimator = run_method(trial, method)
    return results[0], task.draw(trial, estimator) if with_pictures else None


def _digit_bags(seed: int, *, n_bags: tuple[int, int, int]) -> BagTrial:
    """Bags of 8 to 14 digits: one of the bag's class, the rest from four background digits."""
    draw = partial(load_digit_bags, size=(8, 14), correlated=False, random_state=seed)
    return BagTrial(
        "digit bags",
        seed,
        train=draw(n_bags[0], part="train"),
        validation=draw(n_bags[1], part="validation"),
        test=draw(n_bags[2], part="test"),
    )


def _digit_candidates(seed: int) -> CandidateTrial:
    """Digits under three to five candidate labels, the wrong ones mostly look-alikes."""
    draw = partial(load_digit_candidates, n_distractors=(2, 4), random_state=seed)
    return CandidateTrial(
        "digit candidates",
        seed,
        train=draw(part="train"),
        validation=draw(part="validation"),
        test=draw(part="test"),
    )


def _shop(seed: int, *, n_users: int) -> ClickTrial:
    """Clicks of which three in ten are stray; each user's last window is for testing."""
    clicks = make_shop(n_users, stray_rate=0.3, random_state=seed)
    return ClickTrial("simulated shop", seed, clicks, split_clicks(clicks.histories, "authors"))
