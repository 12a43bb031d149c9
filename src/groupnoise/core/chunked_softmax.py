"""log of the softmax denominator of Eq. 5, in chunks and with a backward pass of its own.

The normalizer of a query is log sum_c exp(query . candidate_c + offset_c). Its gradient needs only
the log-sum-exp itself, so with many candidates nothing else is kept: the backward pass computes
the probabilities again, chunk by chunk, and memory grows with the chunk instead of |Y|. Queries
whose upstream gradient is zero are skipped: under max selection that is all but the chosen ones,
which makes `score everything, differentiate the chosen object alone` fall out by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from groupnoise.core.compiled import CLEAR_LOSS, LANES, Kernel

LOG2_E = math.log2(math.e)

KEPT_ELEMENTS = 1 << 22
"""Up to so many probabilities (16 MB in float32) are kept for the backward pass."""

MIN_CHUNK_WIDTH = 64
"""Candidates of a chunk below which products are slow: four times as many are kept instead."""

CHUNK_ELEMENTS = 1 << 19
"""Beyond that, logits held at a time (2 MB): large enough for BLAS, small enough for the cache."""

QUERIES_AT_ONCE = 4096
"""Queries of which a chunk still is of a good width; many more are taken in parts."""

BLOCK_ELEMENTS = 1 << 18
"""Logits of a block of queries that compiled loops go over (1 MB): what a usual cache holds."""


def log_normalizer(
    queries: Tensor,
    candidates: Tensor,
    offset: Tensor | None = None,
    excluded: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Return the log-sum-exp of each query over the candidates, both of shape (n, dim).

    Differentiable once in queries, candidates and offset. `offset`: added to the logits of each
    candidate: its bias, or a correction for sampling. `excluded`: (query, candidate) pairs that do
    not count; a query must keep a candidate.
    """
    if offset is None:
        offset = candidates.new_zeros(len(candidates))
    if excluded is None:
        nothing = torch.empty(0, dtype=torch.int64, device=queries.device)
        excluded = (nothing, nothing)
    keeps = _are_kept(len(queries), len(candidates))
    at_once = QUERIES_AT_ONCE if _is_narrow(len(queries)) and not keeps else len(queries)
    found = []
    for start in range(0, max(1, len(queries)), max(1, at_once)):
        part = queries[start : start + at_once]
        own = excluded
        if len(part) < len(queries):
            active = torch.arange(start, start + len(part), device=queries.device)
            own = _excluded_among(active, len(queries), *excluded)
        found.append(_LogNormalizer.apply(part, candidates, offset, *own, keeps))  # type: ignore[no-untyped-call]
    return found[0] if len(found) == 1 else torch.cat(found)


def cross_entropy(
    queries: Tensor,
    candidates: Tensor,
    offset: Tensor,
    positive: Tensor,
    loop: Kernel | None = None,
    levelling: float = 0.0,
) -> Tensor:
    """Return the mean over queries of the log-normalizer less the logit of the positive candidate.

    Differentiable once in queries, candidates and offset. `positive`: which candidate is right for
    each query. `loop`: the compiled :func:`~groupnoise.core.compiled.cross_entropy_kernel`; None
    leaves everything to torch. `levelling`: see :func:`levelled`.
    """
    if loop is not None:
        return _BlockedCrossEntropy.apply(queries, candidates, offset, positive, loop, levelling)  # type: ignore[no-untyped-call]
    if len(queries) * len(candidates) <= KEPT_ELEMENTS:
        return _CrossEntropy.apply(queries, candidates, offset, positive, levelling)  # type: ignore[no-untyped-call]
    logits = (queries * F.embedding(positive, candidates)).sum(-1) + offset[positive]
    return levelled(log_normalizer(queries, candidates, offset) - logits, levelling).mean()


def levelled(losses: Tensor, levelling: float) -> Tensor:
    """Return losses that rise ever less beyond four nats, to at most 1 / levelling more.

    With u_0 = 4, a loss u > u_0 becomes u_0 + (1 - exp(-levelling (u - u_0))) / levelling: a target
    of probability p, if that is below exp(-u_0), moves the model p ** levelling times as far as by
    the cross-entropy, up to a factor. 0 changes nothing.
    """
    if not levelling:
        return losses
    over = (losses - float(CLEAR_LOSS)).clamp_min(0.0)
    return losses - over - torch.expm1(-levelling * over) / levelling


