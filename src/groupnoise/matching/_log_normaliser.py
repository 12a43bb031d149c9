"""log of the softmax denominator of Eq. 4, in chunks and with a backward pass of its own.

The normaliser of a query is log sum_c exp(query . candidate_c + offset_c). Its gradient needs only
the log-sum-exp itself, so with many candidates nothing else is kept: the backward pass computes
the probabilities again, chunk by chunk, and memory grows with the chunk instead of |Y|. Queries
whose upstream gradient is zero are skipped: under max selection that is all but the chosen ones,
which makes `score everything, differentiate the chosen object alone` fall out by itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_ELEMENTS = 1 << 23
"""Logits held at a time (32 MB in float32): large enough for BLAS, small beside the tables."""


def log_normaliser(
    queries: Tensor,
    candidates: Tensor,
    offset: Tensor | None = None,
    excluded: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Return the log-sum-exp of each query over the candidates.

    Parameters
    ----------
    queries : Tensor of shape (n_queries, dim)
        Vectors to be normalised.
    candidates : Tensor of shape (n_candidates, dim)
        Vectors of the set that is normalised over.
    offset : Tensor of shape (n_candidates,), optional
        Added to the logits of each candidate: its bias, or a correction for sampling.
    excluded : pair of int64 Tensors of shape (n_pairs,), optional
        (query, candidate) pairs that do not count. A query must keep a candidate.

    Returns
    -------
    Tensor of shape (n_queries,)
        Differentiable once in queries, candidates and offset.
    """
    if offset is None:
        offset = candidates.new_zeros(len(candidates))
    if excluded is None:
        nothing = torch.empty(0, dtype=torch.int64, device=queries.device)
        excluded = (nothing, nothing)
    result: Tensor = _LogNormaliser.apply(queries, candidates, offset, *excluded)  # type: ignore[no-untyped-call]
    return result


class _LogNormaliser(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        candidates: Tensor,
        offset: Tensor,
        excluded_query: Tensor,
        excluded_candidate: Tensor,
    ) -> Tensor:
        excluded = (excluded_query, excluded_candidate)
        chunks = _chunks(len(queries), len(candidates))
        if len(chunks) == 1:
            logits = _logits(queries, candidates, offset, excluded, chunks[0])
            result = logits.logsumexp(-1)
            ctx.probabilities = logits.sub_(result.unsqueeze(-1)).exp_()
        else:
            result = queries.new_full((len(queries),), -torch.inf)
            for chunk in chunks:
                logits = _logits(queries, candidates, offset, excluded, chunk)
                result = torch.logaddexp(result, logits.logsumexp(-1))
            ctx.probabilities = None
        ctx.save_for_backward(queries, candidates, offset, *excluded, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        queries, candidates, offset, excluded_query, excluded_candidate, result = ctx.saved_tensors
        active = upstream.nonzero().squeeze(-1)
        if len(active) < len(queries):
            excluded = _excluded_among(active, len(queries), excluded_query, excluded_candidate)
            active_queries = queries[active]
        else:
            excluded, active_queries = (excluded_query, excluded_candidate), queries
        weight, level = upstream[active].unsqueeze(-1), result[active].unsqueeze(-1)
        wants_queries, wants_candidates, wants_offset = ctx.needs_input_grad[:3]
        grad_active = torch.zeros_like(active_queries)
        grad_candidates = torch.zeros_like(candidates) if wants_candidates else None
        grad_offset = torch.zeros_like(offset) if wants_offset else None
        for chunk in _chunks(len(active), len(candidates)):
            if ctx.probabilities is None:
                share = _logits(active_queries, candidates, offset, excluded, chunk)
                share.sub_(level).exp_().mul_(weight)
            elif len(active) < len(queries):
                share = ctx.probabilities[active].mul_(weight)
            else:
                share = ctx.probabilities * weight
            if wants_queries:
                grad_active.addmm_(share, candidates[chunk])
            if grad_candidates is not None:
                torch.mm(share.t(), active_queries, out=grad_candidates[chunk])
            if grad_offset is not None:
                grad_offset[chunk] = share.sum(0)
        if not wants_queries:
            return None, grad_candidates, grad_offset, None, None
        if len(active) == len(queries):
            return grad_active, grad_candidates, grad_offset, None, None
        grad_queries = torch.zeros_like(queries).index_copy_(0, active, grad_active)
        return grad_queries, grad_candidates, grad_offset, None, None


def _chunks(n_queries: int, n_candidates: int) -> list[slice]:
    """Cut the candidates so that one block of logits stays below CHUNK_ELEMENTS."""
    width = max(1, CHUNK_ELEMENTS // max(1, n_queries))
    return [slice(start, start + width) for start in range(0, n_candidates, width)]


def _logits(
    queries: Tensor,
    candidates: Tensor,
    offset: Tensor,
    excluded: tuple[Tensor, Tensor],
    chunk: slice,
) -> Tensor:
    logits = torch.addmm(offset[chunk], queries, candidates[chunk].t())
    query, candidate = excluded
    if len(query):
        inside = (candidate >= chunk.start) & (candidate < chunk.stop)
        logits[query[inside], candidate[inside] - chunk.start] = -torch.inf
    return logits


def _excluded_among(
    active: Tensor, n_queries: int, query: Tensor, candidate: Tensor
) -> tuple[Tensor, Tensor]:
    """Renumber the excluded pairs after all but the active queries were dropped."""
    place = torch.full((n_queries,), -1, dtype=torch.int64, device=active.device)
    place[active] = torch.arange(len(active), device=active.device)
    kept = place[query] >= 0
    return place[query[kept]], candidate[kept]
