"""Recipes: what an experiment compares, on which data, under which protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from groupnoise.exceptions import ConfigError
from groupnoise.io.setting import find_setting
from groupnoise.reproduce.methods import (
    MethodEntry,
    compared_parameters,
    find_method,
    import_class,
    parameters_of,
)
from groupnoise.reproduce.prepared import PREPARATION, SmoothedClassifier
from groupnoise.reproduce.run import Method
from groupnoise.reproduce.views import DatasetView, noise_views, pair_views

CRITERIA = ("oracle", "covering_rate", "approximated_accuracy")
CLICK_PROTOCOLS = ("authors", "paper", "leave_one_out")
QUICK = {"max_epochs": 2, "n_members": 1, "n_starts": 1, "max_iterations": 30}
"""Parameters that a quick run sets wherever a method has them."""
QUICK_SECONDS = 0.1
"""Of a plain fit in a quick run: the first setting is tried, and no other."""
QUICK_VIEWS = 2


@dataclass(frozen=True)
class Row:
    """One row of a table.

    `method`: which estimator; a name of `groupnoise.reproduce.methods.METHODS`.
    `settings`: its parameters; a list is a grid.
    `like`: a row whose settings are taken first, those for one data set included.
    `supervised`: whether it is shown the truth: an upper bound.
    `decides`: whether it is a plain fit, which decides all parameters itself.
    """

    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    like: str | None = None
    supervised: bool = False
    decides: bool = False


@dataclass(frozen=True)
class Reading:
    """A row made from the fits of another.

    `of`: whose fits.
    `parameters`: set on the fitted estimator to ask it otherwise.
    `datasets`: where the row is made; on every data set if empty.
    """

    of: str
    parameters: dict[str, Any]
    datasets: tuple[str, ...] = ()

    def is_on(self, dataset: str) -> bool:
        """Say whether the row is made on a data set."""
        return not self.datasets or dataset in self.datasets


@dataclass(frozen=True)
class Recipe:
    """One experiment, read from a file.

    `name`: the name of the file.
    `setting` (one of "mil", "pll", "rs"): what kind of data it is about.
    `datasets`: names from `groupnoise data list`.
    `protocol`: how data is cut and judged, and how many trials there are.
    `rows`: the methods, as they are fitted.
    `readings`: further rows from the same fits.
    `stand_ins`: for a data set that may be missing, those that are taken in its place.
    `by_dataset`: settings of a row that differ on one data set.
    `published`: figures to print beside ours: dataset, then row, then metric.
    `noise`: levels of candidate noise to draw; see `noise_views`.
    `pair_step`: take pairs of adjacent classes, beginning at every so many-th class.
    `examples`: how many clicked items to show and how many answers to each.
    `notes`: what a reader of the report must know.
    `text`: the file itself, to be kept with results.
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
        """Every row of the tables: each method, and what else is read from its fits."""
        names = []
        for name in self.rows:
            names += [name, *(r for r, reading in self.readings.items() if reading.of == name)]
        return tuple(names)

    @property
    def all_datasets(self) -> tuple[str, ...]:
        """The data sets and those that may stand in for them."""
        stand_ins = [name for names in self.stand_ins.values() for name in names]
        return tuple(dict.fromkeys([*self.datasets, *stand_ins]))

    @property
    def upper_bounds(self) -> tuple[str, ...]:
        """The rows that are shown the truth."""
        return tuple(name for name, row in self.rows.items() if row.supervised)

    @property
    def criteria(self) -> tuple[str, ...]:
        """What settings are chosen by, each giving rows of its own."""
        if self.setting == "rs":
            return ("validation",)
        return tuple(self.protocol.get("criteria", ("oracle",)))

    def settings(self, name: str, dataset: str) -> dict[str, Any]:
        """Return the settings of a row on one data set, lists for grids."""
        row = self.rows[name]
        inherited = self.settings(row.like, dataset) if row.like else {}
        return {**inherited, **row.settings, **self.by_dataset.get(dataset, {}).get(name, {})}

    def method(self, name: str, dataset: str, *, quick: bool = False) -> Method:
        """Return a row's method with its grid for one data set.

        `name`: a key of `rows`. `dataset`: the data set it will be run on. `quick`: take the first
        value of every list and few epochs: does it run?
        """
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
            if reading.of == name and reading.is_on(dataset)
        }
        has_features = find_setting(self.setting).has_features
        is_committee = has_features and "n_members" not in parameters_of(entry)
        maker = EstimatorMaker(entry, row.decides)
        return Method(name, maker, grid, row.supervised, readings, is_committee, row.decides)

    def views(
        self, dataset: str, *, quick: bool = False, data_dir: str | None = None
    ) -> list[DatasetView]:
        """Return how the experiment looks at a data set: once, or once per noise level or pair."""
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
