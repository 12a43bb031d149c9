"""IMIL: an unbiased instance-level risk from labels of bags (a reconstruction)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import brentq
from torch import Tensor
from torch.nn import functional as F

from groupnoise.bags.baselines.networks import NeuralBagClassifier
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.docstrings import inherit_docstring
from groupnoise.core.groups import Groups

MAX_WEIGHT = 1000.0
"""The most an instance of a negative bag may weigh, so that one vast bag cannot outweigh all."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class IMILClassifier(NeuralBagClassifier):
    r"""Instance-level risk estimated from bag labels: a reconstruction.

    Only the abstract of the paper was at hand; this follows the derivation that its claims allow.
    If instances are independent and positive with probability :math:`\pi`, an instance x of a bag
    of size n has :math:`P(Y = 0 \mid x) = P(y = 0 \mid x)(1 - \pi)^{n - 1}`, hence

    .. math:: R = E\big[\ell(g(x), 1)\big]
        + E\big[\mathbb{1}[Y = 0]\, w\, (\ell(g(x), 0) - \ell(g(x), 1))\big],
        \qquad w = (1 - \pi)^{-(n - 1)}

    with the logistic loss. The part that stands for the true positives,
    :math:`E[\ell(g, 1)] - E[\mathbb{1}[Y = 0]\, w\, \ell(g, 1)]`, cannot be negative and its
    estimate is held at zero, as in non-negative learning from positive and unlabeled data.
    :math:`\pi` solves :math:`\sum_i (1 - \pi)^{n_i}` = number of negative bags.

    Attributes
    ----------
    prior_ : ndarray of shape (n_problems,)
        The estimate of pi for each binary problem.

    References
    ----------
    M. Peng and Q. Zhang, "Address instance-level label prediction in multiple instance learning",
    arXiv:1905.12226, 2019.

    Examples
    --------
    >>> bags = [[[0.1], [5.0]], [[0.1], [0.0]], [[5.1], [0.2]], [[0.3], [0.0]]]
    >>> model = IMILClassifier(learning_rate=0.1, random_state=0)
    >>> model.fit(bags, ["owl", "none", "owl", "none"]).predict([[0.0], [6.0]]).tolist()
    ['none', 'owl']
    """

    _fitted_arrays = (*NeuralBagClassifier._fitted_arrays, "prior_")

    encoder: str = "linear"
    batch_size: int = 16
    learning_rate: float = 1e-2

    def _prepare(self, bags: Groups, answers: BoolArray) -> None:
        self.prior_ = np.array(
            [instance_prior(bags.sizes, int((~answer).sum())) for answer in answers.T]
        )

    def _batch_loss(self, rows: Tensor, bag_of: Tensor, answers: Tensor) -> Tensor:
        others = torch.bincount(bag_of, minlength=len(answers))[:, None] - 1  # (n_bags, 1)
        absent = torch.from_numpy(1 - self.prior_).to(answers.dtype).to(answers.device)
        weight = (absent ** (-others)).clamp(max=MAX_WEIGHT) * (1 - answers)  # (n_bags, n_problems)
        return imil_risk(self.network_(rows), weight[bag_of])

    def _bag_probabilities(self, bags: Groups) -> FloatArray:
        """Return the probability of the likeliest instance: a bag is what one of them is.

        Combining all instances as independent, as in training, calls every large bag positive.
        """
        probabilities = self._instance_probabilities(bags.objects)
        return np.asarray(np.maximum.reduceat(probabilities, bags.offsets[:-1], axis=0))


def instance_prior(sizes: IntArray, n_negative: int) -> float:
    """Return the share pi of positive instances that explains the number of negative bags.

    Parameters
    ----------
    sizes : ndarray of shape (n_bags,)
        The size of each bag.
    n_negative : int
        How many bags are negative. With none, half a bag is assumed, so that pi stays below one.
    """
    expected = min(max(float(n_negative), 0.5), len(sizes) - 1e-9)
    log_absent = brentq(
        lambda value: np.exp(value * sizes).sum() - expected, np.log(0.5 / len(sizes)) - 1, 0.0
    )
    return float(-np.expm1(log_absent))


def imil_risk(logits: Tensor, weight: Tensor) -> Tensor:
    """Return the non-negative risk of the instances, summed over the problems.

    Parameters
    ----------
    logits : Tensor of shape (n_instances, n_problems)
        Of the instances.
    weight : Tensor of shape (n_instances, n_problems)
        The weight w for instances of negative bags, 0 for those of positive bags.
    """
    loss_if_positive, loss_if_negative = F.softplus(-logits), F.softplus(logits)
    positives = (loss_if_positive * (1 - weight)).mean(dim=0)
    negatives = (loss_if_negative * weight).mean(dim=0)
    return (positives.clamp(min=0.0) + negatives).sum()
