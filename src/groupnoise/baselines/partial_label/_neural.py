"""What the neural partial-label baselines share: a network, a loss and weights of the labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from groupnoise._random import RandomState, generator_from
from groupnoise._typing import BoolArray, FloatArray, ProgressCallback
from groupnoise.baselines._network import (
    HiddenWidths,
    NetworkClassifier,
    as_features,
    build_network,
)
from groupnoise.baselines._training import seeded, train
from groupnoise.baselines.partial_label._base import PartialLabelClassifier

if TYPE_CHECKING:
    from typing_extensions import Self


class NeuralPartialLabelClassifier(NetworkClassifier, PartialLabelClassifier):
    """A linear map or a perceptron trained by Adam on a loss of logits and candidates.

    Scale the features first, for example with :class:`sklearn.preprocessing.StandardScaler`.

    Parameters
    ----------
    encoder : {"linear", "mlp"}, default="mlp"
        The network from features to logits.
    hidden : int or tuple of int, default=300
        Widths of the hidden layers of the perceptron.
    dropout : float, default=0.5
        After each hidden layer.
    max_epochs : int, default=60
        Passes over the rows.
    batch_size : int, default=64
        Rows per step.
    learning_rate : float, default=3e-3
        Adam's step size.
    weight_decay : float, default=1e-5
        Added to the gradient.
    random_state : int, generator or None
        Decides the first weights, the batches and the dropout.

    Attributes
    ----------
    network_ : torch.nn.Sequential
        The trained network.
    """

    def __init__(
        self,
        *,
        encoder: str = "mlp",
        hidden: HiddenWidths = 300,
        dropout: float = 0.5,
        max_epochs: int = 60,
        batch_size: int = 64,
        learning_rate: float = 3e-3,
        weight_decay: float = 1e-5,
        random_state: RandomState = None,
    ) -> None:
        self.encoder = encoder
        self.hidden = hidden
        self.dropout = dropout
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

    @abstractmethod
    def _row_loss(self, logits: Tensor, candidates: Tensor, label_weights: Tensor) -> Tensor:
        """Return the loss of each row, shape (n_rows,)."""

    def _label_weights(self, logits: Tensor, candidates: Tensor) -> Tensor:
        """Return the weight of each label of each row; all zeros if the loss uses none."""
        return torch.zeros_like(logits)

    def fit(
        self,
        X: Any,
        candidates: Any,
        *,
        validation: tuple[Any, Any] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Self:
        """Fit to rows whose label is known only up to a set of candidates.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_features)
            The rows.
        candidates : array-like, sparse matrix or sequence of n_rows sets
            Candidate labels of each row: a 0/1 matrix, a sequence of sets, or plain labels.
        validation : pair (X, y), optional
            Rows to :meth:`score` after each epoch: by accuracy if y holds labels, by covering
            rate if it holds candidates. The best epoch is kept instead of the last.
        progress : callable, optional
            Called with one record per epoch.

        Returns
        -------
        self
        """
        rows, indicator = self._training_data(X, candidates)
        score = None if validation is None else lambda: self.score(*validation)
        self._learn(rows, indicator, score, progress)
        return self

    def _learn(
        self,
        rows: FloatArray,
        candidates: BoolArray,
        validation: Callable[[], float] | None = None,
        progress: ProgressCallback | None = None,
    ) -> None:
        features = as_features(rows)
        allowed = torch.from_numpy(candidates)
        with seeded(generator_from(self.random_state)):
            self.network_ = self._build()
            # Equal logits make the starting weights even.
            weights = self._label_weights(torch.zeros(allowed.shape), allowed)

            def batch_loss(batch: Tensor) -> Tensor:
                logits = self.network_(features[batch])
                loss = self._row_loss(logits, allowed[batch], weights[batch]).mean()
                weights[batch] = self._label_weights(logits.detach(), allowed[batch])
                return loss

            train(
                self.network_,
                batch_loss,
                len(features),
                max_epochs=self.max_epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
                validation=validation,
                progress=progress,
            )

    def _build(self) -> nn.Sequential:
        return build_network(
            self.n_features_in_,
            len(self.classes_),
            encoder=self.encoder,
            hidden=self.hidden,
            dropout=self.dropout,
        )

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        return self._logits(rows)


def candidate_log_softmax(logits: Tensor, candidates: Tensor) -> Tensor:
    """Return log probabilities renormalised over the candidates; -inf at the other labels."""
    return logits.masked_fill(~candidates, -torch.inf).log_softmax(dim=1)
