"""LWS: a leveraged, weighted binary loss per label."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from groupnoise._checks import check_positive
from groupnoise.baselines.partial_label._neural import (
    NeuralPartialLabelClassifier,
    candidate_log_softmax,
)


@dataclass(kw_only=True, eq=False, repr=False)
class LWSClassifier(NeuralPartialLabelClassifier):
    r"""Leveraged weighted loss with the sigmoid loss :math:`\psi(z) = 1 / (1 + e^z)`.

    .. math::
        \ell(x, S) = \sum_{y \in S} w_y \psi(g_y(x)) + \beta \sum_{y \notin S} w_y \psi(-g_y(x))

    Both sums have weights of their own: the softmax of the logits inside the candidates, and
    outside them, refreshed without gradient whenever the row was in a batch.

    Parameters
    ----------
    leverage : float, default=2.0
        The factor beta; 0 leaves the other labels out.

    Other Parameters
    ----------------
    encoder, hidden, batch_norm, dropout
        The network, as in `NetworkClassifier`.
    max_epochs, batch_size, learning_rate, weight_decay, random_state
        Its training, as in `NetworkClassifier`.

    References
    ----------
    H. Wen et al., "Leveraged weighted loss for partial label learning", ICML 2021.

    Examples
    --------
    >>> model = LWSClassifier(encoder="linear", learning_rate=0.1, random_state=0)
    >>> model = model.fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    leverage: float = 2.0

    def _check_parameters(self) -> None:
        check_positive("leverage", self.leverage, allow_zero=True)

    def _row_loss(self, logits: Tensor, candidates: Tensor, label_weights: Tensor) -> Tensor:
        return leveraged_loss(logits, candidates, label_weights, self.leverage)

    def _label_weights(self, logits: Tensor, candidates: Tensor) -> Tensor:
        inside = candidate_log_softmax(logits, candidates).exp()
        # A row of which every label is a candidate has no label outside: 0/0 becomes 0.
        outside = candidate_log_softmax(logits, ~candidates).exp().nan_to_num(0.0)
        return torch.where(candidates, inside, outside)


def leveraged_loss(
    logits: Tensor, candidates: Tensor, label_weights: Tensor, leverage: float
) -> Tensor:
    """Return the leveraged weighted loss of each row, shape (n_rows,)."""
    inside = torch.sigmoid(-logits)  # psi(g)
    outside = leverage * torch.sigmoid(logits)  # beta psi(-g)
    return (label_weights * torch.where(candidates, inside, outside)).sum(dim=1)
