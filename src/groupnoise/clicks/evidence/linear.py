"""Additive evidence in closed form: ridge regressions between items, as vectors of low rank.

Three regressions sum the evidence of clicks. `together` is EASE: every item of a history
from all others, whatever their order. `following` is the next click from the clicks before it,
which count less the longer ago they were; `next`, of a small catalogue, from the one before it
alone. All are solved in the leading eigenvectors of the Gram matrix of their inputs, so that an
item is a vector and the catalogue may be large.

Where seen items are left out of answers the diagonal of EASE does not matter, and its solution
B_ij = -P_ij / P_jj with P = (G + ridge)^-1 and S = G P becomes S_ij / (1 - S_jj): a product of
vectors for any rank of S.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from groupnoise.clicks.evidence.model import (
    MAX_SCORES,
    Evidence,
    evidence_scores,
    gains,
    sum_evidence,
)
from groupnoise.clicks.evidence.spectral import gram_eigenvectors
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.words import join_with_and

RANK = 1024
"""Most eigenvectors; of a sparse catalogue the later ones are informative, of a dense one noise."""
MAX_WIDE_CATALOGUE = 20_000
"""Items above which at most half as many are kept, which bounds time and the size of files."""
USUAL_RANK = 256
NEXT = "next"
"""The regression of the last click alone. The eigenvectors of its inputs are items, the most
clicked first, so it is for catalogues of which half at least are kept."""
MAX_NEXT_CATALOGUE = 2 * RANK
FOLLOWING_RATE = 0.3
"""Decay of the weight of an input, on log scale per click between it and the next one."""
FOLLOWING_LAGS = 16
"""Clicks before the next one that are its inputs; earlier ones have weights below a hundredth."""


@dataclass(frozen=True)
class LinearEvidence:
    """A ridge regression between items in the eigenvectors of its Gram matrix.

    `vectors` (n_items, rank): leading eigenvectors of the Gram matrix.
    `values`: their eigenvalues.
    `outcomes` (n_items, rank): products of the next clicks with the inputs, along the eigenvectors;
        None for EASE.
    `rates`: candidate decay rates of clicks; the first is tried with all ridges.
    """

    vectors: FloatArray
    values: FloatArray
    outcomes: FloatArray | None = None
    rates: tuple[float, ...] = (0.05, 0.0, 0.3)

    def evidence(self, ridge: float, rate: float, length: int, rank: int = USUAL_RANK) -> Evidence:
        """Return the regression as additive evidence."""
        vectors, values = self.vectors[:, :rank], self.values[:rank]
        if self.outcomes is None:
            objects = vectors * np.sqrt(values / (values + ridge))
            rest = 1.0 - (objects**2).sum(axis=1, keepdims=True)
            targets = objects / np.maximum(rest, 1e-3)
        else:
            objects = vectors / (values + ridge)
            targets = self.outcomes[:, :rank]
        n_items, rank = vectors.shape
        return Evidence(
            objects.astype(np.float32),
            targets.astype(np.float32),
            np.zeros(n_items, dtype=np.float32),
            (rank,),
            np.exp(-rate * np.arange(length), dtype=np.float32)[None],
            (0.0,),
        )


def fit_ease(
    histories: Groups, n_items: int, generator: np.random.Generator, *, rank: int = RANK
) -> LinearEvidence:
    """Fit EASE: every item of a history from all the others."""
    clicks = np.asarray(histories.objects)
    users = sparse.csr_array(
        (np.ones(len(clicks), dtype=np.float32), (histories.group_of_object, clicks)),
        shape=(len(histories), n_items),
    )
    users.sum_duplicates()
    users.data[:] = 1.0
    return LinearEvidence(*_gram_eigenvectors(users, rank, generator))


def fit_following(
    histories: Groups,
    n_items: int,
    generator: np.random.Generator,
    *,
    rank: int = RANK,
    n_lags: int = FOLLOWING_LAGS,
) -> LinearEvidence:
    """Fit the regression of every next click on the clicks before it, decayed by distance.

    `rank`: how many eigenvectors to keep; of more than 20 000 items at most 512. `n_lags`: how many
    clicks before the next one are its inputs.
    """
    clicks = np.asarray(histories.objects, dtype=np.int64)
    owner = histories.group_of_object
    steps: list[tuple[IntArray, IntArray, FloatArray]] = []
    for lag in range(1, min(n_lags + 1, len(clicks))):
        later = np.flatnonzero(owner[lag:] == owner[: len(owner) - lag]) + lag
        weight = np.full(len(later), np.exp(-FOLLOWING_RATE * (lag - 1)), dtype=np.float32)
        steps.append((later, clicks[later - lag], weight))
    row, item, weight = (np.concatenate(part) for part in zip(*steps, strict=True))
    inputs = sparse.csr_array((weight, (row, item)), shape=(len(clicks), n_items))
    vectors, values = _gram_eigenvectors(inputs, rank, generator)
    outcomes = sparse.csr_array((weight, (clicks[row], item)), shape=(n_items, n_items))
    return LinearEvidence(vectors, values, outcomes @ vectors)


def fit_next(
    histories: Groups, n_items: int, generator: np.random.Generator, *, rank: int = RANK
) -> LinearEvidence:
    """Fit the regression of every next click on the one before it alone."""
    found = fit_following(histories, n_items, generator, rank=rank, n_lags=1)
    return replace(found, rates=(LAST_CLICK_RATE,))


def _gram_eigenvectors(
    rows: sparse.csr_array, rank: int, generator: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the leading eigenvectors and eigenvalues of the Gram matrix of some rows."""
    n_items = rows.shape[1]
    seed = int(generator.integers(1 << 31))
    kept = min(rank, n_items, RANK if n_items <= MAX_WIDE_CATALOGUE else RANK // 2)
    return gram_eigenvectors(rows, kept, seed)


RIDGES = (30.0, 100.0, 300.0, 1000.0)

LAST_CLICK_RATE = 12.0
"""A decay rate at which only the last click has weight."""

RANKS = (USUAL_RANK, RANK)

LINEAR_WEIGHTS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 16.0)
"""In units that give linear and learned scores the same standard deviation."""

