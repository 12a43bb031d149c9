"""PRODEN (and RC): cross-entropy on labels weighted by the model's own belief."""

from __future__ import annotations

from torch import Tensor

from groupnoise.baselines.partial_label._neural import (
    NeuralPartialLabelClassifier,
    candidate_log_softmax,
)


class PRODENClassifier(NeuralPartialLabelClassifier):
    r"""Progressive identification of the true label.

    .. math::
        \ell(x, S) = -\sum_{y \in S} w_y \log p_y(x), \qquad
        w_y \leftarrow \frac{p_y(x)}{\sum_{z \in S} p_z(x)}

    The weights start even over the candidates and are refreshed, without gradient, whenever the
    row was in a batch. The risk-consistent estimator RC of Feng et al. is the same loss.

    Other Parameters
    ----------------
    encoder, hidden, batch_norm, dropout
        The network, as in `NetworkClassifier`.
    max_epochs, batch_size, learning_rate, weight_decay, random_state
        Its training, as in `NetworkClassifier`.

    References
    ----------
    J. Lv et al., "Progressive identification of true labels for partial-label learning",
    ICML 2020.
    L. Feng et al., "Provably consistent partial-label learning", NeurIPS 2020.

    Examples
    --------
    >>> model = PRODENClassifier(encoder="linear", learning_rate=0.1, random_state=0)
    >>> model = model.fit([[-1.0], [-2.0], [1.0], [2.0]], [{0}, {0, 1}, {1}, {0, 1}])
    >>> model.predict([[-3.0], [3.0]]).tolist()
    [0, 1]
    """

    def _row_loss(self, logits: Tensor, candidates: Tensor, label_weights: Tensor) -> Tensor:
        return weighted_cross_entropy(logits, label_weights)

    def _label_weights(self, logits: Tensor, candidates: Tensor) -> Tensor:
        return candidate_log_softmax(logits, candidates).exp()


def weighted_cross_entropy(logits: Tensor, label_weights: Tensor) -> Tensor:
    """Return the cross-entropy of each row against weights of its labels, shape (n_rows,)."""
    return -(label_weights * logits.log_softmax(dim=1)).sum(dim=1)
