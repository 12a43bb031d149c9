"""Baselines that answer as ours may: averaged over neighbouring labels, or several together."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray

PREPARATION = ("ordinal_smoothing", "n_members")
"""What a recipe may say of a classifier that has no such parameter itself."""


@dataclass
class SmoothedClassifier:
    """A classifier whose answers are averaged over labels in an order, such as ages.

    `classifier`: what is fitted.
    `ordinal_smoothing`: over how many neighbours answers are averaged, as ours does; 0 leaves them
        as they are.
    """

    classifier: Any
    ordinal_smoothing: float = 0.0

    def fit(
        self, rows: Any, targets: Any, *, validate: Callable[[Any], float] | None = None
    ) -> SmoothedClassifier:
        """Fit on rows; epochs are validated with averaged answers."""
        if validate is not None and self._has_epochs():
            self.classifier.fit(rows, targets, validate=lambda _: validate(self))
        else:
            self.classifier.fit(rows, targets)
        return self

    def _has_epochs(self) -> bool:
        return "validate" in inspect.signature(self.classifier.fit).parameters

    @property
    def keep(self) -> str:
        """Which epoch is kept: the best, or the last where there are none to watch."""
        return "best" if self._has_epochs() else "last"

    @property
    def history_(self) -> list[dict[str, Any]]:
        """One record per epoch."""
        history: list[dict[str, Any]] = getattr(self.classifier, "history_", [])
        return history

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

        from groupnoise.core.prior_weights import spread_over_neighbours

        logs = torch.from_numpy(np.log(np.maximum(answers, np.finfo(answers.dtype).tiny)))
        return spread_over_neighbours(logs, self.ordinal_smoothing).exp().numpy()

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the likeliest label of each row, shape (n_rows,)."""
        if self.ordinal_smoothing == 0.0:
            return np.asarray(self.classifier.predict(rows))
        return np.asarray(self.classes_[self.predict_proba(rows).argmax(axis=1)])

    def disambiguate(self, rows: Any, candidates: Any) -> NDArray[Any]:
        """Return the likeliest of each row's own candidates, a 0/1 matrix over `classes_`."""
        return best_candidates(self, rows, candidates)


@dataclass
class Committee:
    """Fitted classifiers that answer with their mean probabilities."""

    members: list[Any]

    @property
    def history_(self) -> list[dict[str, Any]]:
        """The records of the first member, as an example of all."""
        history: list[dict[str, Any]] = getattr(self.members[0], "history_", [])
        return history

    @property
    def ordinal_smoothing(self) -> float:
        """Over how many neighbouring labels each member averages its answers."""
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
        """Return the likeliest label of each row, shape (n_rows,)."""
        return np.asarray(self.classes_[self.predict_proba(rows).argmax(axis=1)])

    def disambiguate(self, rows: Any, candidates: Any) -> NDArray[Any]:
        """Return the likeliest of each row's own candidates, a 0/1 matrix over `classes_`."""
        return best_candidates(self, rows, candidates)


def best_candidates(classifier: Any, rows: Any, candidates: Any) -> NDArray[Any]:
    """Return the likeliest of each row's own candidates, shape (n_rows,)."""
    inside = np.where(np.asarray(candidates, dtype=bool), classifier.predict_proba(rows), -1.0)
    return np.asarray(classifier.classes_[inside.argmax(axis=1)])


def member_seeds(random_state: int, n_members: int) -> list[int]:
    """Return a seed for each member: the given one if there is but one."""
    if n_members == 1:
        return [random_state]
    generator = np.random.default_rng(random_state)
    return [int(seed) for seed in generator.integers(2**31, size=n_members)]
