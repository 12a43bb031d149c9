"""Baselines with what ours brings along: scaled features, and several members that answer together.

The classifiers of `bags.baselines` and `candidates.baselines` are what their papers describe and
leave both to the user. In a comparison a baseline may choose among the same scalings and have as
many members.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray
from groupnoise.core.groups import Groups
from groupnoise.core.scaling import Scaler

PREPARATION = ("scaling", "n_members")
"""What a recipe may say of a classifier that has no such parameter itself."""


@dataclass
class ScaledClassifier:
    """A classifier on features that are scaled as ours scales them.

    Parameters
    ----------
    classifier : Any
        What is fitted.
    scaling : {"standard", "l2", "power", "none"}
        Scaling of the features, learned from the training part.
    """

    classifier: Any
    scaling: str = "standard"
    scaler_: Scaler = field(init=False)

    def fit(
        self, inputs: Any, targets: Any, *, validate: Callable[[Any], float] | None = None
    ) -> ScaledClassifier:
        """Fit on rows or bags."""
        rows = inputs.objects if isinstance(inputs, Groups) else inputs
        self.scaler_ = Scaler(self.scaling).fit(rows)
        scaled: Any = self.scaler_(rows)
        if isinstance(inputs, Groups):
            scaled = Groups(scaled, inputs.offsets, inputs.targets)
        if validate is not None and self._has_epochs():
            self.classifier.fit(scaled, targets, validate=lambda _: validate(self))
        else:
            self.classifier.fit(scaled, targets)
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
        return np.asarray(self.classifier.predict_proba(self.scaler_(np.asarray(rows))))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the likeliest label of each row, shape (n_rows,)."""
        return np.asarray(self.classifier.predict(self.scaler_(np.asarray(rows))))

    def predict_bags(self, bags: Groups) -> NDArray[Any]:
        """Return the label of each bag, shape (n_bags,)."""
        return np.asarray(self.classifier.predict_bags(self._scaled(bags)))

    def bag_scores(self, bags: Groups) -> FloatArray:
        """Return the score of each class for each bag, shape (n_bags, n_classes)."""
        return np.asarray(self.classifier.bag_scores(self._scaled(bags)))

    def _scaled(self, bags: Groups) -> Groups:
        return Groups(self.scaler_(bags.objects), bags.offsets)

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
        history: list[dict[str, Any]] = self.members[0].history_
        return history

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
