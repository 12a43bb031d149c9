"""What a training of evidence saves after each epoch, so that a fit that was ended goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer


@dataclass
class EvidenceProgress:
    """What a training of evidence must find again to take the same further steps.

    `model`: what is trained.
    `optimizers`: with their moments.
    `generator`: decides the order of batches.
    `draws`: decide dropped clicks and negatives.
    `records`: one per finished epoch.
    `best`: best validation so far.
    `kept`: the weights that reached it.
    """

    model: nn.Module
    optimizers: list[Optimizer]
    generator: np.random.Generator
    draws: list[torch.Generator]
    records: list[dict[str, Any]] = field(default_factory=list)
    best: float = -np.inf
    kept: dict[str, Tensor] = field(default_factory=dict)

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return everything as what JSON holds and as arrays."""
        arrays = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        arrays |= {f"kept.{name}": value for name, value in self.kept.items()}
        for name, parameter, optimizer in self._parameters():
            arrays |= {f"{name}.{key}": value for key, value in optimizer.state[parameter].items()}
        for number, draw in enumerate(self.draws):
            arrays[f"draw.{number}"] = draw.get_state()
        content = {
            "generator": self.generator.bit_generator.state,
            "records": self.records,
            "best": None if np.isinf(self.best) else self.best,
        }
        return content, {name: value.detach().cpu().numpy() for name, value in arrays.items()}

    def unpack(self, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Become what was packed."""
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in arrays.items()}
        self.model.load_state_dict(_below("model.", tensors))
        self.kept = _below("kept.", tensors)
        for name, parameter, optimizer in self._parameters():
            state = _below(f"{name}.", tensors)
            optimizer.state[parameter] = {
                key: value.to(parameter.device) for key, value in state.items()
            }
        for number, draw in enumerate(self.draws):
            draw.set_state(tensors[f"draw.{number}"])
        self.generator.bit_generator.state = content["generator"]
        self.records = list(content["records"])
        self.best = -np.inf if content["best"] is None else float(content["best"])

    def _parameters(self) -> list[tuple[str, Tensor, Optimizer]]:
        return [
            (f"optimizer.{number}.{place}", parameter, optimizer)
            for number, optimizer in enumerate(self.optimizers)
            for place, parameter in enumerate(
                each for group in optimizer.param_groups for each in group["params"]
            )
        ]


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
