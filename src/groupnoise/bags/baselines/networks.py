"""What the neural multiple-instance baselines share: a network trained on batches of bags."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor

from groupnoise.bags.baselines.base import BagClassifier, BagIndex
from groupnoise.core.arrays import BoolArray, FloatArray, ProgressCallback
from groupnoise.core.docstrings import inherit_docstring
from groupnoise.core.groups import Groups
from groupnoise.training.networks import (
    UNWATCHED,
    HiddenWidths,
    NetworkClassifier,
    Validate,
    Watch,
    as_features,
)

if TYPE_CHECKING:
    from typing_extensions import Self


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

    hidden: HiddenWidths = 128
    max_epochs: int = 50
    batch_size: int = 8
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4

    @abstractmethod
    def _batch_loss(self, rows: Tensor, bag_of: Tensor, answers: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar.

        Parameters
        ----------
        rows : Tensor of shape (n_instances, n_features)
            The instances of the bags of the batch.
        bag_of : int64 Tensor of shape (n_instances,)
            The bag of each instance, counted in the batch.
        answers : Tensor of shape (n_bags, n_problems)
            1 where the answer of the bag is yes, else 0.
        """

    def fit(
        self,
        bags: Any,
        y: Any,
        *,
        groups: Any = None,
        validate: Validate | None = None,
        on_epoch: ProgressCallback | None = None,
    ) -> Self:
        """Fit to bags of which only the labels as a whole are known.

        Parameters
        ----------
        validate : callable, optional
            Called with this classifier after each epoch; the epoch it scores highest is kept
            instead of the last.
        on_epoch : callable, optional
            Called with one record per epoch.
        """
        found, answers = self._training_data(bags, y, groups)
        self._learn(found, answers, Watch(validate, on_epoch))
        return self

    def _prepare(self, bags: Groups, answers: BoolArray) -> None:
        """Check the parameters of the loss, and find what it needs to know of all bags."""

    def _learn(self, bags: Groups, answers: BoolArray, watch: Watch = UNWATCHED) -> None:
        self._prepare(bags, answers)
        features = as_features(bags.objects)
        labels = torch.from_numpy(answers.astype(np.float32))
        index = BagIndex(bags)

        device = self._device()

        def batch_loss(batch: Tensor) -> Tensor:
            instances, bag_of = index.gather(batch)
            rows, answered = features[instances].to(device), labels[batch].to(device)
            return self._batch_loss(rows, bag_of.to(device), answered)

        self._fit_network(batch_loss, len(bags), watch)

    @property
    def _n_outputs(self) -> int:
        return self._n_problems

    def _instance_probabilities(self, rows: FloatArray) -> FloatArray:
        return np.asarray(expit(self._logits(rows)))
