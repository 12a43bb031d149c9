"""What the neural multiple-instance baselines share: a network trained on batches of bags."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import torch
from scipy.special import expit
from torch import Tensor, nn

from groupnoise._random import RandomState, generator_from
from groupnoise._typing import BoolArray, FloatArray
from groupnoise.baselines._network import (
    HiddenWidths,
    NetworkClassifier,
    as_features,
    build_network,
)
from groupnoise.baselines._training import seeded, train
from groupnoise.baselines.mil._base import BagClassifier
from groupnoise.baselines.mil._segments import BagIndex
from groupnoise.groups import Groups


class NeuralBagClassifier(NetworkClassifier, BagClassifier):
    """A network from an instance to one logit per binary problem, trained on labels of bags.

    The binary problems are columns of one network. With a linear encoder they are as separate as
    one-vs-rest models; with a perceptron they share its hidden layers.

    Scale the features first, for example with :class:`sklearn.preprocessing.StandardScaler`.

    Parameters
    ----------
    encoder : {"linear", "mlp"}
        The network from features to logits.
    hidden : int or tuple of int
        Widths of the hidden layers of the perceptron.
    dropout : float
        After each hidden layer.
    max_epochs : int
        Passes over the bags.
    batch_size : int
        Bags per step.
    learning_rate : float
        Adam's step size.
    weight_decay : float
        Added to the gradient.
    random_state : int, generator or None
        Decides the first weights, the batches and the dropout.
    """

    def __init__(
        self,
        *,
        encoder: str,
        hidden: HiddenWidths,
        dropout: float,
        max_epochs: int,
        batch_size: int,
        learning_rate: float,
        weight_decay: float,
        random_state: RandomState,
    ) -> None:
        self.encoder = encoder
        self.hidden = hidden
        self.dropout = dropout
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.random_state = random_state

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

    def _learn(self, bags: Groups, answers: BoolArray) -> None:
        features = as_features(bags.objects)
        labels = torch.from_numpy(answers.astype(np.float32))
        index = BagIndex(bags)
        with seeded(generator_from(self.random_state)):
            self.network_ = self._build()

            def batch_loss(batch: Tensor) -> Tensor:
                instances, bag_of = index.gather(batch)
                return self._batch_loss(features[instances], bag_of, labels[batch])

            train(
                self.network_,
                batch_loss,
                len(bags),
                max_epochs=self.max_epochs,
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                weight_decay=self.weight_decay,
            )

    def _build(self) -> nn.Module:
        return build_network(
            self.n_features_in_,
            self._n_problems,
            encoder=self.encoder,
            hidden=self.hidden,
            dropout=self.dropout,
        )

    def _instance_probabilities(self, rows: FloatArray) -> FloatArray:
        return np.asarray(expit(self._logits(rows)))