MIN_SPREAD = 1e-12

MIN_LEAD = 0.5
"""Standard errors by which linear evidence must be ahead to be added."""

MAX_LINEAR_HISTORY = 1000
"""Most clicks over which linear evidence is added."""

Linear = Mapping[str, Sequence[float]]
"""For "together", "following" and "next": (weight, ridge, rate) of the linear evidence that is
added, and its rank where that is not the usual one."""

_TunedRegression = tuple[float, tuple[float, float, int], FloatArray]
"""The gain of a regression alone, its (ridge, rate, rank), and its scores."""


def linear_length(histories: Groups) -> int:
    """Return the number of clicks over which linear evidence is added."""
    return min(int(histories.sizes.max()) + 1, MAX_LINEAR_HISTORY)


def add_linear(
    learned: Evidence, regressions: Mapping[str, LinearEvidence], linear: Linear, length: int
) -> Evidence:
    """Return learned evidence with the linear evidence added."""
    parts = [learned]
    for name, (weight, ridge, rate, *rank) in linear.items():
        if weight:
            own = regressions[name].evidence(ridge, rate, length, *map(int, rank))
            parts.append(own.scaled(weight))
    return sum_evidence(parts)


def linear_ranks(linear: Linear) -> dict[str, int]:
    """Return the rank of each regression that is added, without those of weight 0."""
    return {
        name: int(values[3]) if len(values) > 3 else USUAL_RANK
        for name, values in linear.items()
        if values[0]
    }


def choose_linear(
    learned: Evidence,
    regressions: Mapping[str, LinearEvidence],
    queries: Groups,
    length: int,
    seed: int,
) -> tuple[dict[str, tuple[float, float, float, int]], FloatArray, dict[str, float]]:
    """Choose the linear evidence to add to learned evidence.

    Returns `linear`: weights in units that give linear and learned scores the same standard
    deviation; see :func:`rescale_linear`; `gain`: of the learned and linear evidence together;
    `alone`: the mean gain of each regression by itself. `learned`: what gradient descent found
    without the held-out clicks. `regressions`: fitted without them too. `queries`: histories with
    the held-out clicks as targets. `length`: over how many of the latest clicks linear evidence is
    added. `seed`: decides which histories are asked where the scores of all would not fit.
    """
    queries = sample_rows(queries, len(learned.bias), seed)
    scores = evidence_scores(learned, queries)
    found = {name: _tune_regression(each, queries, length) for name, each in regressions.items()}
    alone = {name: gain for name, (gain, _, _) in found.items()}
    last = found.pop(NEXT, None)
    linear, best = _add_greedily(scores, found, queries)
    if last is not None:  # tried first: the others contain most of its information
        own, gain = _add_greedily(scores, {NEXT: last, **found}, queries)
        linear, best = (own, gain) if _is_ahead(gain - best) else (linear, best)
    return linear, best, alone


