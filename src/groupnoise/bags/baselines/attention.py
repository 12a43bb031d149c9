"""Attention MIL: a bag is the attention-weighted mean of its instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn
from torch.nn import functional as F

from groupnoise.bags.baselines.base import bag_softmax, bag_sum
from groupnoise.bags.baselines.networks import NeuralBagClassifier
from groupnoise.core.arrays import FloatArray
from groupnoise.core.checks import check_choice, check_count
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring
from groupnoise.training.networks import as_features, hidden_layers, hidden_width


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class AttentionMILClassifier(NeuralBagClassifier):
    r"""Attention-based multiple-instance network.

    With hidden features :math:`h_j` of the instances of a bag, the bag has the logit
    :math:`u^\top z + b`, trained by binary cross-entropy, where

    .. math:: z = \sum_j a_j h_j, \qquad a = \mathrm{softmax}_j\; w^\top \big(\tanh(V h_j)
        \odot \sigma(U h_j)\big)

    and the second factor is left out unless `gated`. Every class has an attention of its own.
    :meth:`instance_scores` is the attention. It says where the model looked, not which label an
    instance has, and ranks instances worse than networks in instance space do;
    :meth:`predict` therefore labels an instance as a bag of one.

    Parameters
    ----------
    attention_size : int, default=64
        Rows of V and U.
    gated : bool, default=True
        Whether the attention has its second factor.

    References
    ----------
    M. Ilse, J. Tomczak and M. Welling, "Attention-based deep multiple instance learning",
    ICML 2018.

    Examples
    --------
    >>> bags = [[[0.1], [5.0]], [[0.1], [0.0]], [[5.1], [0.2]], [[0.3], [0.0]]]
    >>> model = AttentionMILClassifier(learning_rate=0.01, random_state=0)
    >>> model.fit(bags, ["owl", "none", "owl", "none"]).predict([[0.0], [6.0]]).tolist()
    ['none', 'owl']
    """

    attention_size: int = 64
    gated: bool = True
    dropout: float = 0.2

    def _build(self) -> AttentionNetwork:
        check_choice("encoder", self.encoder, ("linear", "mlp"))
        check_count("attention_size", self.attention_size)
        trunk: nn.Module = hidden_layers(
            self.n_features_in_, self.hidden, batch_norm=self.batch_norm, dropout=self.dropout
        )
        width = hidden_width(self.hidden)
        if self.encoder == "linear":
            trunk, width = nn.Identity(), self.n_features_in_
        return AttentionNetwork(
            trunk, width, self._n_problems, attention_size=self.attention_size, gated=self.gated
        )

    def _logits_and_scores(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return cast("AttentionNetwork", self.network_).logits_and_scores(rows)

    def _batch_loss(self, rows: Tensor, bag_of: Tensor, answers: Tensor) -> Tensor:
        logits, scores = self._logits_and_scores(rows)
        return attention_loss(logits, scores, bag_of, answers)

    def _attention(self, bags: Groups) -> FloatArray:
        """Return the attention on each instance, shape (n_instances, n_problems)."""
        with torch.inference_mode():
            _, scores = self._logits_and_scores(as_features(bags.objects))
            bag_of = torch.from_numpy(bags.group_of_object)
            return np.asarray(bag_softmax(scores, bag_of, len(bags)).double().numpy())

    def _bag_probabilities(self, bags: Groups) -> FloatArray:
        logits = self._attention(bags) * self._logits(bags.objects)
        return np.asarray(expit(np.add.reduceat(logits, bags.offsets[:-1], axis=0)))

    def _instance_relevance(self, bags: Groups) -> FloatArray:
        # Two classes share one attention: it is looked at for either answer.
        attention = self._attention(bags)
        return np.repeat(attention, len(self.classes_) // self._n_problems, axis=1)


class AttentionNetwork(nn.Module):
    """Logits and attention scores of instances."""

    def __init__(
        self, trunk: nn.Module, width: int, n_problems: int, *, attention_size: int, gated: bool
    ) -> None:
        super().__init__()
        self.trunk = trunk
        self.classify = nn.Linear(width, n_problems)
        self.look = nn.Linear(width, attention_size)
        self.gate = nn.Linear(width, attention_size) if gated else None
        self.weigh = nn.Linear(attention_size, n_problems)

    def logits_and_scores(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and attention scores, each of shape (n_instances, n_problems)."""
        features = self.trunk(rows)
        view = self.look(features).tanh()
        if self.gate is not None:
            view = view * self.gate(features).sigmoid()
        return self.classify(features), self.weigh(view)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the logits of instances, each as a bag of one."""
        return self.logits_and_scores(rows)[0]


def attention_loss(logits: Tensor, scores: Tensor, bag_of: Tensor, answers: Tensor) -> Tensor:
    """Return the mean binary cross-entropy of the bags, summed over the problems.

    The classifier is linear and the attention sums to one, so classifying the weighted mean of
    the features is the same as averaging the instances' logits with these weights.

    `logits`, `scores` (n_instances, n_problems): of the instances; scores are what the softmax
    turns into attention. `bag_of`: the bag of each instance. `answers` (n_bags, n_problems): 1 for
    yes, 0 for no.
    """
    attention = bag_softmax(scores, bag_of, len(answers))
    pooled = bag_sum(attention * logits, bag_of, len(answers))
    losses = F.binary_cross_entropy_with_logits(pooled, answers, reduction="none")
    return losses.sum(dim=1).mean()
