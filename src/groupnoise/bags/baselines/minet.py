"""mi-Net: a deep network scores instances, pooling makes the score of the bag."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.bags.baselines.base import bag_max, bag_mean
from groupnoise.bags.baselines.networks import NeuralBagClassifier
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.checks import check_choice
from groupnoise.core.docstrings import inherit_docstring
from groupnoise.core.groups import Groups
from groupnoise.training.networks import HiddenWidths

POOLINGS = ("max", "mean", "log_mean_exp")


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class MiNetClassifier(NeuralBagClassifier):
    r"""Multiple-instance network in instance space.

    .. math:: o_{ij} = \sigma(g(x_{ij})), \qquad o_i = \mathrm{pool}_j\, o_{ij}, \qquad
        \ell = -y_i \log o_i - (1 - y_i) \log (1 - o_i)

    Trained with Adam where the authors took SGD with momentum, and on batches of bags where they
    took one bag at a time.

    Parameters
    ----------
    pooling : {"max", "mean", "log_mean_exp"}, default="max"
        How instance probabilities become the bag's.

    References
    ----------
    X. Wang, Y. Yan, P. Tang, X. Bai and W. Liu, "Revisiting multiple instance neural networks",
    Pattern Recognition 74, 2018.

    Examples
    --------
    >>> bags = [[[0.1], [5.0]], [[0.1], [0.0]], [[5.1], [0.2]], [[0.3], [0.0]]]
    >>> model = MiNetClassifier(encoder="linear", learning_rate=0.1, random_state=0)
    >>> model.fit(bags, ["owl", "none", "owl", "none"]).predict([[0.0], [6.0]]).tolist()
    ['none', 'owl']
    """

    pooling: str = "max"
    hidden: HiddenWidths = (256, 128, 64)

    def _prepare(self, bags: Groups, answers: BoolArray) -> None:
        check_choice("pooling", self.pooling, POOLINGS)

    def _batch_loss(self, rows: Tensor, bag_of: Tensor, answers: Tensor) -> Tensor:
        return minet_loss(self.network_(rows), bag_of, answers, self.pooling)

    def _bag_probabilities(self, bags: Groups) -> FloatArray:
        probabilities = torch.from_numpy(self._instance_probabilities(bags.objects))
        bag_of = torch.from_numpy(bags.group_of_object)
        return np.asarray(pool(probabilities, bag_of, len(bags), self.pooling).numpy())


def pool(probabilities: Tensor, bag_of: Tensor, n_bags: int, pooling: str) -> Tensor:
    """Return the probability of each bag, shape (n_bags, n_problems)."""
    if pooling == "max":
        return bag_max(probabilities, bag_of, n_bags)
    if pooling == "mean":
        return bag_mean(probabilities, bag_of, n_bags)
    return bag_mean(probabilities.exp(), bag_of, n_bags).log()


def minet_loss(logits: Tensor, bag_of: Tensor, answers: Tensor, pooling: str) -> Tensor:
    """Return the mean binary cross-entropy of the bags, summed over the problems.

    Parameters
    ----------
    logits : Tensor of shape (n_instances, n_problems)
        Of the instances.
    bag_of : int64 Tensor of shape (n_instances,)
        The bag of each instance.
    answers : Tensor of shape (n_bags, n_problems)
        1 for yes, 0 for no.
    pooling : {"max", "mean", "log_mean_exp"}
        How instance probabilities become the bag's.
    """
    n_bags = len(answers)
    if pooling == "max":  # the sigmoid is monotone: pooling logits is the same, and never saturates
        pooled = bag_max(logits, bag_of, n_bags)
        losses = F.binary_cross_entropy_with_logits(pooled, answers, reduction="none")
    else:
        pooled = pool(logits.sigmoid(), bag_of, n_bags, pooling).clamp(0.0, 1.0)
        losses = F.binary_cross_entropy(pooled, answers, reduction="none")
    return losses.sum(dim=1).mean()
