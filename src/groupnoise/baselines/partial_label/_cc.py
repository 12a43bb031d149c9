"""CC: classifier-consistent partial-label learning."""

from __future__ import annotations

import torch
from torch import Tensor

from groupnoise.baselines.partial_label._neural import NeuralPartialLabelClassifier


class CCClassifier(NeuralPartialLabelClassifier):
    r"""Maximum likelihood of the candidate set.

    .. math:: \ell(x, S) = -\log \sum_{y \in S} p_y(x), \qquad p = \mathrm{softmax}(g(x))

    Other Parameters
    ----------------
    encoder, hidden, batch_norm, dropout
        The network, as in `NetworkClassifier`.
    max_epochs, batch_size, learning_rate, weight_decay, random_state
        Its training, as in `NetworkClassifier`.

    References
    ----------
    L. Feng et al., "Provably consistent partial-label learning", NeurIPS 2020.

    Examples
    --------
    >>> model = CCClassifier(encoder="linear", learning_rate=0.1, random_state=0)
    >>> model = model.fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    def _row_loss(self, logits: Tensor, candidates: Tensor, label_weights: Tensor) -> Tensor:
        return cc_loss(logits, candidates)


def cc_loss(logits: Tensor, candidates: Tensor) -> Tensor:
    """Return the negative log probability of each row's candidate set, shape (n_rows,)."""
    log_inside = logits.masked_fill(~candidates, -torch.inf).logsumexp(dim=1)
    return logits.logsumexp(dim=1) - log_inside
