"""What the neural partial-label baselines share: a network, a loss and weights of the labels."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from groupnoise._typing import BoolArray, FloatArray, ProgressCallback
from groupnoise.baselines._network import UNWATCHED, NetworkClassifier, Validate, Watch, as_features
from groupnoise.baselines.partial_label._base import PartialLabelClassifier

if TYPE_CHECKING:
    from typing_extensions import Self


class NeuralPartialLabelClassifier(NetworkClassifier, PartialLabelClassifier):
    """A network from features to class logits, with a loss of logits and candidates.

    Other Parameters
    ----------------
    encoder, hidden, batch_norm, dropout
        The network, as in `NetworkClassifier`.
    max_epochs, batch_size, learning_rate, weight_decay, random_state
        Its training, as in `NetworkClassifier`.
    """

    @abstractmethod
    def _row_loss(self, logits: Tensor, candidates: Tensor, label_weights: Tensor) -> Tensor:
        """Return the loss of each row, shape (n_rows,)."""

    def _label_weights(self, logits: Tensor, candidates: Tensor) -> Tensor:
        """Return the weight of each label of each row; all zeros if the loss uses none."""
        return torch.zeros_like(logits)

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        validate: Validate | None = None,
        on_epoch: ProgressCallback | None = None,
    ) -> Self:
        """Fit to rows whose label is known only up to a set of candidates.

        Parameters
        ----------
        X, y
            As in every partial-label classifier.
        validate : callable, optional
            Called with this classifier after each epoch; the epoch it scores highest is kept
            instead of the last.
        on_epoch : callable, optional
            Called with one record per epoch.

        Returns
        -------
        self
        """
        rows, candidates = self._training_data(X, y)
        self._learn(rows, candidates, Watch(validate, on_epoch))
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters of the loss that make no sense."""

    def _learn(self, rows: FloatArray, candidates: BoolArray, watch: Watch = UNWATCHED) -> None:
        self._check_parameters()
        features, allowed = as_features(rows), torch.from_numpy(candidates)
        # Equal logits make the starting weights even.
        weights = self._label_weights(torch.zeros(allowed.shape), allowed)

        def batch_loss(batch: Tensor) -> Tensor:
            logits = self.network_(features[batch])
            loss = self._row_loss(logits, allowed[batch], weights[batch]).mean()
            weights[batch] = self._label_weights(logits.detach(), allowed[batch])
            return loss

        self._fit_network(batch_loss, len(features), watch)

    @property
    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        return self._logits(rows)


def candidate_log_softmax(logits: Tensor, candidates: Tensor) -> Tensor:
    """Return log probabilities renormalised over the candidates; -inf at the other labels."""
    return logits.masked_fill(~candidates, -torch.inf).log_softmax(dim=1)
