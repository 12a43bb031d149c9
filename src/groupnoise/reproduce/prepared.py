"""Several members of a baseline that answer together, as those of ours do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray

PREPARATION = ("n_members",)
"""What a recipe may say of a classifier that has no such parameter itself."""


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
