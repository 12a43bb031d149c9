"""Encoders f and g, and sparse lookups in embedding tables.

Any `nn.Module` that maps a flat batch of inputs (n, ...) to vectors (n, dim) may replace them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from groupnoise.core.arrays import IntArray

if TYPE_CHECKING:
    from groupnoise.core.batching import GroupBatch

BYTE_VALUES = 256


def look_up(table: Tensor, ids: Tensor) -> Tensor:
    """Return the rows of a table; its gradient is sparse and holds each row once, in order.

    torch's own sparse embedding leaves repeated rows in the gradient, for the optimiser to sort and
    to add up. Adding them up here costs less, since the ids are at hand.

    >>> table = torch.ones(5, 2, requires_grad=True)
    >>> look_up(table, torch.tensor([3, 1, 3])).sum().backward()
    >>> table.grad._indices().tolist(), table.grad._values().tolist()
    ([[1, 3]], [[1.0, 1.0], [2.0, 2.0]])
    """
    rows: Tensor = _LookUp.apply(table, ids.flatten())  # type: ignore[no-untyped-call]
    return rows.view(*ids.shape, table.shape[1])


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, ids: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.shape = table.shape
        return table.index_select(0, ids)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (ids,) = ctx.saved_tensors
        rows, position = torch.unique(ids, return_inverse=True)
        values = upstream.new_zeros(len(rows), upstream.shape[1]).index_add_(0, position, upstream)
        gradient = torch.sparse_coo_tensor(
            rows.unsqueeze(0), values, ctx.shape, is_coalesced=True, check_invariants=False
        )
        return gradient, None


def reduced_precision(device: torch.device | str) -> torch.dtype | None:
    """Return the precision in which encoders run faster on a device, or None if there is none.

    Only hardware counts: a processor that merely emulates bfloat16 is many times slower in it
    than in float32.
    """
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    # torch has no public question for this, and older versions none at all.
    is_supported = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    if kind == "cpu" and is_supported is not None and is_supported():
        return torch.bfloat16
    return None


class IdentityEncoder(nn.Module):
    """The features themselves: f in the paper's multiple-instance setting."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the inputs unchanged."""
        return inputs


class LinearEncoder(nn.Module):
    """A linear map of features: g in the paper's partial-label setting."""

    def __init__(self, n_features: int, dim: int, *, generator: torch.Generator) -> None:
        super().__init__()
        # Variance 2 / n_features keeps the scale of activations through ReLU layers.
        self.weight = nn.Parameter(_normal(dim, n_features, (2.0 / n_features) ** 0.5, generator))
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (n, n_features) to (n, dim)."""
        return F.linear(inputs, self.weight, self.bias)


class MLPEncoder(nn.Module):
    """Linear layers with batch-free ReLU and dropout between them.

    `generator`: decides the initial weights and every dropout mask.
    """

    def __init__(
        self,
        n_features: int,
        hidden: Sequence[int],
        dim: int,
        *,
        dropout: float = 0.0,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        widths = [n_features, *hidden, dim]
        self.layers = nn.ModuleList(
            LinearEncoder(narrow, wide, generator=generator) for narrow, wide in pairwise(widths)
        )
        self.dropout = dropout
        self.generator = generator

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (n, n_features) to (n, dim); while training, with dropout."""
        values = inputs
        for layer in self.layers[:-1]:
            values = self._drop(F.relu(layer(values)))
        return self.layers[-1](values)

    def _drop(self, values: Tensor) -> Tensor:
        # nn.Dropout draws from torch's global generator; ours keeps `random_state` in charge.
        if not self.training or self.dropout == 0.0:
            return values
        return values * dropout_factors(values, self.dropout, self.generator)


def dropout_factors(like: Tensor, dropout: float, generator: torch.Generator) -> Tensor:
    """Return 0 for entries that are dropped and one over the chance to be kept for the others.

    One byte is drawn for each entry, eight with one number, which takes a fifth of the time of a
    Bernoulli draw; the chance is rounded to 1/256, and the factor is that of the rounded chance.
    """
    return byte_factors(random_bytes(like.shape, generator), dropout).to(like.device, like.dtype)


