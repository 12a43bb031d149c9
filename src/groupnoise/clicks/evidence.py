"""Selection before the softmax: the evidence of all clicks is added, then normalised over items.

With w_h(k) the weight of a click that k later clicks followed, in block h of the dimensions,

    s(y | X) = b_y + sum_h (sum_i w_h(k_i)) ** -a_h * sum_i w_h(k_i) f_h(x_i) . g_h(y),
    P(y | X) = softmax over y of s(y | X).

A history is one context vector, so the exact softmax costs one product per target however long the
history is. The blocks hold different memories: some fade after a click or two, some hardly. An
encoder may read the same vectors in order and add to the context; see
:mod:`groupnoise.clicks.recurrence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from groupnoise.clicks.recurrence import Recurrence
from groupnoise.clicks.recurrence_training import RecurrentEncoder
from groupnoise.clicks.scoring import ScoringRule

FADING_RATES = (0.03, 0.1, 0.3, 1.0)
"""How fast the initial weight of a click falls in each block, on log scale per later click."""
MIN_LOG_WEIGHT = -12.0
INITIAL_EXPONENT = 0.5


@dataclass(frozen=True)
class Evidence:
    """What additive evidence is scored with.

    Attributes
    ----------
    objects : float32 ndarray of shape (n_items, dim)
        f of every item.
    targets : float32 ndarray of shape (n_items, dim)
        g of every item.
    bias : float32 ndarray of shape (n_items,)
        Bias of every item as a target.
    block_widths : tuple of int
        How many dimensions each block has.
    position_weights : float32 ndarray of shape (n_blocks, history_length)
        The weight of a click by how many clicks came after it.
    exponents : tuple of float
        Of the sum of weights that each block is divided by: 0 adds, 1 averages.
    encoders : tuple of Recurrence, default=()
        Read a history in order and add to its context.
    """

    objects: NDArray[np.float32]
    targets: NDArray[np.float32]
    bias: NDArray[np.float32]
    block_widths: tuple[int, ...]
    position_weights: NDArray[np.float32]
    exponents: tuple[float, ...]
    encoders: tuple[Recurrence, ...] = ()

    def scaled(self, weight: float) -> Evidence:
        """Return evidence whose scores, the bias included, are multiplied by `weight`."""
        return replace(
            self,
            objects=(self.objects * np.float32(weight)).astype(np.float32),
            bias=(self.bias * np.float32(weight)).astype(np.float32),
            encoders=tuple(encoder.scaled(weight) for encoder in self.encoders),
        )

    def rule(self) -> ScoringRule:
        """Return the scoring rule that adds this evidence."""
        weights = self.position_weights.astype(np.float64).round(7)
        return ScoringRule(
            normalization="history",
            window_size=int(weights.shape[1]),
            weighting=None,
            block_widths=self.block_widths,
            position_weights=tuple(map(tuple, weights.tolist())),
            exponents=self.exponents,
            encoders=self.encoders,
        )


def joined(parts: Sequence[Evidence]) -> Evidence:
    """Return evidence whose scores are the sums of the scores of all parts.

    Parameters
    ----------
    parts : sequence of Evidence
        Of one catalogue; at least one.

    Returns
    -------
    Evidence
        As wide as all parts together; it remembers as many clicks as the longest.
    """
    length = max(part.position_weights.shape[1] for part in parts)
    weights = [
        np.pad(part.position_weights, ((0, 0), (0, length - part.position_weights.shape[1])))
        for part in parts
    ]
    begins = np.cumsum([0, *(part.objects.shape[1] for part in parts)]).tolist()
    return Evidence(
        np.concatenate([part.objects for part in parts], axis=1),
        np.concatenate([part.targets for part in parts], axis=1),
        np.sum([part.bias for part in parts], axis=0, dtype=np.float32),
        tuple(width for part in parts for width in part.block_widths),
        np.concatenate(weights),
        tuple(exponent for part in parts for exponent in part.exponents),
        tuple(
            encoder.moved(begin)
            for part, begin in zip(parts, begins, strict=False)
            for encoder in part.encoders
        ),
    )


class EvidenceModel(nn.Module):
    """Item vectors, and how much a click counts in each block by its position from the end.

    Parameters
    ----------
    objects : float32 ndarray of shape (n_items, dim)
        Initial f of every item, and g too.
    bias : float32 ndarray of shape (n_items,)
        Initial bias of every item as a target.
    history_length : int
        How many of the latest clicks count.
    shared : bool
        Whether f and g share one table.
    encoder : RecurrentEncoder, optional
        Reads the vectors of a history in order and adds to its context.
    """

    def __init__(
        self,
        objects: NDArray[np.float32],
        bias: NDArray[np.float32],
        *,
        history_length: int,
        shared: bool,
        encoder: RecurrentEncoder | None = None,
    ) -> None:
        super().__init__()
        self.n_items, self.dim = objects.shape
        self.n_blocks = min(len(FADING_RATES), self.dim)
        self.objects = nn.Parameter(torch.from_numpy(objects.copy()))
        self.targets = self.objects if shared else nn.Parameter(torch.from_numpy(objects.copy()))
        self.bias = nn.Parameter(torch.from_numpy(bias.copy()))
        rates = torch.tensor(FADING_RATES[: self.n_blocks]).unsqueeze(-1)
        fading = -rates * torch.arange(history_length)
        self.log_weights = nn.Parameter(fading.clamp_min(MIN_LOG_WEIGHT))  # (blocks, length)
        odds = INITIAL_EXPONENT / (1 - INITIAL_EXPONENT)
        self.exponent_logits = nn.Parameter(torch.full((self.n_blocks,), float(np.log(odds))))
        self.encoder = encoder

    @property
    def block_widths(self) -> tuple[int, ...]:
        """How many dimensions each block has; they differ by one at most."""
        cuts = np.linspace(0, self.dim, self.n_blocks + 1).astype(int)
        return tuple(np.diff(cuts).tolist())

    @property
    def exponents(self) -> Tensor:
        """Of the sum of weights that each block is divided by, shape (blocks,)."""
        return torch.sigmoid(self.exponent_logits)

    def contexts(self, clicks: Tensor, mask: Tensor, dropped: Tensor | None = None) -> Tensor:
        """Return the context vector after each click, shape (n, size, dim).

        Parameters
        ----------
        clicks : int64 Tensor of shape (n, size)
            Item indices, oldest first; padding follows them.
        mask : bool Tensor of shape (n, size)
            True where a click is real.
        dropped : Tensor of shape (n, size), optional
            Factors of the evidence of each click: 0 where it is dropped in training.

        Returns
        -------
        Tensor of shape (n, size, dim)
        """
        size, length = clicks.shape[1], self.log_weights.shape[1]
        at = torch.arange(size, device=clicks.device)
        later = at.unsqueeze(-1) - at  # (size, size)
        counts = (later >= 0) & (later < length)
        table = self.log_weights.exp()[:, later.clamp(0, length - 1)] * counts
        real = mask.to(self.objects.dtype)
        factor = real if dropped is None else real * dropped
        features = F.embedding(clicks, self.objects)
        vectors = features * factor.unsqueeze(-1)
        parts = []
        exponents = self.exponents
        for block, part in enumerate(vectors.split(self.block_widths, dim=-1)):
            total = (real @ table[block].t()).clamp_min(1e-6)  # (n, size)
            weighed = torch.matmul(table[block], part)
            parts.append(weighed * total.pow(-exponents[block]).unsqueeze(-1))
        added = torch.cat(parts, -1)
        return added if self.encoder is None else added + self.encoder(features)

    @torch.no_grad()
    def evidence(self) -> Evidence:
        """Return what the model has learned, as arrays.

        Weights are written so that a click that none followed counts as one: then the vector of
        an item is the context of a history that holds it alone.

        Returns
        -------
        Evidence
        """
        exponents = self.exponents
        last = (1 - exponents) * self.log_weights[:, 0]
        scale = last.exp().repeat_interleave(torch.tensor(self.block_widths))
        return Evidence(
            (self.objects * scale).numpy(),
            self.targets.detach().numpy().copy(),
            self.bias.detach().numpy().copy(),
            self.block_widths,
            (self.log_weights - self.log_weights[:, :1]).exp().numpy(),
            tuple(round(value, 7) for value in exponents.tolist()),
            () if self.encoder is None else (self.encoder.as_arrays(scale),),
        )
