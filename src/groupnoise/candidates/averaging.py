"""Which settings answer together and how much each counts, how frequent labels are; fitted ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from groupnoise.candidates.answers import DETAILS
from groupnoise.candidates.held_out import at_temperature, information
from groupnoise.candidates.model import CandidateModel
from groupnoise.core.arrays import BoolArray, FloatArray, strip_prefix
from groupnoise.core.label_sets import check_equal_rows, read_candidate_sets
from groupnoise.core.objective import GroupObjective, ObjectScores
from groupnoise.core.scaling import rows_to_predict
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.halving import Search, is_tied
from groupnoise.decisions.portfolio import Option, is_auto
from groupnoise.training.parameters import (
    OWN_ENCODER,
    WEIGHTS,
    History,
    read_parameters,
    saved_parameters,
)

if TYPE_CHECKING:
    from typing_extensions import Self

SETTING = "setting-"
"""What names of arrays begin with in a model folder, before the number of the setting."""

MAX_KERNELS = 2
"""Kernels err alike, and the criterion flatters them: on `lost`, beside networks with a quarter of
their epochs, the best kernel was ahead by the criterion and six points behind in accuracy."""
MIN_AVERAGED, MAX_AVERAGED = 3, 5
"""Networks and kernels that are averaged: the best, and further ones that held-out rows cannot tell
from it."""
BEHIND = 4.0
"""Standard errors behind the first beyond which one of them is never averaged."""
FORESTS = ("trees", "random trees")
SHARE, SCALE = 1 / 3, 0.3
"""Most that forests count beside the others, and information a row by which forests behind the best
of these count e times less. The criterion flatters forests: on `birdsong` they are ahead by it and
four points behind in accuracy."""
LEAST, LEAST_TOLD = 0.1, 1 / 3
"""What forests must count, and tell beside the best setting, to be asked at all. One that tells
nothing beyond how frequent labels are would otherwise drown the others where a false label is
a candidate nearly everywhere."""
FACTORS = (0.35, 0.42, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0, 1.1, 1.2)
"""Of the temperatures of settings that answer together."""
N_STEPS = 50
"""Of expectation and maximization, for the frequencies of labels."""
MIN_DISTANCE = 0.1
"""Share of answers that must be amiss (total variation) before frequencies are heeded."""
ERRORS = 1.5
"""The same in units of what the number of held-out rows leaves to luck."""


class WeightedSettings(tuple[tuple[float, CandidateModel], ...]):
    """Fitted settings of one classifier, as pairs of weight and model; weights sum to one."""

    __slots__ = ()

    def members(self) -> nn.ModuleList:
        """Return the members of all settings, in the order of the settings."""
        return nn.ModuleList(member for _, model in self for member in model.members_)

    def member_weights(self) -> list[float]:
        """Return how much each member counts in the average."""
        return [weight / len(model.members_) for weight, model in self for _ in model.members_]

    def history(self) -> History:
        """Return the records of all trainings, with the number of the setting."""
        history = History()
        for number, (_, model) in enumerate(self):
            for record in model.history_:
                history.append({"setting": number + 1, **record})
        return history

    def log_pair(self, rows: FloatArray, temperature: float | None) -> list[Tensor]:
        """Return what each member says of every (row, label) pair."""
        return [pair for _, model in self for pair in model._log_pair(rows, temperature)]

    def predict_log_proba(self, rows: FloatArray) -> FloatArray:
        """Return the log of the average probability, shape (n_rows, n_classes)."""
        weighted = [np.log(weight) + model.predict_log_proba(rows) for weight, model in self]
        return logsumexp(weighted, axis=0)

    def select(self, rows: FloatArray, indicator: BoolArray) -> ObjectScores:
        """Return the average of what the settings say of the candidates of each row."""
        weights = [weight for weight, _ in self]
        answers = [model.select(rows, indicator) for _, model in self]
        scores, log_weight, responsibility = (
            np.average([getattr(each, name) for each in answers], axis=0, weights=weights)
            for name in ("scores", "log_weight", "responsibility")
        )
        table = np.full(indicator.shape, -np.inf)
        table[indicator] = scores
        position = np.cumsum(indicator, axis=1) - 1
        chosen = np.take_along_axis(position, table.argmax(axis=1)[:, None], axis=1)[:, 0]
        return ObjectScores(chosen, scores, log_weight, responsibility, answers[0].offsets)

    def state(self) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        """Return what a model folder keeps of the settings beside the weights of the members."""
        records, arrays = [], {}
        for number, (weight, model) in enumerate(self):
            fitted, more = model._fitted_state()
            parameters = saved_parameters(model.get_params(deep=False))
            records.append({"weight": weight, "parameters": parameters, "fitted": fitted})
            arrays.update({f"{SETTING}{number}.{name}": each for name, each in more.items()})
        return records, arrays

    @classmethod
    def from_state(
        cls, records: list[dict[str, Any]], arrays: dict[str, NDArray[Any]], encoder: Any
    ) -> WeightedSettings:
        """Return untrained settings as :meth:`state` described them; weights come later."""
        pairs = []
        for number, record in enumerate(records):
            own = strip_prefix(f"{SETTING}{number}.", arrays)
            own |= {name: each for name, each in arrays.items() if name.startswith(WEIGHTS)}
            parameters = read_parameters(record["parameters"])
            if parameters["encoder"] == OWN_ENCODER:
                parameters["encoder"] = encoder
            model = CandidateModel(**parameters)
            model._rebuild(record["fitted"], own)
            pairs.append((float(record["weight"]), model))
        return cls(pairs)


def averaged_options(search: Search) -> list[tuple[Option, float]]:
    """Return the options that answer together, and how much each counts.

    The best first; weights sum to one. Networks and kernels near the best of them count alike.
    Forests err in other rows: beside them they count at most a third, the less the further
    they are behind. `search`: all options with their scores.
    """
    scores = {trial.option: np.asarray(trial.scores) for trial in search.trials}
    told = {each.name: float(scores[each.name].mean()) for each in search.ranking}
    forests = [each for each in search.ranking if each.parameters["encoder"] in FORESTS]
    others = _near([each for each in search.ranking if each not in forests], scores)
    forests = _near(forests, scores)
    share = 1.0 if forests else 0.0
    if others and forests:
        best, ahead = told[forests[0].name], told[others[0].name]
        share = SHARE * math.exp(min(0.0, best - ahead) / SCALE)
        if share < LEAST or best < LEAST_TOLD * max(ahead, 0.0):
            forests, share = [], 0.0
    weights = {each.name: (1.0 - share) / len(others) for each in others}
    weights |= {each.name: share / len(forests) for each in forests}
    return [(each, weights[each.name]) for each in search.ranking if each.name in weights]


def _near(ranking: list[Option], scores: Mapping[str, FloatArray]) -> list[Option]:
    """Return the first of some options, and those not far behind it."""
    kernels = [each for each in ranking if each.parameters["encoder"] == "kernel"]
    left = [each for each in ranking if each not in kernels[MAX_KERNELS:]] or kernels
    return [
        option
        for number, option in enumerate(left[:MAX_AVERAGED])
        if is_tied(
            scores[left[0].name], scores[option.name], BEHIND if number < MIN_AVERAGED else 1.0
        )
    ]


def common_factor(
    predictions: Sequence[FloatArray], weights: Sequence[float], candidates: BoolArray
) -> float:
    """Return by what to multiply the temperatures of settings that answer together.

    Settings that are each as sure as they may be sound too timid in an average, for they differ.
    Under this factor the average tells most of held-out candidates.

    One of `FACTORS`. `predictions`: what each setting says of held-out rows, (n_rows, n_classes)
    each. `weights`: how much each counts. `candidates` (n_rows, n_classes): their candidate labels.
    """

    def told(factor: float) -> float:
        surer = [at_temperature(each, factor) for each in predictions]
        return float(information(np.average(surer, axis=0, weights=weights), candidates).mean())

    return max(FACTORS, key=told)


def label_frequencies(probabilities: FloatArray, candidates: BoolArray) -> FloatArray:
    r"""Return how frequent labels are, by expectation and maximization.

    Answers are changed by one factor for each label until their mean over the candidates of each
    row is what they answer:

    .. math:: \pi_c \leftarrow \frac1n \sum_i
        \frac{[c \in S_i]\, P(c \mid x_i)\, \pi_c / \bar P_c}
             {\sum_{d \in S_i} P(d \mid x_i)\, \pi_d / \bar P_d}

    Of shape (n_classes,). `probabilities` (n_rows, n_classes): of held-out rows. `candidates`
    (n_rows, n_classes): their candidate labels.
    """
    answered = np.maximum(probabilities.mean(axis=0), 1e-12)
    within = probabilities * candidates
    found: FloatArray = answered
    for _ in range(N_STEPS):
        shares = within * (found / answered)
        found = (shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)).mean(axis=0)
    return found


def label_offsets(probabilities: FloatArray, candidates: BoolArray) -> tuple[float, ...] | None:
    """Return what to add to the logarithms of answers so that labels are as frequent as they are.

    Normalizing over rows keeps a label from winning only because it is a candidate of many rows,
    and answers as if labels were equally frequent. That tells labels apart best, but where one
    label is most of the truth it is answered far too rarely. Offsets shrink to nothing where
    answers are nearly as frequent as labels: there they would be luck. None says so.

    `probabilities`, `candidates`: as in :func:`label_frequencies`.
    """
    answered = np.maximum(probabilities.mean(axis=0), 1e-12)
    frequent = label_frequencies(probabilities, candidates)
    distance = float(np.abs(frequent - answered).sum()) / 2
    # The mean distance of frequencies in a sample from those it was drawn from.
    luck = math.sqrt(2 / math.pi) * np.sqrt(answered * (1 - answered) / len(candidates)).sum() / 2
    strength = 1.0 - max(MIN_DISTANCE, ERRORS * float(luck)) / max(distance, 1e-12)
    if strength <= 0:
        return None
    offsets = strength * np.log((frequent + 1e-6) / answered)
    return tuple(round(float(each), 4) for each in offsets)


@inherit_docstring
class AveragedModel(CandidateModel):
    """Answers of one setting, or of several settings together where several were fitted."""

    settings_: WeightedSettings = WeightedSettings()
    """None before `fit` and where all parameters are explicit."""

    def _in_use(self, name: str) -> Any:
        if self.settings_:
            return self.settings_[0][1]._in_use(name)
        if name in DETAILS and is_auto(getattr(self, name)):
            return DETAILS[name]
        return super()._in_use(name)

    def _objective(self) -> GroupObjective:
        objectives = [model._objective() for _, model in self.settings_]
        return objectives[0] if objectives else super()._objective()

    def _log_pair(self, X: ArrayLike, temperature: float | None = None) -> list[Tensor]:
        if not self.settings_:
            return super()._log_pair(X, temperature)
        return self.settings_.log_pair(rows_to_predict(self, X), temperature)

    def _member_weights(self) -> list[float] | None:
        return self.settings_.member_weights() or None

    def calibrate(
        self, X: ArrayLike, candidates: Any, *, truth: Any = None, only_if_better: bool = True
    ) -> Self:
        """Make label probabilities honest with rows that were held out from training.

        One temperature for all logits is chosen so that the candidates become as likely as
        possible; true labels are not needed. `save` keeps the temperature, and `fit` forgets it.
        `calibration_trials_` says what it is worth on rows that it was not fitted on.
        """
        super().calibrate(X, candidates, truth=truth, only_if_better=only_if_better)
        for _, model in self.settings_:
            model.calibration_temperature_ = self.calibration_temperature_
        return self

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Return log P(label | row)."""
        check_is_fitted(self, "model_")
        if not self.settings_:
            return super().predict_log_proba(X)
        return self.settings_.predict_log_proba(rows_to_predict(self, X))

    def select(self, X: ArrayLike, candidates: Any) -> ObjectScores:
        """Return which candidate each row matches, and how all of its candidates score."""
        check_is_fitted(self, "model_")
        if not self.settings_:
            return super().select(X, candidates)
        rows = rows_to_predict(self, X)
        indicator, _ = read_candidate_sets(candidates, self.classes_)
        check_equal_rows(rows, indicator)
        return self.settings_.select(rows, indicator)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        if not self.settings_:
            return super()._fitted_state()
        records, arrays = self.settings_.state()
        state = {**self._classifier_state(), "settings": records}
        return state, {**arrays, **self._set_arrays()}

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        if "settings" not in fitted:
            super()._rebuild(fitted, arrays)
            return
        self._restore_classifier(fitted)
        self._restore_sets(arrays)
        self.settings_ = WeightedSettings.from_state(fitted["settings"], arrays, self.encoder)
        self.members_ = self.settings_.members()
        self.model_ = self._models()[0]