def random_bytes(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Return a random byte for each entry of an array."""
    n_entries = math.prod(shape)
    drawn = torch.empty(-(-n_entries // 8), dtype=torch.int64)
    drawn.random_(-(1 << 63), None, generator=generator)
    return drawn.view(torch.uint8)[:n_entries].view(*shape)


def n_kept_values(dropout: float) -> int:
    """Return how many of the 256 values of a byte keep an entry."""
    return max(1, round(BYTE_VALUES * (1 - dropout)))


def byte_factors(drawn: Tensor, dropout: float) -> Tensor:
    """Return what bytes of :func:`random_bytes` multiply their entries by."""
    kept = n_kept_values(dropout)
    factors = torch.ones(drawn.shape)
    if kept < BYTE_VALUES:
        # Written as numbers at once: truth values take ten times as long to compare and convert.
        torch.lt(drawn, kept, out=factors)
    return factors.mul_(BYTE_VALUES / kept)


class EmbeddingEncoder(nn.Module):
    """One learned vector per id: f and g of labels and items.

    `std`: standard deviation of the initial values, which `generator` decides.
    `sparse`: whether gradients hold only the rows that were looked up.
    """

    def __init__(
        self,
        n_ids: int,
        dim: int,
        *,
        std: float = 0.1,
        sparse: bool = False,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(_normal(n_ids, dim, std, generator))
        self.sparse = sparse

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (n,) to vectors (n, dim)."""
        return look_up(self.weight, ids) if self.sparse else F.embedding(ids, self.weight)


def unit_vectors(n_ids: int) -> EmbeddingEncoder:
    """Return a one-hot table, whose inner products select entries of the other vector."""
    table = EmbeddingEncoder(n_ids, n_ids, generator=torch.Generator())
    if not table.weight.is_meta:  # nothing to fill, and trying would load torch's compiler
        with torch.no_grad():
            table.weight.copy_(torch.eye(n_ids))
    return table


class FrozenEncoder(nn.Module):
    """An encoder that is used as it is: no gradient, no dropout, no running statistics.

    Parameters
    ----------
    encoder : nn.Module
        Maps inputs (n, ...) to vectors. A copy of it is taken: the module itself may still be
        trained elsewhere.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = copy.deepcopy(encoder).requires_grad_(False).eval()

    def train(self, mode: bool = True) -> FrozenEncoder:
        """Stay in evaluation mode whatever is asked for.

        Parameters
        ----------
        mode : bool, default=True
            Accepted as every module does, and without effect on the frozen encoder.

        Returns
        -------
        FrozenEncoder
            The module itself.
        """
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, ...) to vectors (n, dim) that carry no gradient.

        Parameters
        ----------
        inputs : Tensor of shape (n, ...)
            What the encoder reads.

        Returns
        -------
        Tensor of shape (n, dim)
            Vectors without gradient.
        """
        with torch.no_grad():
            vectors: Tensor = self.encoder(inputs)
        return vectors


def _normal(n_rows: int, n_columns: int, std: float, generator: torch.Generator) -> Tensor:
    """Return a matrix drawn from a normal distribution, or an empty one for a file to fill."""
    drawn = torch.empty(n_rows, n_columns)
    if not drawn.is_meta:  # there is nothing to draw, and trying would load torch's compiler
        drawn.normal_(0.0, std, generator=generator)
    return drawn


class LookedUpRows(NamedTuple):
    """Distinct table rows of a batch, and the slot of each lookup among them.

    `n_objects`: how many of them are objects.
    `collisions`: where a candidate is the target of a group itself, and does not count.
    `rows`: distinct rows of f, and then of g; of a table they share, those of objects and then the
        others.
    `objects`: slots of the objects at each position, flat; `members`, flat: of the objects of each
        group and then its target; `candidates`: of the candidates; `others`: of all targets and
        then the candidates.
    """

    n_objects: int
    collisions: tuple[Tensor, Tensor, Tensor] | None
    rows: Tensor
    objects: Tensor
    members: Tensor
    candidates: Tensor
    others: Tensor

    @classmethod
    def of(
        cls, batch: GroupBatch, sample: IntArray, place: IntArray, *, shared: bool
    ) -> LookedUpRows:
        """Find the distinct rows of the ids of a batch and of the candidates `sample`."""
        objects, mask = batch.objects.numpy(), batch.mask.numpy()
        if not mask.all():  # padding holds an id of the batch, and so adds none
            objects = np.where(mask, objects, objects.flat[mask.argmax()])
        objects = objects.astype(np.int64, copy=False)  # logs on disk may hold narrower numbers
        targets = batch.targets.numpy().astype(np.int64, copy=False)
        n_positions, n_groups = objects.size, len(targets)
        added = np.concatenate([targets, sample])
        if shared:
            everything = np.concatenate([objects.reshape(-1), added])
            rows, slots, n_objects = _distinct(everything, n_positions, place)
        else:
            rows, slots, n_objects = _distinct(objects.reshape(-1), n_positions, place)
            others, more, _ = _distinct(added, 0, place)
            rows = np.concatenate([rows, others])
            slots = np.concatenate([slots, n_objects + more])
        of_objects, of_others = slots[:n_positions], slots[n_positions:]
        of_targets, of_sample = of_others[:n_groups], of_others[n_groups:]
        members = np.empty((n_groups, objects.shape[1] + 1), dtype=np.int64)
        members[:, :-1] = of_objects.reshape(objects.shape)
        members[:, -1] = of_targets
        collisions = _collisions(of_targets, of_sample, len(rows), objects.shape[1])
        arrays = (rows, of_objects, members.reshape(-1), of_sample, of_others)
        return cls(n_objects, collisions, *map(torch.from_numpy, arrays))


def _distinct(ids: IntArray, n_leading: int, place: IntArray) -> tuple[IntArray, IntArray, int]:
    """Return each id once, the slot of every id among them, and how many are leading ones.

    Ids come in the order in which they first occur, so those among the first `n_leading` before the
    others. `place` (n_ids,): is written to; what it holds does not matter. Nothing is sorted.
    """
    position = np.arange(len(ids))
    place[ids[::-1]] = position[::-1]  # of several the last one counts: the first position
    first = place[ids]
    begins = first == position
    number = np.cumsum(begins)
    return ids[begins], number[first] - 1, int(number[n_leading - 1]) if n_leading else 0


def _collisions(
    targets: IntArray, candidates: IntArray, n_slots: int, size: int
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Return where a candidate is the target of a group itself, None if nowhere.

    The positions of such groups, and rows (of these positions) and columns (of the candidates) that
    do not count. `targets`, `candidates`: their slots, of `n_slots`.
    """
    is_candidate = np.zeros(n_slots, dtype=bool)
    is_candidate[candidates] = True
    groups = np.flatnonzero(is_candidate[targets])
    if not len(groups):
        return None
    row, column = np.nonzero(targets[groups, None] == candidates)
    within = np.arange(size)
    positions = (groups[:, None] * size + within).reshape(-1)
    rows = (row[:, None] * size + within).reshape(-1)
    columns = np.repeat(column, size)
    return torch.from_numpy(positions), torch.from_numpy(rows), torch.from_numpy(columns)
