"""The networks of the neural baselines, and how a classifier keeps and stores one."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from groupnoise._checks import check_choice, check_count, check_fraction
from groupnoise._typing import FloatArray
from groupnoise.baselines._classifier import SavedClassifier

HiddenWidths = int | tuple[int, ...]


class NetworkClassifier(SavedClassifier):
    """A classifier whose fitted state is a torch module, `network_`."""

    network_: nn.Module

    @abstractmethod
    def _build(self) -> nn.Module:
        """Return a fresh network for the classes and the width seen in `fit`."""

    def _logits(self, rows: FloatArray) -> FloatArray:
        """Return what the network says of each row, shape (n_rows, n_outputs)."""
        with torch.inference_mode():
            logits = self.network_(as_features(rows))
        return np.asarray(logits.double().numpy())

    def _arrays(self) -> dict[str, NDArray[Any]]:
        arrays = super()._arrays()
        for name, tensor in self.network_.state_dict().items():
            arrays[f"network.{name}"] = tensor.numpy()
        return arrays

    def _restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore(arrays)
        with torch.random.fork_rng(devices=[]):  # first weights are drawn, only to be replaced
            self.network_ = self._build()
        self.network_.load_state_dict(
            {
                name.removeprefix("network."): torch.from_numpy(array.copy())
                for name, array in arrays.items()
                if name.startswith("network.")
            }
        )
        self.network_.eval()


def as_features(rows: FloatArray) -> Tensor:
    """Return rows as the single-precision tensor a network takes."""
    return torch.from_numpy(rows.astype(np.float32))


def build_network(
    n_features: int, n_outputs: int, *, encoder: str, hidden: HiddenWidths, dropout: float
) -> nn.Sequential:
    """Return a linear map, or a perceptron with ReLU and dropout after each hidden layer."""
    check_choice("encoder", encoder, ("linear", "mlp"))
    layers = hidden_layers(n_features, hidden, dropout)
    if encoder == "linear":
        return nn.Sequential(nn.Linear(n_features, n_outputs))
    return nn.Sequential(*layers, nn.Linear(hidden_width(hidden), n_outputs))


def hidden_layers(n_features: int, hidden: HiddenWidths, dropout: float) -> nn.Sequential:
    """Return the hidden part of a perceptron: linear, ReLU and dropout for each width."""
    check_fraction("dropout", dropout)
    widths = _widths(hidden)
    layers: list[nn.Module] = []
    for before, after in pairwise([n_features, *widths]):
        layers += [nn.Linear(before, after), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers)


def hidden_width(hidden: HiddenWidths) -> int:
    """Return the width of the last hidden layer."""
    return _widths(hidden)[-1]


def _widths(hidden: HiddenWidths) -> tuple[int, ...]:
    widths = tuple(hidden) if isinstance(hidden, (tuple, list)) else (hidden,)
    for width in widths or (0,):
        check_count("hidden", width)
    return widths
