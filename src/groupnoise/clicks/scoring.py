"""The scoring rule of a recommender: how the clicks of a history become scores of items.

A rule turns each history into a few *queries* with log weights, and every reader of a model
(recommend, the full ranking, artifacts, batch recall, the service) scores an item by

    log sum_k exp(log_weight_k + log P(item | query_k)).

The paper's MM has one query, the last click; its MM+ has one per click of the group, weighed by
Eq. 6. A rule is a record of plain numbers beside the vectors, and runs on numpy, without torch.
Where an encoder reads histories in order, its weights are the rule's one array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from groupnoise.clicks.evidence.recurrence import Recurrence, load_recurrences
from groupnoise.clicks.mixture import (
    SIMILARITIES,
    Float32Array,
    Mixture,
    contrastive_weight,
    recent_clicks,
    sigmoid_weight,
    unique_inverse,
)
from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import check_choice, check_count
from groupnoise.exceptions import ParameterError

FeaturesOf = Callable[[IntArray], Float32Array]
"""Maps item indices, shape (n,), to their vectors f, shape (n, dim)."""
GroupWeight = Callable[[Float32Array], Float32Array]
"""Maps features of groups of one size, (n, size, dim), to log P(click | history), (n, size)."""

SCOPES = ("group", "last")
NORMALIZATIONS = ("click", "history")
MAX_STRENGTH = 1e6
"""Largest number in a rule: larger ones overflow the scores."""
MIN_TOTAL = 1e-6
"""Lower bound of the sum of the weights of all clicks of a history."""
MIN_SIMILARITY = 1e-8
"""Lower bound of the scores of items clicked together, in models that count: lower ones come from
popularity alone."""
ENCODER_WEIGHTS = "encoder_weights"
"""Name of the array that holds the weights of all encoders of a rule."""
_BLOCK_ENTRIES = 1 << 22
_LISTS = ("negatives", "block_widths", "position_weights", "exponents")


@dataclass(frozen=True, kw_only=True)
class ScoringRule:
    """How a recommender scores items after a history.

    `selection` and `temperature` affect training alone: answers always sum the probabilities of
    all queries, as MM+ does.

    `scope` (one of "group", "last"): whether the latest `window_size` clicks are used (the
        paper's MM+), or the last one alone (MM).
    `window_size`: how many of the latest clicks make a group; None means all of them.
    `weighting` (one of "sigmoid", "contrastive"): the form of the group weight: the paper's, or
        that of the authors' code. A callable maps features (n, size, dim) to log weights (n, size);
        no file can hold it.
    `weighting_strength`: lambda: multiplies the log of the group weight.
    `similarity` (one of "dot", "neg_kl"): s of Eq. 6.
    `similarity_scale`: multiplies S.
    `recency`: by how much the log weight of a click falls with each later click.
    `negatives`: the items that "contrastive" contrasts a click with: the same for every history,
        so that an answer does not depend on the rest of the batch.
    `normalization`: whether every click is normalised over the catalogue and the probabilities are
        mixed, or the evidence of all clicks is added to one query and normalised after; see
        :mod:`groupnoise.clicks.evidence.model`. The four that follow belong to "history".
    `block_widths`: how many dimensions each block of the vectors has.
    `position_weights`: for each block the weight of a click by how many clicks came after it.
    `exponents`: for each block the exponent of the sum of weights that its evidence is divided by.
    `encoders`: read a history in order; their outputs are added to the query.
    """

    scope: str = "group"
    window_size: int | None = None
    weighting: str | GroupWeight | None = "sigmoid"
    weighting_strength: float = 1.0
    similarity: str = "dot"
    similarity_scale: float = 1.0
    recency: float = 0.0
    negatives: tuple[int, ...] = ()
    normalization: str = "click"
    block_widths: tuple[int, ...] = ()
    position_weights: tuple[tuple[float, ...], ...] = ()
    exponents: tuple[float, ...] = ()
    encoders: tuple[Recurrence, ...] = ()

    def __post_init__(self) -> None:
        check_choice("scope", self.scope, SCOPES)
        if self.window_size is not None:
            check_count("window_size", self.window_size)
        if not (self.weighting is None or callable(self.weighting)):
            check_choice("weighting", self.weighting, ("sigmoid", "contrastive"))
        check_choice("similarity", self.similarity, ("dot", "neg_kl"))
        for name in ("weighting_strength", "similarity_scale", "recency"):
            value = getattr(self, name)
            is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not is_number or not abs(value) <= MAX_STRENGTH:
                raise ParameterError(
                    f"{name} must be a number of at most {MAX_STRENGTH:g}; got {str(value)[:40]}."
                )
            object.__setattr__(self, name, float(value))
        if self.weighting == "contrastive" and not self.negatives:
            raise ParameterError('weighting="contrastive" needs the negatives of the rule.')
        if not all(type(item) is int and item >= 0 for item in self.negatives):
            raise ParameterError("negatives must be item indices from 0 on.")
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        if self.normalization == "history":
            self._check_blocks()
        elif self.encoders:
            raise ParameterError('encoders belong to normalization="history".')

    def _check_blocks(self) -> None:
        n_blocks = len(self.block_widths)
        if not n_blocks or not len(self.position_weights) == len(self.exponents) == n_blocks:
            raise ParameterError("every block needs a width, position weights and an exponent.")
        if not all(type(width) is int and width > 0 for width in self.block_widths):
            raise ParameterError("block_widths must be counts of dimensions.")
        lengths = {len(weights) for weights in self.position_weights}
        if lengths != {self.window_size}:
            raise ParameterError("position_weights must say a weight for each click of the window.")
        numbers = [*self.exponents, *(w for weights in self.position_weights for w in weights)]
        if not all(type(number) is float and 0 <= number <= MAX_STRENGTH for number in numbers):
            raise ParameterError("position_weights and exponents must be numbers from 0 on.")
        if any(each.begin + each.width > sum(self.block_widths) for each in self.encoders):
            raise ParameterError("an encoder reads more dimensions than the blocks have.")

    @property
    def n_clicks(self) -> int | None:
        """How many of the latest clicks an answer is made from; None means all."""
        return 1 if self.scope == "last" else self.window_size

    @property
    def clicks_used(self) -> str:
        """A description of the clicks that are used."""
        if self.n_clicks is None:
            return "all clicks"
        return "the last click" if self.n_clicks == 1 else f"the last {self.n_clicks} clicks"

    def with_scope(self, scope: str | None) -> ScoringRule:
        """Return this rule with another scope; None leaves it unchanged."""
        return self if scope in (None, self.scope) else replace(self, scope=scope)

    def as_record(self) -> dict[str, Any]:
        """Return the rule as JSON can hold it."""
        if callable(self.weighting):
            name = getattr(self.weighting, "__qualname__", type(self.weighting).__name__)
            raise ParameterError(
                f"a file cannot hold the weighting {name}, which is code; train with "
                'weighting="sigmoid", "contrastive" or None, and similarity="dot" or "neg_kl".'
            )
        record = asdict(replace(self, encoders=()))
        record["encoders"] = [encoder.as_record() for encoder in self.encoders]
        record["position_weights"] = [list(weights) for weights in self.position_weights]
        for name in ("negatives", "block_widths", "exponents"):
            record[name] = list(record[name])
        return record

    def arrays(self) -> dict[str, Float32Array]:
        """Return the arrays of the rule: the weights of its encoders."""
        weights = [encoder.weights for encoder in self.encoders]
        return {ENCODER_WEIGHTS: np.concatenate(weights)} if weights else {}

    @classmethod
    def from_record(
        cls, record: Mapping[str, Any], arrays: Mapping[str, Any] | None = None
    ) -> ScoringRule:
        """Return the rule that :meth:`as_record` described, from a file that may hold anything."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(record) - known):
            raise ParameterError(f"this release knows no scoring rule with {unknown[0]!r}.")
        if missing := sorted(known - set(record)):
            raise ParameterError(f"the scoring rule does not say its {missing[0]!r}.")
        if not isinstance(record["weighting"], (str, type(None))):
            raise ParameterError("weighting must be a name.")
        lists = {name: record[name] for name in _LISTS}
        weights = lists["position_weights"]
        rows = weights if isinstance(weights, (list, tuple)) else ()
        for name, values in [*lists.items(), *(("position_weights", row) for row in rows)]:
            if not isinstance(values, (list, tuple)):
                raise ParameterError(f"{name} must be a list.")
        plain: dict[str, Any] = {name: tuple(values) for name, values in lists.items()}
        plain["position_weights"] = tuple(map(tuple, weights))
        plain["encoders"] = load_recurrences(
            record["encoders"], (arrays or {}).get(ENCODER_WEIGHTS)
        )
        return cls(**{**record, **plain})

    def mixture(self, features_of: FeaturesOf, items: IntArray, offsets: IntArray) -> Mixture:
        """Return the queries of histories and their log weights."""
        clicks, begins = recent_clicks(items, offsets, self.n_clicks)
        distinct, query_of = unique_inverse(clicks)
        queries = features_of(distinct)
        if self.normalization == "history":
            contexts = self._contexts(queries, query_of, begins)
            rows = np.arange(len(contexts) + 1)
            no_weight = np.zeros(len(contexts), dtype=contexts.dtype)
            return Mixture(contexts, None, rows[:-1], no_weight, rows)
        against = features_of(np.array(self.negatives, dtype=np.int64)) if self.negatives else None
        log_weight = np.zeros(len(clicks), dtype=queries.dtype)
        if self.recency:
            later = np.repeat(begins[1:], np.diff(begins)) - np.arange(1, len(clicks) + 1)
            log_weight -= self.recency * later
        mixture = Mixture(queries, distinct, query_of, log_weight, begins)
        if self.weighting is None or not self.weighting_strength:
            return mixture
        for _, terms in mixture.by_size():
            step = max(1, _BLOCK_ENTRIES // max(1, terms.shape[1] * queries.shape[1]))
            for begin in range(0, len(terms), step):
                block = terms[begin : begin + step]
                weight = self.log_group_weight(queries[query_of[block]], against)
                log_weight[block] += self.weighting_strength * weight
        return mixture

    def _contexts(
        self, features: Float32Array, click_of: IntArray, offsets: IntArray
    ) -> Float32Array:
        """Return the added evidence of histories, shape (n_histories, dim)."""
        from scipy import sparse  # which takes longer to load than a small artifact

        sizes = np.diff(offsets)
        later = np.repeat(offsets[1:], sizes) - np.arange(1, len(click_of) + 1)
        contexts = np.empty((len(sizes), features.shape[1]), dtype=features.dtype)
        for block, weights, exponent in self.blocks(features.shape[1]):
            table = sparse.csr_array(
                (weights[later], click_of, offsets), shape=(len(sizes), len(features))
            )
            total = np.maximum(np.add.reduceat(weights[later], offsets[:-1]), MIN_TOTAL)
            contexts[:, block] = (table @ features[:, block]) * total[:, None] ** -exponent
        for encoder in self.encoders:
            own = slice(encoder.begin, encoder.begin + encoder.width)
            contexts[:, own] += encoder.read(features, click_of, offsets)
        return contexts

    def click_evidence(self, features: Float32Array) -> Float32Array:
        """Return the contribution of each click of one history to its query.

        Of shape (n_clicks, dim): the sum over clicks is the query of the history; of an encoder it
        is by how much its output changes without that click. `features` (n_clicks, dim): f of the
        clicks of the window, oldest first.
        """
        evidence, every = np.empty_like(features), np.arange(len(features))
        later = every[::-1]
        for block, weights, exponent in self.blocks(features.shape[1]):
            total = max(float(weights[later].sum()), MIN_TOTAL)
            evidence[:, block] = features[:, block] * (weights[later] * total**-exponent)[:, None]
        for encoder in self.encoders:
            own = slice(encoder.begin, encoder.begin + encoder.width)
            evidence[:, own] += encoder.click_effects(features, every, np.array([0, len(every)]))
        return evidence

    def log_position_weight(self, n_clicks: int) -> Float32Array:
        """Return the log of each click's share of all position weights.

        Oldest first. `n_clicks`: the length of the history, at most the window.
        """
        weights = np.asarray(self.position_weights, dtype=np.float32)[:, :n_clicks][:, ::-1]
        widths = np.asarray(self.block_widths, dtype=np.float32)
        weight_shares = widths @ (weights / weights.sum(axis=1, keepdims=True)) / widths.sum()
        return np.asarray(np.log(np.maximum(weight_shares, MIN_TOTAL)), dtype=np.float32)

    def blocks(self, dim: int) -> Iterator[tuple[slice, Float32Array, np.float32]]:
        """Yield the dimensions, position weights and exponent of each block."""
        if sum(self.block_widths) != dim:
            raise ParameterError(
                f"the rule has blocks of {sum(self.block_widths)} dimensions, the vectors {dim}."
            )
        begin = 0
        for width, weights, exponent in zip(
            self.block_widths, self.position_weights, self.exponents, strict=True
        ):
            block = slice(begin, begin + width)
            yield block, np.asarray(weights, dtype=np.float32), np.float32(exponent)
            begin = block.stop

    def log_group_weight(
        self, features: Float32Array, negatives: Float32Array | None = None
    ) -> Float32Array:
        """Return log P(click | history) of groups of one size (Eq. 6); zero without a weighting."""
        if self.weighting is None:
            return np.zeros(features.shape[:2], dtype=features.dtype)
        if callable(self.weighting):
            return self.weighting(features)
        of_similarity = (*SIMILARITIES[self.similarity], self.similarity_scale)
        if self.weighting == "sigmoid":
            return sigmoid_weight(features, *of_similarity)
        assert negatives is not None  # a rule names them
        return contrastive_weight(features, negatives, *of_similarity)
