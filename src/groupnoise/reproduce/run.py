"""Running a method on a trial: grid search on validation, then one test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import has_fit_parameter

from groupnoise.core.arrays import FloatArray
from groupnoise.reproduce.provenance import provenance
from groupnoise.reproduce.trials import ClickTrial, DataTrial, MonitoredFit

Settings = dict[str, Any]
PREPARATION = ("ordinal_smoothing", "n_members")
"""Settings of a recipe that wrap classifiers without such a parameter."""


@dataclass(frozen=True)
class Method:
    """A method and its hyperparameter grid.

    `name`: in tables.
    `make`: builds an estimator from settings and `random_state`.
    `grid`: values to try for each setting; every combination is fitted.
    `supervised`: whether it is trained on true labels: an upper bound, not a baseline.
    `readings`: further rows from the same fits, by name: parameters to set on a fitted estimator.
    `is_committee`: whether `n_members` in the settings is the number of estimators to fit from
        different seeds and average, not a parameter of the estimator.
    `decides`: whether it is a default fit, which decides its parameters on the training part; the
        validation part is unused.
    """

    name: str
    make: Callable[..., Any]
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    supervised: bool = False
    readings: Mapping[str, Settings] = field(default_factory=dict)
    is_committee: bool = False
    decides: bool = False

    def settings(self) -> list[Settings]:
        """Return every combination of the grid."""
        return [
            dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())
        ]

    def n_estimators(self, settings: Settings) -> int:
        """Return how many estimators are fitted under some settings."""
        return int(settings.get("n_members", 1)) if self.is_committee else 1

    @property
    def n_fits(self) -> int:
        """How many estimators are fitted in all."""
        return sum(self.n_estimators(settings) for settings in self.settings())


@dataclass(frozen=True)
class TrialResult:
    """The result of one method on one trial, its settings chosen by one criterion."""

    setting: str
    dataset: str
    method: str
    seed: int
    metrics: dict[str, float]
    validation: float
    chosen_settings: Settings
    curve: list[float]
    seconds: float
    processor_seconds: float
    criterion: str = "validation"
    test_curve: list[float] = field(default_factory=list)
    """The test value after every epoch, where the recipe asks for it."""
    n_fits: int = 1
    """The number of fits."""
    n_epochs: int = 0
    """Epochs of all fits together; 0 for methods without epochs."""
    examples: list[dict[str, Any]] = field(default_factory=list)
    """Example answers, where the recipe asks for them."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Code, machine and time of the trial; empty in older results."""

    def as_record(self) -> dict[str, Any]:
        """Return the result as JSON can hold it."""
        return asdict(self)


@dataclass(frozen=True)
class _Fit:
    """A fitted estimator under the best settings so far."""

    value: float
    estimator: Any
    settings: Settings
    test_curve: list[float]


def run_method(trial: DataTrial, method: Method) -> tuple[list[TrialResult], Any]:
    """Return the results of a method on a trial, the main one first, and its estimator."""
    started, processor_started = time.perf_counter(), time.process_time()
    readings = {method.name: {}, **method.readings}
    rows = [(criterion, reading) for criterion in trial.criteria for reading in readings]
    best: dict[tuple[str, str], _Fit] = {}
    n_epochs = 0
    for settings in method.settings():
        watched = _fit(trial, method, settings)
        n_epochs += watched.n_epochs
        for criterion, reading in rows:
            estimator = watched.kept[criterion]
            with temporary_params(estimator, readings[reading]):
                value = trial.validation_value(estimator, criterion)
            before = best.get((criterion, reading))
            if before is None or value > before.value:
                best[criterion, reading] = _Fit(value, estimator, settings, watched.followed)
    tested = _final_estimators(trial, method, best)
    metrics = {row: _test(trial, tested[row], readings[row[1]]) for row in rows}
    seconds = time.perf_counter() - started
    processor_seconds = time.process_time() - processor_started
    origin = provenance(trial.setting)
    results = [
        TrialResult(
            setting=trial.setting,
            dataset=trial.dataset,
            method=reading,
            seed=trial.seed,
            metrics=metrics[criterion, reading],
            validation=float(best[criterion, reading].value),
            chosen_settings=best[criterion, reading].settings,
            curve=_validation_curve(best[criterion, reading].estimator),
            seconds=seconds,
            processor_seconds=processor_seconds,
            criterion=criterion,
            test_curve=best[criterion, reading].test_curve,
            n_fits=method.n_fits + _is_refitted(trial),
            n_epochs=n_epochs,
            provenance=origin,
        )
        for criterion, reading in rows
    ]
    return results, tested[rows[0]]


