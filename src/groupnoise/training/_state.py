"""TrainingState: everything that decides how a training goes on from where it is."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from groupnoise._random import torch_generator
from groupnoise.matching import MatchingModel
from groupnoise.training._history import History
from groupnoise.training._optimizer import RowAdam, make_optimizers
from groupnoise.training._plan import TrainingPlan


class BestWeights:
    """The weights of the epoch with the best validation value; the first wins ties."""

    def __init__(self) -> None:
        self.value = -math.inf
        self.epoch: int | None = None
        self.weights: dict[str, Tensor] | None = None

    def offer(self, value: float, epoch: int, model: MatchingModel) -> None:
        """Keep the weights of the model if no earlier epoch was as good."""
        if self.epoch is None or value > self.value:
            self.value, self.epoch = value, epoch
            self.weights = {name: tensor.clone() for name, tensor in tensors_of(model).items()}

    def epochs_since(self, epoch: int) -> int:
        """Return how many epochs ago the best one was."""
        return 0 if self.epoch is None else epoch - self.epoch

    def restore(self, model: MatchingModel) -> None:
        """Put the best weights into the model, if there were any."""
        if self.weights is not None:
            load_tensors(model, self.weights)


def tensors_of(model: MatchingModel) -> dict[str, Tensor]:
    """Return all that a model keeps, detached, each by one name even if two modules share it."""
    kept = model.state_dict()
    named = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor.detach() for name, tensor in named.items() if name in kept}


def load_tensors(model: MatchingModel, tensors: Mapping[str, Tensor]) -> None:
    """Put back what :func:`tensors_of` returned."""
    for name, tensor in tensors_of(model).items():
        tensor.copy_(tensors[name])


@dataclass
class TrainingState:
    """A training between two steps.

    Attributes
    ----------
    model : MatchingModel
        What is trained.
    optimizers : list of Optimizer
        Their moments belong to the state.
    order : numpy Generator
        Decides the order of the groups.
    draw : torch.Generator
        Decides every sampled candidate.
    history : History
        Records of the finished epochs.
    best : BestWeights
        Weights of the best of them.
    epoch : int
        How many epochs are finished.
    step : int
        How many steps of the epoch under way are finished.
    loss_sum : float
        Their losses, summed over groups.
    seconds : float
        The time they took.
    order_at_epoch : dict
        State of `order` when the epoch under way began: with `step` it is the place in the data.
    global_draw : Tensor
        State of torch's global generator when the training began; only an encoder of the user's
        own draws from it.
    """

    model: MatchingModel
    optimizers: list[Optimizer]
    order: np.random.Generator
    draw: torch.Generator
    history: History = field(default_factory=History)
    best: BestWeights = field(default_factory=BestWeights)
    epoch: int = 0
    step: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0
    order_at_epoch: dict[str, Any] = field(default_factory=dict)
    global_draw: Tensor = field(default_factory=torch.get_rng_state)

    @classmethod
    def begin(
        cls,
        model: MatchingModel,
        plan: TrainingPlan,
        generator: np.random.Generator,
        history: History | None = None,
    ) -> TrainingState:
        """Return the state before the first step."""
        draw = torch_generator(generator)
        optimizers = make_optimizers(
            model, learning_rate=plan.learning_rate, weight_decay=plan.weight_decay
        )
        state = cls(model, optimizers, generator, draw, History() if history is None else history)
        state.begin_epoch(0)
        return state

    def begin_epoch(self, epoch: int) -> None:
        """Stand before the first step of the next epoch, after `epoch` finished ones."""
        self.epoch, self.step = epoch, 0
        self.loss_sum, self.seconds = 0.0, 0.0
        self.order_at_epoch = copy.deepcopy(dict(self.order.bit_generator.state))

    def is_over(self, plan: TrainingPlan) -> bool:
        """Whether all epochs are done, or too many passed without a better one."""
        if self.epoch >= plan.max_epochs:
            return True
        return plan.patience is not None and self.best.epochs_since(self.epoch) >= plan.patience

    def catch_up(self) -> None:
        """Bring rows that were not looked up to date, before the tables are read whole."""
        for optimizer in self.optimizers:
            if isinstance(optimizer, RowAdam):
                optimizer.catch_up()

    @property
    def learning_rate(self) -> float:
        """The step size of the optimisers."""
        return float(self.optimizers[0].param_groups[0]["lr"])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