def _add_greedily(
    scores: FloatArray, found: Mapping[str, _TunedRegression], queries: Groups
) -> tuple[dict[str, tuple[float, float, float, int]], FloatArray]:
    """Return the weights of regressions that are added greedily, and the gain of all."""
    spread = float(scores.std())
    best = gains(scores.copy(), queries)
    linear: dict[str, tuple[float, float, float, int]] = {}
    for name, (_, (ridge, rate, rank), unscaled) in found.items():
        own = unscaled * (spread / max(float(unscaled.std()), MIN_SPREAD))
        tried = {weight: gains(scores + weight * own, queries) for weight in LINEAR_WEIGHTS}
        taken = max(tried, key=lambda weight: float(tried[weight].mean()))
        if _is_ahead(tried[taken] - best):
            best, scores = tried[taken], scores + taken * own
        else:
            taken = 0.0
        linear[name] = (float(taken), ridge, rate, rank)
    return linear, best


def _is_ahead(lead: FloatArray) -> bool:
    """Tell whether a paired difference on held-out clicks is large enough."""
    return float(lead.mean()) > MIN_LEAD * float(lead.std()) / np.sqrt(len(lead))


def rescale_linear(
    learned: Evidence,
    regressions: Mapping[str, LinearEvidence],
    linear: Linear,
    queries: Groups,
    length: int,
    seed: int,
) -> Linear:
    """Rescale the weights of chosen linear evidence for evidence trained on all clicks.

    Scores of regressions and of learned evidence grow with the number of clicks, at different
    rates. Result: as :func:`add_linear` takes it, without weights of 0. `learned`: trained on all
    clicks. `linear`: the result of :func:`choose_linear`.
    """
    queries = sample_rows(queries, len(learned.bias), seed)
    spread = float(evidence_scores(learned, queries).std())
    found = {}
    for name, (weight, ridge, rate, rank) in linear.items():
        if weight:
            alone = regressions[name].evidence(ridge, rate, length, int(rank))
            own = evidence_scores(alone, queries)
            unit = spread / max(float(own.std()), MIN_SPREAD)
            found[name] = (weight * unit, ridge, rate, int(rank))
    return found


def describe_linear(linear: Linear, before: float, after: float) -> str:
    """Return a sentence on the linear evidence that was added."""
    what = {
        "together": "how often items are clicked by the same user (together)",
        "following": "how often one item follows another (following)",
        NEXT: "what followed the last click (next)",
    }
    added = [what[name] for name, values in linear.items() if values[0]]
    if not added:
        return (
            "Linear evidence (items clicked together, or one after another) did not help and was "
            "left out."
        )
    named = join_with_and(added)
    return (
        f"The ranking also counts {named}: this linear evidence raises the held-out score from "
        f"{before:.4f} to {after:.4f}."
    )


def sample_rows(queries: Groups, n_items: int, seed: int) -> Groups:
    """Return a random sample of histories whose scores fit in memory."""
    max_rows = max(1, MAX_SCORES // n_items)
    if len(queries) <= max_rows:
        return queries
    rows = np.random.default_rng(seed).permutation(len(queries))[:max_rows]
    return queries.subset(np.sort(rows))


def _tune_regression(regression: LinearEvidence, queries: Groups, length: int) -> _TunedRegression:
    """Return the best gain of a regression alone, its (ridge, rate, rank), and its scores."""
    found: _TunedRegression | None = None
    rates = regression.rates
    widest = len(regression.values)
    ranks = sorted({min(rank, widest) for rank in RANKS})
    tried = [(ridge, rates[0], rank) for rank in ranks for ridge in RIDGES]
    while tried:
        setting = tried.pop(0)
        own = evidence_scores(
            regression.evidence(setting[0], setting[1], length, setting[2]), queries
        )
        gain = float(gains(own.copy(), queries).mean())
        # Of equal gains, as with histories of one click, the larger rate is taken.
        if found is None or (gain, setting[1] > found[1][1]) > (found[0], False):
            found = gain, setting, own
        if not tried and setting[1] == rates[0]:  # the best ridge and rank, with other rates
            ridge, _, rank = found[1]
            tried = [(ridge, rate, rank) for rate in rates[1:]]
    assert found is not None
    return found