class _CrossEntropy(torch.autograd.Function):
    """The logits, their exponentials and the slopes of the loss stand in one array."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        candidates: Tensor,
        offset: Tensor,
        positive: Tensor,
        levelling: float,
    ) -> Tensor:
        logits = torch.addmm(offset, queries, candidates.t())
        right = logits.gather(1, positive.unsqueeze(-1)).squeeze(-1)
        shift, exponentials, total = shifted_exponentials(logits)
        # Of p - 1 at the positive, times the total that all of its row are divided by.
        exponentials.scatter_add_(1, positive.unsqueeze(-1), -total.unsqueeze(-1))
        losses = shift + total.log() - right
        share = (-levelling * (losses - float(CLEAR_LOSS)).clamp_min(0.0)).exp()
        ctx.save_for_backward(queries, candidates, exponentials, share / total)
        return levelled(losses, levelling).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        queries, candidates, slopes, share = ctx.saved_tensors
        weight = (share * (upstream / len(queries))).unsqueeze(-1)
        grad_queries = torch.mm(slopes, candidates).mul_(weight)
        grad_candidates = torch.mm(slopes.t(), queries * weight)
        return grad_queries, grad_candidates, torch.mv(slopes.t(), weight.squeeze(-1)), None, None


class _BlockedCrossEntropy(torch.autograd.Function):
    """Some queries after the other: their logits stay in the cache until they are slopes.

    Whatever the loss is multiplied by, its gradient is known with it.
    """

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        candidates: Tensor,
        offset: Tensor,
        positive: Tensor,
        loop: Kernel,
        levelling: float,
    ) -> Tensor:
        n_queries, n_candidates = len(queries), len(candidates)
        height = min(n_queries, max(1, BLOCK_ELEMENTS // n_candidates))
        space = queries.new_empty(height * n_candidates)
        losses = queries.new_empty(n_queries)
        grad_queries = torch.empty_like(queries)
        grad_candidates, grad_offset = torch.zeros_like(candidates), torch.zeros_like(offset)
        weight, lanes = np.float32(1 / n_queries), np.empty(LANES, dtype=np.float32)
        for start in range(0, n_queries, height):
            block = slice(start, start + height)
            own = queries[block]
            slopes = space[: len(own) * n_candidates].view(len(own), n_candidates)
            torch.mm(own, candidates.t(), out=slopes)
            loop(
                slopes.numpy(),
                offset.numpy(),
                positive[block].numpy(),
                weight,
                np.float32(levelling),
                losses[block].numpy(),
                grad_offset.numpy(),
                lanes,
            )
            torch.mm(slopes, candidates, out=grad_queries[block])
            grad_candidates.addmm_(slopes.t(), own)
        ctx.save_for_backward(grad_queries, grad_candidates, grad_offset)
        return losses.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        return (*(upstream * each for each in ctx.saved_tensors), None, None, None)


class _LogNormalizer(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        candidates: Tensor,
        offset: Tensor,
        excluded_query: Tensor,
        excluded_candidate: Tensor,
        keeps: bool,
    ) -> Tensor:
        excluded = (excluded_query, excluded_candidate)
        ctx.kept = None
        if keeps:
            logits = torch.addmm(offset, queries, candidates.t())
            shift, exponentials, total = shifted_exponentials(
                _exclude(logits, excluded, slice(0, len(candidates)))
            )
            result = shift + total.log()
            ctx.kept = (exponentials, total)
        else:
            result = _log_sums(queries, candidates, offset, excluded)
        ctx.save_for_backward(queries, candidates, offset, *excluded, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        queries, candidates, offset, excluded_query, excluded_candidate, result = ctx.saved_tensors
        excluded = (excluded_query, excluded_candidate)
        active = upstream.nonzero().squeeze(-1)
        all_active = len(active) == len(queries)
        if not all_active:
            queries, result, upstream = (
                values.index_select(0, active) for values in (queries, result, upstream)
            )
            excluded = _excluded_among(active, len(ctx.saved_tensors[0]), *excluded)
        wants_queries, wants_candidates, wants_offset = ctx.needs_input_grad[:3]
        grad_queries = torch.empty_like(queries) if wants_queries else None
        grad_candidates = torch.empty_like(candidates) if wants_candidates else None
        grad_offset = torch.empty_like(offset) if wants_offset else None
        if ctx.kept is None:
            weight = upstream
            shift = result.masked_fill(result == -torch.inf, 0.0)
            logits = _logits(queries, candidates, offset, shift, excluded)
            numerators = ((chunk, _exp(shifted)) for chunk, shifted in logits)
        else:
            exponentials, total = ctx.kept
            if not all_active:
                exponentials = exponentials.index_select(0, active)
                total = total.index_select(0, active)
            # An all-excluded query has no exponential above zero to divide.
            weight = upstream / total.masked_fill(total == 0, 1.0)
            numerators = (pair for pair in [(slice(0, len(candidates)), exponentials)])
        # Weighing the queries costs less than weighing the numerators, the larger array by far.
        weighted = queries * weight.unsqueeze(-1)
        for chunk, numerator in numerators:
            if grad_queries is not None:
                # The first product is written and not added: no pass to fill an array with zeros.
                grad_queries.addmm_(numerator, candidates[chunk], beta=float(chunk.start > 0))
            if grad_candidates is not None:
                torch.mm(numerator.t(), weighted, out=grad_candidates[chunk])
            if grad_offset is not None:
                torch.mv(numerator.t(), weight, out=grad_offset[chunk])
        if grad_queries is None:
            return None, grad_candidates, grad_offset, None, None, None
        grad_queries *= weight.unsqueeze(-1)
        if not all_active:
            everything = torch.zeros_like(ctx.saved_tensors[0])
            grad_queries = everything.index_copy_(0, active, grad_queries)
        return grad_queries, grad_candidates, grad_offset, None, None, None


def _are_kept(n_queries: int, n_candidates: int) -> bool:
    return n_queries * n_candidates <= (4 if _is_narrow(n_queries) else 1) * KEPT_ELEMENTS


def _is_narrow(n_queries: int) -> bool:
    """Tell whether a chunk with so many queries has too few candidates for a fast product."""
    return n_queries * MIN_CHUNK_WIDTH > CHUNK_ELEMENTS


def _chunks(n_queries: int, n_candidates: int) -> list[slice]:
    """Cut the candidates so that one block of logits stays near CHUNK_ELEMENTS."""
    width = max(1, CHUNK_ELEMENTS // max(1, n_queries))
    return [slice(start, start + width) for start in range(0, n_candidates, width)]


def _log_sums(
    queries: Tensor, candidates: Tensor, offset: Tensor, excluded: tuple[Tensor, Tensor]
) -> Tensor:
    """Return the log-sum-exp of each query over all candidates, chunk by chunk."""
    no_shift = torch.zeros_like(queries[:, 0])
    _, pilot = next(_logits(queries, candidates, offset, no_shift, excluded))
    # Any shift near the largest logit will do. That of the first chunk spares the others a search
    # for their own and a subtraction: two of four passes over the logits.
    shift, total = _largest(pilot), no_shift
    for _, shifted in _logits(queries, candidates, offset, shift, excluded):
        total = total + _exp(shifted).sum(-1)
    result = shift + total.log()
    if bool(result.isfinite().all()):
        return result
    # A later logit lies beyond the range of exp above that shift, or nothing counts for a query.
    result = torch.full_like(no_shift, -torch.inf)
    for _, logits in _logits(queries, candidates, offset, no_shift, excluded):
        shift, _, total = shifted_exponentials(logits)
        result = torch.logaddexp(result, shift + total.log())
    return result


def shifted_exponentials(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return a shift of each row, exp(logits - shift) in their place, and its sums."""
    shift = _largest(logits)
    exponentials = _exp(logits.sub_(shift.unsqueeze(-1)))
    return shift, exponentials, exponentials.sum(-1)


