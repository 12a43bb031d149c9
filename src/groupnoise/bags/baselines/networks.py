"""The neural multiple-instance baselines that score instances: mi-Net, GICF and IMIL."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.optimize import brentq
from scipy.special import expit
from torch import Tensor
from torch.nn import functional as F

from groupnoise.bags.baselines.base import BagClassifier, BagIndex, bag_max, bag_mean
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import check_choice, check_positive
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring
from groupnoise.training.networks import (
    HiddenWidths,
    NetworkClassifier,
    Validate,
    as_features,
)

if TYPE_CHECKING:
    from typing_extensions import Self

POOLINGS = ("max", "mean", "log_mean_exp")
MAX_WEIGHT = 1000.0
"""The most an instance of a negative bag may weigh, so that one vast bag cannot outweigh all."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class NeuralBagClassifier(NetworkClassifier, BagClassifier):
    """A network from an instance to one logit per binary problem, trained on labels of bags.

    The binary problems are columns of one network. With a linear encoder they are as separate as
    one-vs-rest models; with a perceptron they share its hidden layers.

    Parameters
    ----------
    batch_size : int, default=8
        Bags per step.
    """

    pooling = "mean"
    hidden: HiddenWidths = 128
    max_epochs: int = 50
    batch_size: int = 8
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4

    @abstractmethod
    def _batch_loss(self, rows: Tensor, bag_of: Tensor, answers: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar.

        `rows` (n_instances, n_features): the instances of the bags of the batch. `bag_of`: the bag
        of each instance, counted in the batch. `answers` (n_bags, n_problems): 1 where the answer
        of the bag is yes, else 0.
        """

    def fit(
        self,
        bags: Any,
        y: Any,
        *,
        groups: Any = None,
        validate: Validate | None = None,
    ) -> Self:
        """Fit to bags of which only the labels as a whole are known.

        Parameters
        ----------
        validate : callable, optional
            Called with this classifier after each epoch; the epoch it scores highest is kept
            instead of the last.
        """
        found, answers = self._training_data(bags, y, groups)
        self._learn(found, answers, validate)
        return self

    def _prepare(self, bags: Groups, answers: BoolArray) -> None:
        """Check the parameters of the loss, and find what it needs to know of all bags."""

    def _learn(self, bags: Groups, answers: BoolArray, validate: Validate | None = None) -> None:
        self._prepare(bags, answers)
        features = as_features(bags.objects)
        labels = torch.from_numpy(answers.astype(np.float32))
        index = BagIndex(bags)

        device = self._device()

        def batch_loss(batch: Tensor) -> Tensor:
            instances, bag_of = index.gather(batch)
            rows, answered = features[instances].to(device), labels[batch].to(device)
            return self._batch_loss(rows, bag_of.to(device), answered)

        self._fit_network(batch_loss, len(bags), validate)

    @property
    def _n_outputs(self) -> int:
        return self._n_problems

    def _instance_probabilities(self, rows: FloatArray) -> FloatArray:
        return np.asarray(expit(self._logits(rows)))

    def _bag_probabilities(self, bags: Groups) -> FloatArray:
        probabilities = torch.from_numpy(self._instance_probabilities(bags.objects))
        bag_of = torch.from_numpy(bags.group_of_object)
        return np.asarray(pool(probabilities, bag_of, len(bags), self.pooling).numpy())


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


def pool(probabilities: Tensor, bag_of: Tensor, n_bags: int, pooling: str) -> Tensor:
    """Return the probability of each bag, shape (n_bags, n_problems)."""
    if pooling == "max":
        return bag_max(probabilities, bag_of, n_bags)
    if pooling == "mean":
        return bag_mean(probabilities, bag_of, n_bags)
    return bag_mean(probabilities.exp(), bag_of, n_bags).log()


def minet_loss(logits: Tensor, bag_of: Tensor, answers: Tensor, pooling: str) -> Tensor:
    """Return the mean binary cross-entropy of the bags, summed over the problems.

    `logits`: of shape (n_instances, n_problems). `bag_of`: the bag of each instance. `answers`
    (n_bags, n_problems): 1 for yes, 0 for no. `pooling` (one of "max", "mean", "log_mean_exp"): how
    instance probabilities become the bag's.
    """
    n_bags = len(answers)
    if pooling == "max":  # the sigmoid is monotone: pooling logits is the same, and never saturates
        pooled = bag_max(logits, bag_of, n_bags)
        losses = F.binary_cross_entropy_with_logits(pooled, answers, reduction="none")
    else:
        pooled = pool(logits.sigmoid(), bag_of, n_bags, pooling).clamp(0.0, 1.0)
        losses = F.binary_cross_entropy(pooled, answers, reduction="none")
    return losses.sum(dim=1).mean()


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class GICFClassifier(NeuralBagClassifier):
    r"""Group-instance cost function.

    .. math::
        \frac{1}{N^2} \sum_{i,j} K(x_i, x_j) (\hat y_i - \hat y_j)^2
        + \frac{\lambda}{K} \sum_k \Big(\frac{1}{|G_k|} \sum_{i \in G_k} \hat y_i - l_k\Big)^2,
        \qquad K(x, x') = e^{-\gamma \|x - x'\|^2}

    with :math:`\hat y = \sigma(g(x))`. The sums run over the instances and bags of a batch. This is
    the paper's cost; its published code takes the distance unsquared and shrinks the parameters
    in place of a momentum, which is not followed. Adam replaces SGD.

    Parameters
    ----------
    bag_weight : float, default=10.0
        The factor lambda.
    gamma : float, default=1.0
        Of the kernel, 1 in the paper. With many scaled features all rows are far apart; one over
        their number is then a better value.

    References
    ----------
    D. Kotzias, M. Denil, N. de Freitas and P. Smyth, "From group to individual labels using deep
    features", KDD 2015.

    Examples
    --------
    >>> bags = [[[4.0], [5.0]], [[0.1], [0.0]], [[5.1], [0.2]], [[0.3], [0.0]]]
    >>> model = GICFClassifier(learning_rate=0.1, random_state=0)
    >>> model.fit(bags, ["owl", "none", "owl", "none"]).predict([[0.0], [6.0]]).tolist()
    ['none', 'owl']
    """

    bag_weight: float = 10.0
    gamma: float = 1.0
    encoder: str = "linear"
    batch_size: int = 16
    learning_rate: float = 1e-2

    def _prepare(self, bags: Groups, answers: BoolArray) -> None:
        check_positive("bag_weight", self.bag_weight)
        check_positive("gamma", self.gamma)

    def _batch_loss(self, rows: Tensor, bag_of: Tensor, answers: Tensor) -> Tensor:
        kernel = (-self.gamma * torch.cdist(rows, rows).square()).exp()
        probabilities = self.network_(rows).sigmoid()
        return gicf_cost(probabilities, kernel, bag_of, answers, self.bag_weight)


def gicf_cost(
    probabilities: Tensor, kernel: Tensor, bag_of: Tensor, answers: Tensor, bag_weight: float
) -> Tensor:
    """Return the cost of a batch, summed over the problems.

    `probabilities`: of shape (n_instances, n_problems). `kernel` (n_instances, n_instances): how
    alike two instances are; symmetric. `bag_of`: the bag of each instance. `answers` (n_bags,
    n_problems): 1 for yes, 0 for no. `bag_weight`: the factor lambda.
    """
    # sum_ij K_ij (y_i - y_j)^2, without the (n, n, n_problems) array of differences
    own = (kernel.sum(dim=1)[:, None] * probabilities.square()).sum()
    mutual = (probabilities * (kernel @ probabilities)).sum()
    likeness = 2 * (own - mutual) / len(probabilities) ** 2
    means = bag_mean(probabilities, bag_of, len(answers))
    return likeness + bag_weight * (means - answers).square().sum(dim=1).mean()


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

    # To combine instances as independent, as in training, would call every large bag positive.
    pooling = "max"
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


def instance_prior(sizes: IntArray, n_negative: int) -> float:
    """Return the share pi of positive instances that explains the number of negative bags.

    `sizes`: the size of each bag. `n_negative`: how many bags are negative. With none, half a bag
    is assumed, so that pi stays below one.
    """
    expected = min(max(float(n_negative), 0.5), len(sizes) - 1e-9)
    log_absent = brentq(
        lambda value: np.exp(value * sizes).sum() - expected, np.log(0.5 / len(sizes)) - 1, 0.0
    )
    return float(-np.expm1(log_absent))


def imil_risk(logits: Tensor, weight: Tensor) -> Tensor:
    """Return the non-negative risk of the instances, summed over the problems.

    `logits`: of shape (n_instances, n_problems). `weight` (n_instances, n_problems): the weight w
    for instances of negative bags, 0 for those of positive bags.
    """
    loss_if_positive, loss_if_negative = F.softplus(-logits), F.softplus(logits)
    positives = (loss_if_positive * (1 - weight)).mean(dim=0)
    negatives = (loss_if_negative * weight).mean(dim=0)
    return (positives.clamp(min=0.0) + negatives).sum()
