"""NoisyLabelClassifier: single labels in, some of them wrong; a classifier of the true ones out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from groupnoise.candidates.estimator import MaxMatchingPartialLabelClassifier
from groupnoise.candidates.label_issues import (
    Belief,
    LabelIssues,
    believe,
    cross_fit,
    judge_labels,
    nearest_rows,
    read_single_labels,
)
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, ProgressCallback, RandomState
from groupnoise.core.checks import check_choice, check_count, check_features
from groupnoise.core.prior_weights import ClassWeight
from groupnoise.core.scaling import Scaler
from groupnoise.core.selection import Selection
from groupnoise.core.similarity import Similarity
from groupnoise.core.weighting import Weighting
from groupnoise.exceptions import DataError
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.workers import Workers

MIN_TRUST = 1e-4
"""The least weight of a candidate: what evidence dismisses may still be learned."""


class NoisyLabelClassifier(MaxMatchingPartialLabelClassifier):
    """Learn from single labels of which some are wrong.

    Every row becomes a group: its own label, and the labels that its neighbours and models
    trained on other rows find likely. How far each is trusted, log P(object | group), comes from
    this evidence and from an estimate of which labels are given in place of which; then the
    group is learned like any set of candidate labels.

    Parameters
    ----------
    evidence : {"both", "neighbours", "predictions"}
        Where candidates come from beside the given label: labels of near rows, predictions of
        models that did not see the row, or both multiplied. "neighbours" needs features in which
        near rows are alike, and trains a single model.
    n_candidates : int
        How many of the likeliest labels join the given one.
    n_neighbors : int
        How many near rows are asked.
    n_folds : int
        Parts of the cross-fitting; each is predicted by a model of the others.
    n_rounds : int
        How often evidence is gathered. From the second time on neighbours and models speak with
        what was believed of the labels before, instead of with the labels themselves.
    encoder, hidden, dim, dropout, scaling, normalize, candidates, n_negatives
        As in :class:`MaxMatchingPartialLabelClassifier`.
    selection, temperature, top_k
        How a row's score comes from its candidates; see
        :func:`groupnoise.core.make_selection`.
    weighting, weighting_strength, similarity, similarity_scale
        Group weighting by the likeness of labels, on top of the evidence; off by default.
    class_weight : "balanced", mapping of label to weight, or None
        How much the rows of each class count; a row counts as the mean of its candidates.
    max_epochs, batch_size, learning_rate, weight_decay, schedule, patience, keep
        See :class:`groupnoise.training.TrainingPlan`; the cross-fitted models train alike.
    n_members : int
        How many models are trained on the groups; their probabilities are averaged.
    mixed_precision : bool
        Run the encoder in bfloat16 where the processor computes in it; float32 elsewhere.
    on_epoch : callable, optional
        Called with a record after each epoch of the last training.
    random_state : int, generator or None
        Decides all randomness.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    noise_matrix_ : ndarray of shape (n_classes, n_classes)
        P(given label | true label), row by true label.
    label_issues_ : LabelIssues
        What is believed of each training label; not part of a saved model.
    n_features_in_, feature_names_in_, members_, log_normaliser_, history_
        As in :class:`MaxMatchingPartialLabelClassifier`.

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

    def __init__(
        self,
        *,
        evidence: str = "both",
        n_candidates: int = 5,
        n_neighbors: int = 10,
        n_folds: int = 5,
        n_rounds: int = 2,
        encoder: str | nn.Module = "mlp",
        hidden: int | Sequence[int] = (300,),
        dim: int = 64,
        dropout: float = 0.5,
        scaling: str = "standard",
        normalize: str = "objects",
        candidates: str = "in_batch",
        n_negatives: int = 1024,
        selection: str | Selection = "marginal",
        temperature: float | Sequence[float] | str = (1.0, 0.3),
        top_k: int = 2,
        weighting: str | Weighting | None = "sigmoid",
        weighting_strength: float | str = 0.0,
        similarity: str | Similarity = "dot",
        similarity_scale: float = 1.0,
        class_weight: ClassWeight = None,
        max_epochs: int = 40,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        weight_decay: float = 0.0,
        schedule: str = "cosine",
        patience: int | None = None,
        keep: str = "last",
        n_members: int = 1,
        mixed_precision: bool = False,
        on_epoch: ProgressCallback | None = None,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            encoder=encoder,
            hidden=hidden,
            dim=dim,
            dropout=dropout,
            scaling=scaling,
            normalize=normalize,
            candidates=candidates,
            n_negatives=n_negatives,
            selection=selection,
            temperature=temperature,
            top_k=top_k,
            weighting=weighting,
            weighting_strength=weighting_strength,
            similarity=similarity,
            similarity_scale=similarity_scale,
            class_weight=class_weight,
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            schedule=schedule,
            patience=patience,
            keep=keep,
            n_members=n_members,
            mixed_precision=mixed_precision,
            on_epoch=on_epoch,
            random_state=random_state,
        )
        self.evidence = evidence
        self.n_candidates = n_candidates
        self.n_neighbors = n_neighbors
        self.n_folds = n_folds
        self.n_rounds = n_rounds

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
        X : array-like of shape (n_rows, n_features)
            One row per instance.
        y : array-like of shape (n_rows,)
            One label per row.
        validate, workers, checkpoint
            As in :meth:`MaxMatchingPartialLabelClassifier.fit`, for the last training.
        """
        check_choice("evidence", self.evidence, ("both", "neighbours", "predictions"))
        for name, least in (("n_candidates", 1), ("n_neighbors", 1), ("n_folds", 2)):
            check_count(name, getattr(self, name), least=least)
        check_count("n_rounds", self.n_rounds)
        rows = check_features("X", X)
        given, classes = read_single_labels(y)
        if len(rows) != len(given):
            raise DataError(
                f"X has {len(rows)} rows, but there are {len(given)} labels; "
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

    def _gather(self, rows: NDArray[Any], given: IntArray, classes: NDArray[Any]) -> Belief:
        """Return what is believed of the labels after all rounds."""
        generator = self._generator()
        neighbours = predicted = None
        if self.evidence != "predictions":
            neighbours = nearest_rows(Scaler(self.scaling).fit(rows)(rows), self.n_neighbors)
        belief = Belief(np.eye(len(classes))[given], np.eye(len(classes)))
        for _ in range(self.n_rounds):
            trusted = belief.probabilities
            if self.evidence != "neighbours":
                predicted = self._predict_held_out(rows, given, trusted, classes, generator)
            belief = believe(given, trusted, predicted, neighbours)
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

    def _for_held_out(self, seed: int) -> MaxMatchingPartialLabelClassifier:
        """Return an unfitted model with these settings, for candidates and their weights."""
        names = MaxMatchingPartialLabelClassifier().get_params(deep=False)
        settings = {name: getattr(self, name) for name in names}
        settings.update(n_members=1, on_epoch=None, random_state=seed)
        return MaxMatchingPartialLabelClassifier(**settings)

    def _for_trials(self) -> MaxMatchingPartialLabelClassifier:
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
