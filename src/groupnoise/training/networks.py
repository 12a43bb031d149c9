"""The networks of the neural baselines, the loop that trains them, and their files."""

from __future__ import annotations

import copy
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from groupnoise.core.arrays import (
    FloatArray,
    ProgressCallback,
    RandomState,
    generator_from,
    strip_prefix,
)
from groupnoise.core.checks import check_choice, check_count, check_dropout, check_positive
from groupnoise.core.device import CPU, find_device
from groupnoise.core.threads import threads_for
from groupnoise.core.words import inherit_docstring
from groupnoise.exceptions import ParameterError, TrainingError
from groupnoise.training.baseline import SavedClassifier
from groupnoise.training.optimizer import Adam


@contextmanager
def seeded(generator: np.random.Generator) -> Iterator[None]:
    """Let torch draw from a seed of `generator` inside the block, and as before after it.

    Dropout reads torch's global generator and takes no other, so the global state is set aside
    rather than seeded.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator.integers(2**62)))
        yield


def train_network(
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
    losses: Callable[[], Iterable[tuple[Tensor, int]]],
    *,
    max_epochs: int,
    patience: int | None = None,
    validate: Callable[[], float] | None = None,
    on_epoch: ProgressCallback | None = None,
) -> list[dict[str, Any]]:
    """Minimize a loss; leave the network at its best epoch, in evaluation mode.

    Returns a record per epoch: epoch, loss, seconds, and validation if there is one. `losses`:
    called once per epoch; yields the mean loss of each batch, and its weight in the reported loss.
    `validate`: score to maximize; without it the last epoch counts as the best.
    """
    history: list[dict[str, Any]] = []
    best, best_epoch, best_state = -math.inf, 0, None
    for epoch in range(1, max_epochs + 1):
        started = time.perf_counter()
        network.train()
        total, whole = 0.0, 0
        for loss, weight in losses():
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total, whole = total + loss.item() * weight, whole + weight
        if not math.isfinite(total):
            raise TrainingError(
                f"the loss is no longer finite in epoch {epoch}; scale the features or lower "
                "learning_rate."
            )
        network.eval()
        record: dict[str, Any] = {"epoch": epoch, "loss": total / whole}
        if validate is not None:
            record["validation"] = validate()
            if record["validation"] > best:
                best, best_epoch = record["validation"], epoch
                best_state = copy.deepcopy(network.state_dict())
        record["seconds"] = time.perf_counter() - started
        history.append(record)
        if on_epoch is not None:
            on_epoch(record)
        if validate is not None and patience is not None and epoch - best_epoch >= patience:
            break
    if best_state is not None:
        network.load_state_dict(best_state)
    return history


def random_batches(n_rows: int, batch_size: int) -> list[Tensor]:
    """Cut random row numbers into batches; a last row alone joins the batch before.

    Batch normalization cannot learn from a single row.
    """
    batches = list(torch.randperm(n_rows).split(int(batch_size)))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches


HiddenWidths = int | tuple[int, ...]

Validate = Callable[[Any], float]
"""Scores a classifier after an epoch; larger is better."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class NetworkClassifier(SavedClassifier):
    """A classifier whose fitted state is a network, trained by Adam.

    Features should be scaled, by `scaling` or beforehand. Subclasses may have other defaults.

    Parameters
    ----------
    encoder : {"linear", "mlp"}, default="mlp"
        The network from features to logits: a linear map or a perceptron.
    hidden : int or tuple of int, default=300
        Widths of the hidden layers of the perceptron.
    batch_norm : bool, default=False
        Whether to normalize each hidden layer over the batch.
    dropout : float, default=0.5
        Fraction of hidden units dropped in training.
    max_epochs : int, default=60
        Passes over the data.
    batch_size : int, default=64
        Rows, or bags, per step.
    learning_rate : float, default=3e-3
        Adam's step size.
    weight_decay : float, default=1e-5
        Added to the gradient.
    device : str, default="auto"
        Where the training runs: "cpu", "cuda", "cuda:1", "mps"; "auto" takes a CUDA device where
        there is one. Fitted models lie in the memory of the CPU, and answer there.
    on_epoch : callable or None, default=None
        Called with one record per epoch.
    random_state : int, generator or None, default=None
        Decides the initial weights, the batches and the dropout.

    Attributes
    ----------
    network_ : torch.nn.Module
        The trained network.
    history_ : list of dict
        One record per epoch: epoch, loss, and validation if it was scored.
    """

    encoder: str = "mlp"
    hidden: HiddenWidths = 300
    batch_norm: bool = False
    dropout: float = 0.5
    max_epochs: int = 60
    batch_size: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 1e-5
    device: str = "auto"
    on_epoch: ProgressCallback | None = None
    random_state: RandomState = None

    @property
    @abstractmethod
    def _n_outputs(self) -> int:
        """How many logits the network gives, known once the classes are."""

    def _build(self) -> nn.Module:
        """Return a fresh network for the classes and the width seen in `fit`."""
        return build_network(
            self.n_features_in_,
            self._n_outputs,
            encoder=self.encoder,
            hidden=self.hidden,
            batch_norm=self.batch_norm,
            dropout=self.dropout,
        )

    def _fit_network(
        self, batch_loss: Callable[[Tensor], Tensor], n_rows: int, validate: Validate | None
    ) -> None:
        if self.batch_norm and min(self.batch_size, n_rows) < 2:
            raise ParameterError("batch_norm needs batches of two or more; raise batch_size.")
        for name in ("max_epochs", "batch_size"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate)
        check_positive("weight_decay", self.weight_decay, allow_zero=True)

        def losses() -> Iterator[tuple[Tensor, int]]:
            for rows in random_batches(n_rows, self.batch_size):
                yield batch_loss(rows), len(rows)

        with seeded(generator_from(self.random_state)):
            self.network_ = self._build().to(self._device())
            parameters = list(self.network_.parameters())
            optimizer = Adam(
                parameters, self.learning_rate, weight_decay=self.weight_decay, decoupled=False
            )
            with threads_for(self.batch_size * sum(each.numel() for each in parameters)):
                self.history_ = train_network(
                    self.network_,
                    optimizer,
                    losses,
                    max_epochs=self.max_epochs,
                    validate=validate and partial(validate, self),
                    on_epoch=self.on_epoch,
                )
        self.network_.to(CPU)

    def _device(self) -> torch.device:
        return find_device(self.device)

    def _logits(self, rows: FloatArray) -> FloatArray:
        """Return what the network says of each row, shape (n_rows, n_outputs)."""
        # In double precision a row gets the same answer alone and in a batch.
        network = copy.deepcopy(self.network_).cpu().double()
        with torch.inference_mode():
            return np.asarray(network(torch.from_numpy(rows.astype(np.float64))).numpy())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = super()._arrays()
        for name, tensor in self.network_.state_dict().items():
            arrays[f"network.{name}"] = tensor.numpy()
        return arrays

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        self.network_ = rebuild_network(self._build, strip_prefix("network.", arrays))


