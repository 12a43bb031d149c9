"""GICF: alike instances get alike labels, and labels of a bag average to its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from groupnoise.bags.baselines.base import bag_mean
from groupnoise.bags.baselines.networks import NeuralBagClassifier
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.core.checks import check_positive
from groupnoise.core.docstrings import inherit_docstring
from groupnoise.core.groups import Groups


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

    def _bag_probabilities(self, bags: Groups) -> FloatArray:
        probabilities = torch.from_numpy(self._instance_probabilities(bags.objects))
        bag_of = torch.from_numpy(bags.group_of_object)
        return np.asarray(bag_mean(probabilities, bag_of, len(bags)).numpy())


def gicf_cost(
    probabilities: Tensor, kernel: Tensor, bag_of: Tensor, answers: Tensor, bag_weight: float
) -> Tensor:
    """Return the cost of a batch, summed over the problems.

    Parameters
    ----------
    probabilities : Tensor of shape (n_instances, n_problems)
        Of the instances.
    kernel : Tensor of shape (n_instances, n_instances)
        How alike two instances are; symmetric.
    bag_of : int64 Tensor of shape (n_instances,)
        The bag of each instance.
    answers : Tensor of shape (n_bags, n_problems)
        1 for yes, 0 for no.
    bag_weight : float
        The factor lambda.
    """
    # sum_ij K_ij (y_i - y_j)^2, without the (n, n, n_problems) array of differences
    own = (kernel.sum(dim=1)[:, None] * probabilities.square()).sum()
    mutual = (probabilities * (kernel @ probabilities)).sum()
    likeness = 2 * (own - mutual) / len(probabilities) ** 2
    means = bag_mean(probabilities, bag_of, len(answers))
    return likeness + bag_weight * (means - answers).square().sum(dim=1).mean()
