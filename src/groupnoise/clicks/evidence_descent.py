"""The gradient of a step of a training of evidence, on one thread or several."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from groupnoise.clicks.evidence import EvidenceModel
from groupnoise.clicks.evidence_steps import (
    EvidencePlan,
    Lookup,
    SequenceBatch,
    SharedOfBatch,
    StepLoops,
    drawn_for,
    even_parts,
    read_sets,
)


def descend_loss(
    model: EvidenceModel,
    clicks: Tensor,
    plan: EvidencePlan,
    noise: torch.Generator,
    lookup: Lookup = F.embedding,
    *,
    pool: Executor | None = None,
    n_parts: int = 1,
    n_sets: int = 1,
    loops: StepLoops | None = None,
) -> float:
    """Return the loss of :func:`batch_loss`, and leave its gradient with the parameters.

    `pool`: threads that each take a part of the sequences; a step of many small operations has
    more of two threads that wait for each other once than of threads in each operation. What is
    drawn is the same. `n_parts`: how many parts. `n_sets`: parts that each draw what stands for the
    catalogue beside their own targets, whatever the threads: fewer scores than beside all targets.
    `loops`: compiled; None leaves everything to torch.
    """
    size = clicks.shape[1] - 1
    making = None
    if pool is not None and len(clicks) >= n_parts:
        making = pool.submit(SharedOfBatch.of, model, size, loops)
    batches = read_sets(model, _cut(clicks, n_sets, model.n_items), plan, noise, lookup)
    drawn = [drawn_for(model, batch) for batch in batches]
    n_targets = sum(len(batch.positive) for batch in batches)
    if pool is None or making is None:
        shared = SharedOfBatch.of(model, size, loops)
        losses = [
            batch.loss(model, shared, own) * (len(batch.positive) / n_targets)
            for batch, own in zip(batches, drawn, strict=True)
        ]
        loss = torch.stack(losses).sum()
        loss.backward()
        return loss.item()
    shared = making.result()
    encoder = model.encoder
    others = [] if encoder is None or shared.products else list(encoder.parameters())
    own_table, *own_products = (_leaf(each) for each in (shared.table, *shared.products))
    of_parts = shared._replace(table=own_table, products=own_products)

    def descend(cut: _Cut) -> tuple[float, tuple[Tensor, ...]]:
        leaves = [_leaf(each) for each in (cut.part.features, *cut.part[3:5])]
        part = cut.part._replace(features=leaves[0], vectors=leaves[1], bias=leaves[2])
        bytes_of = drawn[cut.number]
        own = None if bytes_of is None else [each[cut.rows, cut.columns] for each in bytes_of]
        loss = part.loss(model, of_parts, own) * (len(part.positive) / n_targets)
        asked = [*leaves, own_table, *own_products, *others]
        return loss.item(), torch.autograd.grad(loss, asked)

    cuts = [
        _Cut(number, *cut)
        for number, batch in enumerate(batches)
        for cut in batch.parts(-(-n_parts // len(batches)))
    ]
    found = list(pool.map(descend, cuts))
    slopes = [_sum(each) for each in zip(*(own[3:] for _, own in found), strict=True)]
    made = (shared.table, *shared.products)
    passing = pool.submit(torch.autograd.backward, made, slopes[: len(made)])
    for parameter, slope in zip(others, slopes[len(made) :], strict=True):
        parameter.grad = slope
    roots: list[Tensor] = []
    upstream: list[Tensor] = []
    for number, batch in enumerate(batches):
        own_parts = [
            (cut, own) for cut, (_, own) in zip(cuts, found, strict=True) if cut.number == number
        ]
        features = torch.zeros_like(batch.features)
        for cut, own in own_parts:
            features[cut.rows, cut.columns] = own[0]
        roots += [batch.features, batch.vectors, batch.bias]
        upstream += [features, *(_sum([own[n] for _, own in own_parts]) for n in (1, 2))]
    torch.autograd.backward(roots, upstream)
    passing.result()
    return sum(loss for loss, _ in found)


class _Cut(NamedTuple):
    """A part of the sequences of a set, with the number of the set."""

    number: int
    rows: slice
    columns: slice
    part: SequenceBatch


def _cut(clicks: Tensor, n_sets: int, fill: int) -> list[Tensor]:
    """Cut sequences into sets of about as many targets, each as long as its longest."""
    sizes = (clicks != fill).sum(1).cpu().numpy()
    return [
        clicks[begin:end, : int(sizes[begin:end].max())]
        for begin, end in even_parts(sizes - 1, n_sets)
    ]


def _leaf(values: Tensor) -> Tensor:
    """Return values whose gradient ends with them."""
    return values.detach().requires_grad_()


def _sum(parts: Sequence[Tensor]) -> Tensor:
    """Return the sum of arrays in the place of the first."""
    total, *others = parts
    for each in others:
        total += each
    return total
