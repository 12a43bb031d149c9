"""The neural partial-label baselines CC, PRODEN (and RC) and LWS."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from groupnoise.candidates.baselines.base import PartialLabelClassifier
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.checks import check_positive
from groupnoise.core.words import inherit_docstring
from groupnoise.training.networks import NetworkClassifier, Validate, as_features

if TYPE_CHECKING:
    from typing_extensions import Self


@inherit_docstring
class NeuralPartialLabelClassifier(NetworkClassifier, PartialLabelClassifier):
    """A network from features to class logits, with a loss of logits and candidates.

    Parameters
    ----------
    batch_size : int, default=64
        Rows per step.
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
    ) -> Self:
        """Fit to rows whose label is known only up to a set of candidates.

        Parameters
        ----------
        validate : callable, optional
            Called with this classifier after each epoch; the epoch it scores highest is kept
            instead of the last.
        """
        rows, candidates = self._training_data(X, y)
        self._learn(rows, candidates, validate)
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters of the loss that make no sense."""

    def _learn(
        self, rows: FloatArray, candidates: BoolArray, validate: Validate | None = None
    ) -> None:
        self._check_parameters()
        features, allowed = as_features(rows), torch.from_numpy(candidates)
        # Equal logits make the starting weights even.
        weights = self._label_weights(torch.zeros(allowed.shape), allowed)
        device = self._device()

        def batch_loss(batch: Tensor) -> Tensor:
            logits = self.network_(features[batch].to(device))
            among = allowed[batch].to(device)
            loss = self._row_loss(logits, among, weights[batch].to(device)).mean()
            weights[batch] = self._label_weights(logits.detach(), among).cpu()
            return loss

        self._fit_network(batch_loss, len(features), validate)

    @property
    def _n_outputs(self) -> int:
        return len(self.classes_)

    def _class_scores(self, rows: FloatArray) -> FloatArray:
        return self._logits(rows)


def candidate_log_softmax(logits: Tensor, candidates: Tensor) -> Tensor:
    """Return log probabilities renormalised over the candidates; -inf at the other labels."""
    return logits.masked_fill(~candidates, -torch.inf).log_softmax(dim=1)


@inherit_docstring
class CCClassifier(NeuralPartialLabelClassifier):
    r"""Maximum likelihood of the candidate set.

    .. math:: \ell(x, S) = -\log \sum_{y \in S} p_y(x), \qquad p = \mathrm{softmax}(g(x))

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


@inherit_docstring
class PRODENClassifier(NeuralPartialLabelClassifier):
    r"""Progressive identification of the true label.

    .. math::
        \ell(x, S) = -\sum_{y \in S} w_y \log p_y(x), \qquad
        w_y \leftarrow \frac{p_y(x)}{\sum_{z \in S} p_z(x)}

    The weights start even over the candidates and are refreshed, without gradient, whenever the
    row was in a batch. The risk-consistent estimator RC of Feng et al. is the same loss.

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


@inherit_docstring
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
