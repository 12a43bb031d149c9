"""NoisyLabelClassifier: single labels in, some of them wrong; a classifier of the true ones out."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.candidates.label_issues import (
    LabelIssues,
    LabelPosterior,
    combine_evidence,
    cross_fit,
    judge_labels,
    nearest_rows,
    read_single_labels,
)
from groupnoise.candidates.model import CandidateModel
from groupnoise.candidates.prediction import CandidateParameters
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_choice, check_count, check_features
from groupnoise.core.objective import Selection
from groupnoise.core.scaling import Scaler
from groupnoise.core.words import counted, inherit_docstring
from groupnoise.exceptions import DataError
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.workers import Workers

MIN_TRUST = 1e-4
"""Minimum weight of a candidate, which may still be learned against the evidence."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class NoisyLabelClassifier(CandidateModel):
    """Learn from single labels of which some are wrong.

    Every row becomes a group: its own label, and the labels that its neighbours and models
    trained on other rows find likely. How far each is trusted, log P(object | group), comes from
    this evidence and from an estimate of which labels are given in place of which; then the
    group is learned like any set of candidate labels.

    Parameters
    ----------
    evidence : {"both", "neighbours", "predictions"}, default="both"
        Where candidates come from beside the given label: labels of near rows, predictions of
        models that did not see the row, or both multiplied. "neighbours" needs features in which
        near rows are alike, and trains a single model.
    n_candidates : int, default=5
        Number of the likeliest labels that join the given one.
    n_neighbors : int, default=10
        Number of near rows that are asked.
    n_folds : int, default=5
        Parts of the cross-fitting; each is predicted by a model of the others.
    n_rounds : int, default=2
        How often evidence is gathered. From the second time on neighbours and models speak with
        what was believed of the labels before, instead of with the labels themselves.
    encoder : {"linear", "mlp"} or nn.Module, default="mlp"
        g. "linear" is the paper's.
    weighting_strength : float or "auto", default=0.0
        Lambda of the group weighting by the likeness of labels, on top of the evidence.
    max_epochs : int, default=40
        Passes over the data; the cross-fitted models train alike.

    Attributes
    ----------
    noise_matrix_ : ndarray of shape (n_classes, n_classes)
        P(given label | true label), row by true label.
    label_issues_ : LabelIssues
        What is believed of each training label; not part of a saved model.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.repeat(np.eye(3), 12, axis=0) + 0.01 * np.arange(36)[:, None]
    >>> y = np.repeat(["a", "b", "c"], 12)
    >>> y[5] = "c"
    >>> model = NoisyLabelClassifier(evidence="neighbours", random_state=0).fit(X, y)
    >>> model.label_issues_.ranked().tolist(), model.label_issues_.suggested[5].item()
    ([5], 'a')
    """

    evidence: str = "both"
    n_candidates: int = 5
    n_neighbors: int = 10
    n_folds: int = 5
    n_rounds: int = 2
    normalize: str = "objects"
    selection: str | Selection = "marginal"
    weighting_strength: float | str = 0.0
    max_epochs: int = 40
    learning_rate: float = 3e-3

    def fit(  # type: ignore[override]  # the weights of candidates are found, not given
        self,
        X: ArrayLike,
        y: Any,
        *,
        validate: Validate | None = None,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
    ) -> NoisyLabelClassifier:
        """Learn from rows and their labels, some of them wrong.

        Parameters
        ----------
        y : array-like of shape (n_rows,)
            One label per row.
        validate : callable, default=None
            Called with this estimator after each epoch of the last training.
        workers : Workers, default=None
            The processes that share the last training.
        checkpoint : Checkpoints, default=None
            Where the last training saves itself.
        """
        check_choice("evidence", self.evidence, ("both", "neighbours", "predictions"))
        for name, least in (("n_candidates", 1), ("n_neighbors", 1), ("n_folds", 2)):
            check_count(name, getattr(self, name), least=least)
        check_count("n_rounds", self.n_rounds)
        rows = check_features("X", X)
        given, classes = read_single_labels(y)
        if len(rows) != len(given):
            raise DataError(
                f"X has {counted(len(rows), 'rows')}, but there are {len(given)} labels; "
                "found input variables with inconsistent numbers of samples."
            )
        belief = self._gather(rows, given, classes)
        self.label_issues_: LabelIssues = judge_labels(belief, given, classes)
        self.noise_matrix_ = belief.noise
        super().fit(
            X,  # not the rows read from it: a data frame names its columns
            _label_sets(self._candidates_of(belief.probabilities, given), classes),
            candidate_weights=belief.probabilities + MIN_TRUST,
            validate=validate,
            workers=workers,
            checkpoint=checkpoint,
        )
        return self

    def _gather(self, rows: NDArray[Any], given: IntArray, classes: NDArray[Any]) -> LabelPosterior:
        """Return what is believed of the labels after all rounds."""
        generator = self._generator()
        neighbours = predicted = None
        if self.evidence != "predictions":
            neighbours = nearest_rows(Scaler(self.scaling).fit(rows)(rows), self.n_neighbors)
        belief = LabelPosterior(np.eye(len(classes))[given], np.eye(len(classes)))
        for _ in range(self.n_rounds):
            trusted = belief.probabilities
            if self.evidence != "neighbours":
                predicted = self._predict_held_out(rows, given, trusted, classes, generator)
            belief = combine_evidence(given, trusted, predicted, neighbours)
        return belief

    def _predict_held_out(
        self,
        rows: NDArray[Any],
        given: IntArray,
        belief: FloatArray,
        classes: NDArray[Any],
        generator: np.random.Generator,
    ) -> FloatArray:
        """Return P(label | row) from models of the other rows and what is believed of them."""
        candidates = self._candidates_of(belief, given)

        def predict(training: IntArray, held: IntArray) -> FloatArray:
            seen = np.flatnonzero(candidates[training].any(axis=0))
            probabilities = np.zeros((len(held), len(classes)))
            if len(seen) == 1:  # of two classes one has a single row, and it is held out
                probabilities[:, seen] = 1.0
                return probabilities
            model = self._for_held_out(int(generator.integers(2**31)))
            model.fit(
                rows[training],
                _label_sets(candidates[training], classes),
                candidate_weights=(belief[training] + MIN_TRUST)[:, seen],
            )
            probabilities[:, seen] = model.predict_proba(rows[held])
            return probabilities

        return cross_fit(predict, given, len(classes), self.n_folds, generator)

    def _for_held_out(self, seed: int) -> CandidateModel:
        """Return an unfitted model with these settings, for candidates and their weights."""
        settings = {each.name: getattr(self, each.name) for each in fields(CandidateParameters)}
        settings.update(n_members=1, on_epoch=None, random_state=seed)
        return CandidateModel(**settings)

    def _trial_estimator(self) -> CandidateModel:
        # By then the candidates and their weights are known, and only the training is tried.
        return self._for_held_out(0)

    def _candidates_of(self, belief: FloatArray, given: IntArray) -> BoolArray:
        """Return the likeliest labels of each row and its given one, (n_rows, n_classes)."""
        n_best = min(self.n_candidates, belief.shape[1])
        threshold = np.partition(belief, -n_best, axis=1)[:, -n_best]
        candidates: BoolArray = (belief >= threshold[:, None]) & (belief > 0)
        candidates[np.arange(len(given)), given] = True
        return candidates

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        fitted, arrays = super()._fitted_state()
        return fitted, {**arrays, "noise_matrix": self.noise_matrix_}

    def _rebuild(self, fitted: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        super()._rebuild(fitted, arrays)
        self.noise_matrix_ = arrays["noise_matrix"]


def _label_sets(candidates: BoolArray, classes: NDArray[Any]) -> list[NDArray[Any]]:
    return [classes[row] for row in candidates]