def _exp(logits: Tensor) -> Tensor:
    """Return exponentials in the place of logits, as powers of two: half the time of exp."""
    return logits.mul_(LOG2_E).exp2_()


def _largest(logits: Tensor) -> Tensor:
    """Return the largest logit of each row, 0 where nothing counts and any shift will do."""
    shift = logits.amax(-1)
    return shift.masked_fill_(shift == -torch.inf, 0.0)


def _logits(
    queries: Tensor,
    candidates: Tensor,
    offset: Tensor,
    shift: Tensor,
    excluded: tuple[Tensor, Tensor],
) -> Iterator[tuple[slice, Tensor]]:
    """Yield the logits of each query less its shift, chunk by chunk.

    Offset and shift ride along as two more dimensions of the product: no pass over the logits is
    needed to add them. All chunks stand in the same memory, to be read before the next is asked
    for: left to itself the allocator of the C library breaks its free memory up, and takes as
    much from the system as all chunks together need.
    """
    n_queries = len(queries)
    ones = queries.new_ones(n_queries, 1)
    queries = torch.cat([queries, ones, -shift.unsqueeze(-1)], 1)
    chunks = _chunks(n_queries, len(candidates))
    space = queries.new_empty(n_queries * (chunks[0].stop - chunks[0].start))
    for chunk in chunks:
        part = candidates[chunk]
        part = torch.cat([part, offset[chunk].unsqueeze(-1), part.new_ones(len(part), 1)], 1)
        logits = space[: n_queries * len(part)].view(n_queries, len(part))
        yield chunk, _exclude(torch.mm(queries, part.t(), out=logits), excluded, chunk)


def _exclude(logits: Tensor, excluded: tuple[Tensor, Tensor], chunk: slice) -> Tensor:
    query, candidate = excluded
    if len(query):
        inside = (candidate >= chunk.start) & (candidate < chunk.stop)
        logits[query[inside], candidate[inside] - chunk.start] = -torch.inf
    return logits


def _excluded_among(
    active: Tensor, n_queries: int, query: Tensor, candidate: Tensor
) -> tuple[Tensor, Tensor]:
    """Renumber the excluded pairs after all but the active queries were dropped."""
    if not len(query):
        return query, candidate
    position = torch.full((n_queries,), -1, dtype=torch.int64, device=active.device)
    position[active] = torch.arange(len(active), device=active.device)
    kept = position[query] >= 0
    return position[query[kept]], candidate[kept]
