"""Rivals with what ours brings along: scaled features, and several members that answer together.

The classifiers of `groupnoise.baselines` are what their papers describe and leave both to the
user. In a comparison a rival may choose among the same scalings and have as many members.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._checks import check_count
from groupnoise._scaling import Scaler
from groupnoise._typing import FloatArray
from groupnoise.groups import Groups

PREPARATION = ("scaling", "n_members")
"""What a recipe may say of a classifier that has no such parameter itself."""


@dataclass
class PreparedClassifier:
    """A classifier on scaled features, or the mean of several from different first weights.

    Parameters
    ----------
    make : callable
        Builds one classifier from `random_state`.
    scaling : {"standard", "l2", "none"}
        Scaling of the features, learned from the training part.
    n_members : int
        How many classifiers are fitted; their probabilities are averaged.
    random_state : int
        Decides the seed of each member.
    """

    make: Callable[..., Any]
    scaling: str = "standard"
    n_members: int = 1
    random_state: int = 0
    members_: list[Any] = field(default_factory=list, init=False)
    history_: list[dict[str, Any]] = field(default_factory=list, init=False)

    def fit(
        self, inputs: Any, targets: Any, *, validate: Callable[[Any], float] | None = None
    ) -> PreparedClassifier:
        """Fit on rows or bags; during validation the members so far answer together."""
        check_count("n_members", self.n_members)
        rows = inputs.objects if isinstance(inputs, Groups) else inputs
        self.scaler_ = Scaler(self.scaling).fit(rows)
        scaled: Any = self.scaler_(rows)
        if isinstance(inputs, Groups):
            scaled = Groups(scaled, inputs.offsets, inputs.targets)
        self.members_, self.history_ = [], []
        for seed in self._seeds():
            member = self.make(random_state=seed)
            self.members_.append(member)
            if validate is not None and _is_watched(member):
                member.fit(scaled, targets, validate=partial(_ask, validate, self))
            else:
                member.fit(scaled, targets)
            self.history_ += getattr(member, "history_", [])
        return self

    def _seeds(self) -> list[int]:
        """Return the seed itself for one member, so that it is the classifier as it stands."""
        if self.n_members == 1:
            return [self.random_state]
        generator = np.random.default_rng(self.random_state)
        return [int(seed) for seed in generator.integers(2**31, size=self.n_members)]

    @property
    def keep(self) -> str:
        """Which epoch a member keeps: the best, or the last where it has no epochs to watch."""
        return "best" if _is_watched(self.make(random_state=0)) else "last"

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, in the order of the probabilities."""
        return np.asarray(self.members_[0].classes_)

    def predict_proba(self, rows: Any) -> FloatArray:
        """Return the mean class probabilities, shape (n_rows, n_classes)."""
        scaled = self.scaler_(np.asarray(rows))
        answers = [member.predict_proba(scaled) for member in self.members_]
        return np.asarray(np.mean(answers, axis=0))

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the likeliest label of each row, shape (n_rows,)."""
        if len(self.members_) == 1:  # ties as the classifier itself breaks them
            return np.asarray(self.members_[0].predict(self.scaler_(np.asarray(rows))))
        return np.asarray(self.classes_[self.predict_proba(rows).argmax(axis=1)])

    def disambiguate(self, rows: Any, candidates: Any) -> NDArray[Any]:
        """Return the likeliest of each row's own candidates, a 0/1 matrix over `classes_`."""
        inside = np.where(np.asarray(candidates, dtype=bool), self.predict_proba(rows), -1.0)
        return np.asarray(self.classes_[inside.argmax(axis=1)])


def _is_watched(classifier: Any) -> bool:
    """Say whether a classifier looks at the validation part after every epoch."""
    return "validate" in inspect.signature(classifier.fit).parameters


def _ask(validate: Callable[[Any], float], committee: PreparedClassifier, _: Any) -> float:
    """Score all members so far where one of them asks for its own score."""
    return validate(committee)
