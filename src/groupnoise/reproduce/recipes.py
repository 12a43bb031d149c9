"""Recipes: the methods, data sets and protocol of an experiment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from groupnoise.candidates.synthetic import replace_candidates
from groupnoise.exceptions import ConfigError, DataError
from groupnoise.io.datasets import BagDataset, PartialLabelDataset, subset_bags
from groupnoise.io.named import Dataset, load_dataset
from groupnoise.io.setting import find_setting
from groupnoise.reproduce.methods import (
    MethodEntry,
    compared_parameters,
    find_method,
    import_class,
    parameters_of,
)
from groupnoise.reproduce.run import PREPARATION, Method, SmoothedClassifier

CRITERIA = ("oracle", "covering_rate", "approximated_accuracy")
CLICK_PROTOCOLS = ("authors", "paper", "leave_one_out")
QUICK = {"max_epochs": 2, "n_members": 1, "n_starts": 1, "max_iterations": 30}
"""Parameters that a quick run sets wherever a method has them."""
QUICK_SECONDS = 0.1
"""Budget of a default fit in a quick run: only the first option is tried."""
QUICK_VIEWS = 2
DEFAULT = "default"
"""In a recipe: the default value of the estimator."""
MIN_BAGS = 15
"""Least bags of each class of a pair: of fewer 8:1:1 leaves one for testing."""


@dataclass(frozen=True)
class Row:
    """One row of a table.

    `method`: which estimator; a name of `groupnoise.reproduce.methods.METHODS`.
    `settings`: its parameters; a list is a grid.
    `like`: a row whose settings are inherited, those for one data set included.
    `supervised`: whether it is trained on true labels: an upper bound.
    `decides`: whether it is a default fit, which decides all parameters itself.
    """

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    like: str | None = None
    supervised: bool = False
    decides: bool = False


@dataclass(frozen=True)
class Reading:
    """A row that predicts with the fits of another under other parameters.

    `of`: the row of the fits.
    `parameters`: set on the fitted estimator.
    `datasets`: of the row; all data sets if empty.
    """

    of: str
    parameters: dict[str, Any]
    datasets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recipe:
    """One experiment, read from a file.

    `name`: the name of the file.
    `setting`: "mil", "pll" or "rs".
    `datasets`: names from `groupnoise data list`.
    `protocol`: of splits and evaluation, and the number of trials.
    `rows`: the methods, as they are fitted.
    `readings`: further rows from the same fits.
    `stand_ins`: substitutes of a data set that may be missing.
    `by_dataset`: settings of a row on one data set.
    `published`: published results by dataset, row and metric.
    `noise`: levels of candidate noise to draw; see `noise_views`.
    `pair_step`: step between the first classes of pairs of adjacent classes.
    `examples`: the number of clicked items to show, and of answers to each.
    `notes`: shown in the report.
    `text`: the file itself, recorded with results.
    """

    name: str
    setting: str
    datasets: tuple[str, ...]
    protocol: dict[str, Any]
    rows: dict[str, Row]
    readings: dict[str, Reading] = field(default_factory=dict)
    stand_ins: dict[str, tuple[str, ...]] = field(default_factory=dict)
    by_dataset: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    published: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)
    noise: dict[str, Any] | None = None
    pair_step: int | None = None
    examples: dict[str, int] | None = None
    notes: tuple[str, ...] = ()
    text: str = ""

    @property
    def row_names(self) -> tuple[str, ...]:
        """Every row of the tables: each method followed by its readings."""
        names = []
        for name in self.rows:
            names += [name, *(r for r, reading in self.readings.items() if reading.of == name)]
        return tuple(names)

    @property
    def all_datasets(self) -> tuple[str, ...]:
        """The data sets and their substitutes."""
        stand_ins = [name for names in self.stand_ins.values() for name in names]
        return tuple(dict.fromkeys([*self.datasets, *stand_ins]))

    @property
    def upper_bounds(self) -> tuple[str, ...]:
        """The rows trained on true labels."""
        return tuple(name for name, row in self.rows.items() if row.supervised)

    @property
    def criteria(self) -> tuple[str, ...]:
        """Selection criteria of settings, each with rows of its own."""
        if self.setting == "rs":
            return ("validation",)
        return tuple(self.protocol.get("criteria", ("oracle",)))

    def settings(self, name: str, dataset: str) -> dict[str, Any]:
        """Return the settings of a row on one data set, lists for grids.

        The word "default" resets an inherited setting.
        """
        row = self.rows[name]
        inherited = self.settings(row.like, dataset) if row.like else {}
        given = {**inherited, **row.settings, **self.by_dataset.get(dataset, {}).get(name, {})}
        return {key: value for key, value in given.items() if value != DEFAULT}

    def method(self, name: str, dataset: str, *, quick: bool = False) -> Method:
        """Return a row's method with its grid for one data set."""
        row = self.rows[name]
        entry = find_method(row.method, self.setting)
        settings = self.settings(name, dataset)
        grid = {key: v if isinstance(v, list) else [v] for key, v in settings.items()}
        if quick and row.decides:
            grid = {"budget": [QUICK_SECONDS]}
        elif quick:
            known = parameters_of(entry)
            grid = {key: values[:1] for key, values in grid.items()}
            grid |= {key: [value] for key, value in QUICK.items() if key in known}
            grid |= {key: [QUICK[key]] for key in PREPARATION if key in grid and key in QUICK}
        readings = {
            r: reading.parameters
            for r, reading in self.readings.items()
            if reading.of == name and (not reading.datasets or dataset in reading.datasets)
        }
        has_features = find_setting(self.setting).has_features
        is_committee = has_features and "n_members" not in parameters_of(entry)
        maker = EstimatorMaker(entry, row.decides)
        return Method(name, maker, grid, row.supervised, readings, is_committee, row.decides)

    def views(
        self, dataset: str, *, quick: bool = False, data_dir: str | None = None
    ) -> list[DatasetView]:
        """Return the views of a data set: one, or one per noise level or class pair."""
        if self.noise is not None:
            found = noise_views(dataset, self.noise)
        elif self.pair_step is not None:
            found = pair_views(dataset, self.pair_step, data_dir)
        else:
            return [DatasetView(dataset)]
        return found[:: max(1, len(found) // QUICK_VIEWS)][:QUICK_VIEWS] if quick else found

    def with_protocol(self, word: str) -> Recipe:
        """Return the recipe under another protocol.

        `word`: for click logs one of "authors", "paper" and "leave_one_out"; otherwise the parts of
        a split, such as "8:1:1"; for candidate labels also a criterion.
        """
        if self.setting == "rs" and word in CLICK_PROTOCOLS:
            change: dict[str, Any] = {"name": word}
        elif self.setting == "pll" and word in CRITERIA:
            change = {"criteria": [word]}
        elif self.setting != "rs" and re.fullmatch(r"\d+:\d+:\d+", word):
            parts = [int(part) for part in word.split(":")]
            change = {"fractions": [part / max(sum(parts), 1) for part in parts]}
        else:
            allowed = {
                "mil": ("a split like 8:1:1",),
                "pll": (*CRITERIA, "a split like 8:1:1"),
                "rs": CLICK_PROTOCOLS,
            }[self.setting]
            raise ConfigError(
                f"--protocol of {self.name} is one of {', '.join(allowed)}; got {word!r}."
            )
        return replace(self, protocol={**self.protocol, **change})


@dataclass(frozen=True)
class EstimatorMaker:
    """Builds the estimator of a method; a class, so that processes can be handed one."""

    entry: MethodEntry
    decides: bool = False

    def __call__(self, *, random_state: int, **settings: Any) -> Any:
        """Return an estimator; a baseline on features has them scaled."""
        known = parameters_of(self.entry)
        if "random_state" in known:
            settings["random_state"] = random_state
        estimator_class = import_class(self.entry)
        # What a recipe does not name has its plain value; only a plain fit searches.
        fixed = getattr(estimator_class, "fixed", estimator_class)
        maker = estimator_class if self.decides else fixed
        smooths = "ordinal_smoothing" in settings and "ordinal_smoothing" not in known
        std = settings.pop("ordinal_smoothing") if smooths else 0.0
        estimator = maker(**{**compared_parameters(self.entry), **settings})
        return SmoothedClassifier(estimator, std) if smooths else estimator


@dataclass(frozen=True)
class DatasetView:
    """A data set and its transformation before the split.

    `dataset`: name in the registry.
    `noise`: epsilon and tau of candidate labels that are drawn anew by the seed of the trial.
    `pair`: index of a class: only bags with exactly one of it and the next are kept.
    """

    dataset: str
    noise: tuple[float, int] | None = None
    pair: int | None = None

    @property
    def label(self) -> str:
        """Its name in tables."""
        if self.noise is not None:
            return f"{self.dataset} epsilon={self.noise[0]:g} tau={self.noise[1]}"
        if self.pair is not None:
            return f"{self.dataset} {self.pair + 1}-{self.pair + 2}"
        return self.dataset

    def load(self, seed: int, data_dir: str | None = None) -> Dataset:
        """Return the data as a trial under this seed sees it."""
        data = _load(self.dataset, data_dir)
        if self.noise is not None:
            if not isinstance(data, PartialLabelDataset):
                raise DataError(f"{self.dataset} has no candidate labels to draw anew.")
            epsilon, tau = self.noise
            return replace_candidates(data, epsilon=epsilon, tau=tau, random_state=seed)
        return data if self.pair is None else class_pair(_with_bags(data), self.pair)


def noise_views(dataset: str, levels: dict[str, Any]) -> list[DatasetView]:
    """Return the levels of noise: epsilon varied at the fixed tau, tau at the fixed epsilon."""
    fixed = levels["fixed"]
    pairs = [(epsilon, fixed["tau"]) for epsilon in levels["epsilon"]]
    pairs += [(fixed["epsilon"], tau) for tau in levels["tau"]]
    return [DatasetView(dataset, noise=pair) for pair in dict.fromkeys(pairs)]


def pair_views(dataset: str, step: int, data_dir: str | None = None) -> list[DatasetView]:
    """Return pairs of adjacent classes with bags enough, beginning at every `step`-th class."""
    data = _with_bags(_load(dataset, data_dir))
    found = []
    for first in range(0, len(data.class_names) - 1, step):
        either = data.labels[:, first : first + 2]
        if either[either.sum(axis=1) == 1].sum(axis=0).min() >= MIN_BAGS:
            found.append(DatasetView(dataset, pair=first))
    if not found:
        raise DataError(f"no two adjacent classes of {dataset} have {MIN_BAGS} bags each.")
    return found


def _with_bags(data: Dataset) -> BagDataset:
    if not isinstance(data, BagDataset):
        raise DataError(f"{data.name} has no bags to take two classes of.")
    return data


def class_pair(data: BagDataset, first: int) -> BagDataset:
    """Return the bags that carry either class `first` or the next, as a problem of two classes.

    Instances of any other class count as background, which is not scored.
    """
    if data.instance_labels is None:
        raise DataError(f"{data.name} has no instance labels, so accuracy cannot be measured.")
    either = data.labels[:, first : first + 2]
    kept = subset_bags(data, either.sum(axis=1) == 1)
    truth = np.asarray(kept.instance_labels) - first
    return replace(
        kept,
        labels=kept.labels[:, first : first + 2],
        class_names=data.class_names[first : first + 2],
        instance_labels=np.where((truth == 0) | (truth == 1), truth, -1),
    )


@lru_cache(maxsize=4)
def _load(name: str, data_dir: str | None) -> Dataset:
    return load_dataset(name, data_dir=data_dir)
