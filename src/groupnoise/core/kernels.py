"""An encoder of Gaussian bumps at landmarks, which is solved for in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class KernelEncoder(nn.Module):
    """A weighted sum of Gaussian bumps at landmarks, and a constant."""

    def __init__(self, n_features: int, n_landmarks: int, dim: int) -> None:
        super().__init__()
        self.landmarks: Tensor
        self.width: Tensor
        self.register_buffer("landmarks", torch.zeros(n_landmarks, n_features))
        self.register_buffer("width", torch.ones(()))
        self.weight = nn.Parameter(torch.zeros(n_landmarks, dim), requires_grad=False)
        self.bias = nn.Parameter(torch.zeros(dim), requires_grad=False)

    @classmethod
    def of_sizes(cls, sizes: Mapping[str, Any], n_features: int, dim: int) -> KernelEncoder:
        """Return an empty encoder as large as :meth:`sizes` says."""
        return cls(n_features, int(sizes["n_landmarks"]), dim)

    def sizes(self) -> dict[str, int]:
        """Return the sizes of its arrays."""
        return {"n_landmarks": len(self.landmarks)}

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (n, n_features) to (n, dim)."""
        distances = torch.cdist(inputs, self.landmarks) / self.width
        return torch.exp(-(distances**2) / 2) @ self.weight + self.bias