def _final_estimators(
    trial: DataTrial, method: Method, best: Mapping[tuple[str, str], _Fit]
) -> dict[tuple[str, str], Any]:
    """Return the estimators to test: the chosen fits, or refits that include validation data.

    Refits train for the epochs chosen on validation; rows with the same choice share one.
    """
    if not _is_refitted(trial):
        return {row: fit.estimator for row, fit in best.items()}
    made: dict[int, Any] = {}
    for fit in best.values():
        if id(fit.estimator) not in made:
            settings = dict(fit.settings)
            epoch = None if method.decides else _best_epoch(fit.estimator)
            if epoch is not None:
                settings["max_epochs"] = epoch
            estimator = method.make(**settings, random_state=trial.seed)
            trial.refit(estimator, **_fit_options(method))
            made[id(fit.estimator)] = estimator
    return {row: made[id(fit.estimator)] for row, fit in best.items()}


def _is_refitted(trial: DataTrial) -> TypeGuard[ClickTrial]:
    """Return whether the chosen settings are refitted; only click logs have such a protocol."""
    return isinstance(trial, ClickTrial) and trial.refits


def _fit(trial: DataTrial, method: Method, settings: Settings) -> MonitoredFit:
    """Fit under some settings; a committee averages what each criterion keeps of its members."""
    n_members = method.n_estimators(settings)
    if method.is_committee:
        settings = {key: value for key, value in settings.items() if key != "n_members"}
    fits = [
        trial.fit(method.make(**settings, random_state=seed), **_fit_options(method))
        for seed in member_seeds(trial.seed, n_members)
    ]
    if n_members == 1:
        return fits[0]
    kept = {c: Committee([fit.kept[c] for fit in fits]) for c in trial.criteria}
    return MonitoredFit(kept, fits[0].followed, sum(fit.n_epochs for fit in fits))


def _fit_options(method: Method) -> dict[str, bool]:
    """Return the options of `fit` of a trial."""
    return {"supervised": method.supervised, **({"plain": True} if method.decides else {})}