def rebuild_network(
    build: Callable[[], nn.Module], arrays: Mapping[str, NDArray[Any]]
) -> nn.Module:
    """Return a network with the weights of a file, ready to answer."""
    with torch.random.fork_rng(devices=[]):  # initial weights are drawn, only to be replaced
        network = build()
    network.load_state_dict({k: torch.from_numpy(v.copy()) for k, v in arrays.items()})
    return network.eval()


def as_features(rows: FloatArray) -> Tensor:
    """Return rows as the single-precision tensor a network takes."""
    return torch.from_numpy(rows.astype(np.float32))


def build_network(
    n_features: int,
    n_outputs: int,
    *,
    encoder: str,
    hidden: HiddenWidths,
    batch_norm: bool,
    dropout: float,
) -> nn.Sequential:
    """Return a linear map, or hidden layers and a linear map."""
    check_choice("encoder", encoder, ("linear", "mlp"))
    layers = hidden_layers(n_features, hidden, batch_norm=batch_norm, dropout=dropout)
    if encoder == "linear":
        return nn.Sequential(nn.Linear(n_features, n_outputs))
    return nn.Sequential(*layers, nn.Linear(hidden_width(hidden), n_outputs))


def hidden_layers(
    n_features: int, hidden: HiddenWidths, *, batch_norm: bool, dropout: float
) -> nn.Sequential:
    """Return for each width a linear map, ReLU and dropout, normalized on request."""
    check_dropout(dropout)
    layers: list[nn.Module] = []
    for before, after in pairwise([n_features, *_widths(hidden)]):
        norm = [nn.BatchNorm1d(after)] if batch_norm else []
        layers += [nn.Linear(before, after), *norm, nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers)


def hidden_width(hidden: HiddenWidths) -> int:
    """Return the width of the last hidden layer."""
    return _widths(hidden)[-1]


def _widths(hidden: HiddenWidths) -> tuple[int, ...]:
    widths = tuple(hidden) if isinstance(hidden, (tuple, list)) else (hidden,)
    for width in widths or (0,):
        check_count("hidden", width)
    return widths
