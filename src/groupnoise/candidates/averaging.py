"""Which settings of a search are averaged, and the fitted average."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from groupnoise.candidates.model import CandidateModel
from groupnoise.candidates.prediction import DETAILS
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

SETTING_PREFIX = "setting-"
"""Of array names in a model folder, followed by the number of the setting."""
MAX_KERNELS = 2
"""Kernels make similar errors, and the criterion favours them: on `lost`, beside networks with a
quarter of their epochs, the best kernel led by the criterion and was six points less accurate."""
MIN_AVERAGED, MAX_AVERAGED = 3, 5
"""Networks and kernels in the average: the best, and those that held-out rows cannot separate from
it."""
MAX_STD_ERRORS = 4.0
"""Standard errors behind the best beyond which a setting is never averaged."""
FORESTS = ("trees", "random trees")
MAX_FOREST_WEIGHT, FOREST_SCALE = 1 / 3, 0.3
"""Maximum weight of forests, and the information per row behind the best other setting by which it
falls by a factor of e. The criterion favours forests: on `birdsong` they lead by it and are four
points less accurate."""
MIN_FOREST_WEIGHT, MIN_FOREST_INFORMATION = 0.1, 1 / 3
"""Weight, and information relative to the best other setting, below which forests are left out.
Where a false label is a candidate of nearly every row, a forest that has learned label frequencies
alone would dominate the average."""


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
            arrays.update({f"{SETTING_PREFIX}{number}.{name}": each for name, each in more.items()})
        return records, arrays

    @classmethod
    def from_state(
        cls, records: list[dict[str, Any]], arrays: dict[str, NDArray[Any]], encoder: Any
    ) -> WeightedSettings:
        """Return untrained settings as :meth:`state` described them; weights come later."""
        pairs = []
        for number, record in enumerate(records):
            own = strip_prefix(f"{SETTING_PREFIX}{number}.", arrays)
            own |= {name: each for name, each in arrays.items() if name.startswith(WEIGHTS)}
            parameters = read_parameters(record["parameters"])
            if parameters["encoder"] == OWN_ENCODER:
                parameters["encoder"] = encoder
            model = CandidateModel(**parameters)
            model._rebuild(record["fitted"], own)
            pairs.append((float(record["weight"]), model))
        return cls(pairs)


def averaged_options(search: Search) -> list[tuple[Option, float]]:
    """Return the options to average and their weights, best first.

    Networks and kernels near the best of them have equal weights. Forests make different errors:
    beside the others they get up to a third, less the further they are behind.
    """
    scores = {trial.option: np.asarray(trial.scores) for trial in search.trials}
    mean = {each.name: float(scores[each.name].mean()) for each in search.ranking}
    forests = [each for each in search.ranking if each.parameters["encoder"] in FORESTS]
    others = _near_best([each for each in search.ranking if each not in forests], scores)
    forests = _near_best(forests, scores)
    share = 1.0 if forests else 0.0
    if others and forests:
        best, ahead = mean[forests[0].name], mean[others[0].name]
        share = MAX_FOREST_WEIGHT * math.exp(min(0.0, best - ahead) / FOREST_SCALE)
        if share < MIN_FOREST_WEIGHT or best < MIN_FOREST_INFORMATION * max(ahead, 0.0):
            forests, share = [], 0.0
    weights = {each.name: (1.0 - share) / len(others) for each in others}
    weights |= {each.name: share / len(forests) for each in forests}
    return [(each, weights[each.name]) for each in search.ranking if each.name in weights]


def _near_best(ranking: list[Option], scores: Mapping[str, FloatArray]) -> list[Option]:
    """Return the first of a ranking, and those not far behind it."""
    kernels = [each for each in ranking if each.parameters["encoder"] == "kernel"]
    left = [each for each in ranking if each not in kernels[MAX_KERNELS:]] or kernels
    return [
        option
        for number, option in enumerate(left[:MAX_AVERAGED])
        if is_tied(
            scores[left[0].name],
            scores[option.name],
            MAX_STD_ERRORS if number < MIN_AVERAGED else 1.0,
        )
    ]


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