@contextmanager
def temporary_params(estimator: Any, parameters: Settings) -> Iterator[None]:
    """Set parameters of a fitted estimator temporarily."""
    before = {name: getattr(estimator, name) for name in parameters}
    for name, value in parameters.items():
        setattr(estimator, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(estimator, name, value)


def _test(trial: DataTrial, estimator: Any, parameters: Settings) -> dict[str, float]:
    with temporary_params(estimator, parameters):
        metrics = trial.test_metrics(estimator)
        right = trial.chosen_right(estimator)
    return metrics if right is None else {**metrics, "chosen right": right}


def _validation_curve(estimator: Any) -> list[float]:
    return [float(record["validation"]) for record in _validated(estimator)]


def _best_epoch(estimator: Any) -> int | None:
    """Return the best validation epoch of any member."""
    records = _validated(estimator)
    if not records:
        return None
    return int(records[int(np.argmax(_validation_curve(estimator)))]["epoch"])


def _validated(estimator: Any) -> list[dict[str, Any]]:
    return [record for record in getattr(estimator, "history_", []) if "validation" in record]


def summarise(results: Sequence[TrialResult]) -> list[dict[str, Any]]:
    """Return mean and standard deviation over trials, a row per dataset, method and metric."""
    values: dict[tuple[str, str, str, str, str], list[float]] = {}
    for result in results:
        for metric, value in result.metrics.items():
            key = (result.setting, result.dataset, result.method, metric, result.criterion)
            values.setdefault(key, []).append(value)
    return [
        {
            "setting": setting,
            "dataset": dataset,
            "method": method,
            "metric": metric,
            "mean": float(np.mean(numbers)),
            "std": float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0,
            "trials": len(numbers),
            "criterion": criterion,
        }
        for (setting, dataset, method, metric, criterion), numbers in values.items()
    ]


def best_candidates(classifier: Any, rows: Any, candidates: Any) -> NDArray[Any]:
    """Return the most probable candidate of each row, shape (n_rows,)."""
    inside = np.where(np.asarray(candidates, dtype=bool), classifier.predict_proba(rows), -1.0)
    return np.asarray(classifier.classes_[inside.argmax(axis=1)])


@dataclass
class SmoothedClassifier:
    """A classifier whose probabilities are smoothed over ordered labels, such as ages.

    `ordinal_smoothing`: standard deviation of the smoothing, as in ours; 0 for none.
    """

    classifier: Any
    ordinal_smoothing: float = 0.0

    def fit(
        self, rows: Any, targets: Any, *, validate: Callable[[Any], float] | None = None
    ) -> SmoothedClassifier:
        """Fit the classifier; epochs are validated with smoothed probabilities."""
        if validate is not None and self._has_epochs():
            self.classifier.fit(rows, targets, validate=lambda _: validate(self))
        else:
            self.classifier.fit(rows, targets)
        return self

    def _has_epochs(self) -> bool:
        return has_fit_parameter(self.classifier, "validate")

    @property
    def keep(self) -> str:
        """Which epoch is kept: the best, or the last of a classifier without validation."""
        return "best" if self._has_epochs() else "last"

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One record per epoch."""
        return getattr(self.classifier, "history_", [])

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the probabilities."""
        return np.asarray(self.classifier.classes_)

    def predict_proba(self, rows: Any) -> FloatArray:
        """Return class probabilities, shape (n_rows, n_classes)."""
        answers = np.asarray(self.classifier.predict_proba(rows))
        if self.ordinal_smoothing == 0.0:
            return answers
        import torch

        from groupnoise.core.prior_weights import smooth_over_neighbours

        logs = torch.from_numpy(np.log(np.maximum(answers, np.finfo(answers.dtype).tiny)))
        return smooth_over_neighbours(logs, self.ordinal_smoothing).exp().numpy()

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the most probable label of each row, shape (n_rows,)."""
        if self.ordinal_smoothing == 0.0:
            return np.asarray(self.classifier.predict(rows))
        return np.asarray(self.classes_[self.predict_proba(rows).argmax(axis=1)])

    disambiguate = best_candidates


@dataclass
class Committee:
    """An ensemble of fitted classifiers with averaged probabilities."""

    members: list[Any]

    @property
    def history_(self) -> list[dict[str, Any]]:
        """The records of the first member."""
        return getattr(self.members[0], "history_", [])

    @property
    def ordinal_smoothing(self) -> float:
        """The smoothing of every member."""
        return float(self.members[0].ordinal_smoothing)

    @ordinal_smoothing.setter
    def ordinal_smoothing(self, std: float) -> None:
        for member in self.members:
            member.ordinal_smoothing = std

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the probabilities."""
        return np.asarray(self.members[0].classes_)

    def predict_proba(self, rows: Any) -> FloatArray:
        """Return the mean class probabilities, shape (n_rows, n_classes)."""
        return np.asarray(np.mean([each.predict_proba(rows) for each in self.members], axis=0))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the most probable label of each row, shape (n_rows,)."""
        return np.asarray(self.classes_[self.predict_proba(rows).argmax(axis=1)])

    disambiguate = best_candidates


def member_seeds(random_state: int, n_members: int) -> list[int]:
    """Return a seed for each member: the given one for a single member."""
    if n_members == 1:
        return [random_state]
    generator = np.random.default_rng(random_state)
    return [int(seed) for seed in generator.integers(2**31, size=n_members)]
