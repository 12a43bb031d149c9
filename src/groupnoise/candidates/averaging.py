"""WeightedSettings: fitted settings that answer together, each with its weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor, nn

from groupnoise.candidates.model import CandidateModel
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.training.estimator import ObjectScores
from groupnoise.training.plan import History
from groupnoise.training.saved_state import OWN_ENCODER, WEIGHTS, read_parameters, saved_parameters

SETTING = "setting-"
"""What names of arrays begin with in a model folder, before the number of the setting."""


@dataclass(frozen=True)
class WeightedSettings(Sequence[tuple[float, CandidateModel]]):
    """Fitted settings of one classifier, as pairs of weight and model.

    Parameters
    ----------
    pairs : tuple of (float, CandidateModel), default=()
        Weights sum to one.
    """

    pairs: tuple[tuple[float, CandidateModel], ...] = ()

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, number: Any) -> Any:
        return self.pairs[number]

    def __iter__(self) -> Iterator[tuple[float, CandidateModel]]:
        return iter(self.pairs)

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
        result: FloatArray = logsumexp(weighted, axis=0)
        return result

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
            prefix = f"{SETTING}{number}."
            own = {
                name.removeprefix(prefix): each
                for name, each in arrays.items()
                if name.startswith((prefix, WEIGHTS))
            }
            parameters = read_parameters(record["parameters"])
            if parameters["encoder"] == OWN_ENCODER:
                parameters["encoder"] = encoder
            model = CandidateModel(**parameters)
            model._rebuild(record["fitted"], own)
            pairs.append((float(record["weight"]), model))
        return cls(tuple(pairs))
