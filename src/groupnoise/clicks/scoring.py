"""The scoring rule of a recommender: how the clicks of a history become scores of items.

A rule turns each history into a few *queries* with log weights, and every reader of a model
(recommend, the full ranking, artifacts, batch recall, the service) scores an item by

    log sum_k exp(log_weight_k + log P(item | query_k)).

The paper's MM has one query, the last click; its MM+ has one per click of the group, weighed by
Eq. 5. A rule is a record of plain numbers, so that it can be written beside the vectors, and it
runs on numpy, so that it can be read without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import check_choice, check_count
from groupnoise.exceptions import ParameterError

Float32Array = NDArray[np.float32]
FeaturesOf = Callable[[IntArray], Float32Array]
"""Maps item indices, shape (n,), to their vectors f, shape (n, dim)."""
GroupWeight = Callable[[Float32Array], Float32Array]
"""Maps features of groups of one size, (n, size, dim), to log P(click | history), (n, size)."""

SCOPES = ("group", "last")
NORMALIZATIONS = ("click", "history")
MAX_STRENGTH = 1e6
"""Of any number of a rule: a larger one drowns the scores, in the end in NaN."""
N_NEGATIVES = 100
MIN_TOTAL = 1e-6
"""Of the weights of all clicks of a history: less is taken as this much."""
_BLOCK_ENTRIES = 1 << 22
_LISTS = ("negatives", "block_widths", "position_weights", "exponents")


class Mixture(NamedTuple):
    """Histories as weighted queries, one history after the other.

    Attributes
    ----------
    queries : float32 ndarray of shape (n_queries, dim)
        Distinct query vectors.
    items : int64 ndarray of shape (n_queries,), optional
        The item whose vector each query is; None where queries are no items.
    query_of : int64 ndarray of shape (n_terms,)
        The query of each term of each history.
    log_weight : float32 ndarray of shape (n_terms,)
        The log weight of each term.
    offsets : int64 ndarray of shape (n_histories + 1,)
        Where the terms of each history begin; every history has at least one.
    """

    queries: Float32Array
    items: IntArray | None
    query_of: IntArray
    log_weight: Float32Array
    offsets: IntArray

    def by_size(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield, for each number of terms that occurs, the histories and their terms (n, size)."""
        sizes = np.diff(self.offsets)
        for size in np.unique(sizes).tolist():
            rows = np.flatnonzero(sizes == size)
            yield rows, self.offsets[rows, None] + np.arange(size)

    def take(self, rows: IntArray) -> Mixture:
        """Return some of the histories, with the queries that these need."""
        terms, offsets = _ragged_rows(self.offsets, rows)
        distinct, query_of = distinct_of(self.query_of[terms], len(self.queries))
        items = None if self.items is None else self.items[distinct]
        return Mixture(self.queries[distinct], items, query_of, self.log_weight[terms], offsets)


@dataclass(frozen=True, kw_only=True)
class ScoringRule:
    """How a recommender scores items after a history.

    Which click a group's target is matched with (`selection`, `temperature`) is a matter of
    training: an answer always sums the probabilities of all queries, as MM+ does.

    Parameters
    ----------
    scope : {"group", "last"}, default="group"
        Whether the latest `window_size` clicks speak (the paper's MM+), or the last one alone (MM).
    window_size : int or None, default=None
        How many of the latest clicks make a group; None means all of them.
    weighting : {"sigmoid", "contrastive"}, callable or None, default="sigmoid"
        The form of the group weight, see :func:`groupnoise.core.make_weighting`. A callable maps
        features (n, size, dim) to log weights (n, size); no file can hold it.
    weighting_strength : float, default=1.0
        Lambda: multiplies the log of the group weight.
    similarity : {"dot", "neg_kl"}, default="dot"
        S of Eq. 5.
    similarity_scale : float, default=1.0
        Multiplies S.
    recency : float, default=0.0
        How much trust a click loses, on log scale, with each click that came after it.
    negatives : tuple of int, default=()
        The items that "contrastive" holds a click against: the same for every history, so that
        an answer does not depend on who else asks.
    normalization : {"click", "history"}, default="click"
        Whether every click is normalised over the catalogue and the probabilities are mixed, or
        the evidence of all clicks is added to one query and normalised after; see
        :mod:`groupnoise.clicks.evidence`. The three that follow belong to "history".
    block_widths : tuple of int, default=()
        How many dimensions each block of the vectors has.
    position_weights : tuple of tuple of float, default=()
        For each block the weight of a click by how many clicks came after it.
    exponents : tuple of float, default=()
        For each block the exponent of the sum of weights that its evidence is divided by.
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

    @property
    def n_clicks(self) -> int | None:
        """How many of the latest clicks an answer is made from; None means all."""
        return 1 if self.scope == "last" else self.window_size

    @property
    def clicks_used(self) -> str:
        """What an answer is made from, in words."""
        if self.n_clicks is None:
            return "all clicks"
        return "the last click" if self.n_clicks == 1 else f"the last {self.n_clicks} clicks"

    def with_scope(self, scope: str | None) -> ScoringRule:
        """Return this rule asked with another scope; None leaves it as it is.

        Parameters
        ----------
        scope : {"group", "last"} or None
            Which clicks speak; None leaves the rule as it is.

        Returns
        -------
        ScoringRule
            The rule with that scope.
        """
        return self if scope is None else replace(self, scope=scope)

    def as_record(self) -> dict[str, Any]:
        """Return the rule as JSON can hold it.

        Returns
        -------
        dict
            Plain values, ready for JSON.

        Raises
        ------
        ParameterError
            If the weighting is code, which no file holds.
        """
        if callable(self.weighting):
            name = getattr(self.weighting, "__qualname__", type(self.weighting).__name__)
            raise ParameterError(
                f"a file cannot hold the weighting {name}, which is code; train with "
                'weighting="sigmoid", "contrastive" or None, and similarity="dot" or "neg_kl".'
            )
        record = asdict(self)
        record["position_weights"] = [list(weights) for weights in self.position_weights]
        for name in ("negatives", "block_widths", "exponents"):
            record[name] = list(record[name])
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> ScoringRule:
        """Return the rule that :meth:`as_record` described, from a file that may hold anything.

        Parameters
        ----------
        record : dict
            What :meth:`as_record` returned.

        Returns
        -------
        ScoringRule
            The same rule.
        """
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
        plain = {name: tuple(values) for name, values in lists.items()}
        return cls(**{**record, **plain, "position_weights": tuple(map(tuple, weights))})

    def mixture(self, features_of: FeaturesOf, items: IntArray, offsets: IntArray) -> Mixture:
        """Return the queries of histories and their log weights.

        Parameters
        ----------
        features_of : callable
            Gives the vectors f of items.
        items : int64 ndarray of shape (n_clicks,)
            Item indices of all histories, one history after the other, oldest click first.
        offsets : int64 ndarray of shape (n_histories + 1,)
            Where each history begins; none is empty.

        Returns
        -------
        Mixture
        """
        clicks, begins = recent_clicks(items, offsets, self.n_clicks)
        distinct, query_of = distinct_of(clicks)
        queries = features_of(distinct)
        if self.normalization == "history":
            contexts = self._contexts(queries, query_of, begins)
            rows = np.arange(len(contexts) + 1)
            no_weight = np.zeros(len(contexts), dtype=contexts.dtype)
            return Mixture(contexts, None, rows[:-1], no_weight, rows)
        against = features_of(np.array(self.negatives, dtype=np.int64)) if self.negatives else None
        later = np.repeat(begins[1:], np.diff(begins)) - np.arange(1, len(clicks) + 1)
        log_weight = (-self.recency * later).astype(queries.dtype)
        mixture = Mixture(queries, distinct, query_of, log_weight, begins)
        if self.weighting is not None and self.weighting_strength:
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
        sizes = np.diff(offsets)
        later = np.repeat(offsets[1:], sizes) - np.arange(1, len(click_of) + 1)
        contexts = np.empty((len(sizes), features.shape[1]), dtype=features.dtype)
        for block, weights, exponent in self._blocks(features.shape[1]):
            table = sparse.csr_array(
                (weights[later], click_of, offsets), shape=(len(sizes), len(features))
            )
            total = np.maximum(np.add.reduceat(weights[later], offsets[:-1]), MIN_TOTAL)
            contexts[:, block] = (table @ features[:, block]) * total[:, None] ** -exponent
        return contexts

    def click_evidence(self, features: Float32Array) -> Float32Array:
        """Return what each click of one history adds to its query.

        Parameters
        ----------
        features : float32 ndarray of shape (n_clicks, dim)
            f of the clicks that count, oldest first.

        Returns
        -------
        float32 ndarray of shape (n_clicks, dim)
            The sum over clicks is the query of the history.
        """
        evidence = np.empty_like(features)
        later = np.arange(len(features) - 1, -1, -1)
        for block, weights, exponent in self._blocks(features.shape[1]):
            total = max(float(weights[later].sum()), MIN_TOTAL)
            evidence[:, block] = features[:, block] * (weights[later] * total**-exponent)[:, None]
        return evidence

    def log_position_weight(self, n_clicks: int) -> Float32Array:
        """Return the log of each click's share of all position weights.

        Parameters
        ----------
        n_clicks : int
            How many clicks the history has, at most as many as count.

        Returns
        -------
        float32 ndarray of shape (n_clicks,)
            Oldest first.
        """
        weights = np.asarray(self.position_weights, dtype=np.float32)[:, :n_clicks][:, ::-1]
        widths = np.asarray(self.block_widths, dtype=np.float32)
        shares = widths @ (weights / weights.sum(axis=1, keepdims=True)) / widths.sum()
        return np.asarray(np.log(np.maximum(shares, MIN_TOTAL)), dtype=np.float32)

    def _blocks(self, dim: int) -> Iterator[tuple[slice, Float32Array, np.float32]]:
        """Yield the dimensions, position weights and exponent of each block."""
        if sum(self.block_widths) != dim:
            raise ParameterError(
                f"the rule has blocks of {sum(self.block_widths)} dimensions, the vectors {dim}."
            )
        begin = 0
        for width, weights, exponent in zip(
            self.block_widths, self.position_weights, self.exponents, strict=True
        ):
            yield (
                slice(begin, begin + width),
                np.asarray(weights, dtype=np.float32),
                np.float32(exponent),
            )
            begin += width

    def log_group_weight(
        self, features: Float32Array, negatives: Float32Array | None = None
    ) -> Float32Array:
        """Return log P(click | history) of groups of one size (Eq. 5).

        Parameters
        ----------
        features : float32 ndarray of shape (n, size, dim)
            f of the clicks.
        negatives : float32 ndarray of shape (n_negatives, dim), optional
            f of the rule's negatives, which "contrastive" needs.

        Returns
        -------
        float32 ndarray of shape (n, size)
            Zero without a weighting.
        """
        if self.weighting is None:
            return np.zeros(features.shape[:2], dtype=features.dtype)
        if callable(self.weighting):
            return self.weighting(features)
        between, context = _SIMILARITIES[self.similarity]
        if self.weighting == "sigmoid":
            return _sigmoid_weight(features, between, context, self.similarity_scale)
        assert negatives is not None  # mixture() looks up what a rule names
        return _contrastive_weight(features, negatives, between, context, self.similarity_scale)


def popular_negatives(popularity: FloatArray, n: int = N_NEGATIVES) -> tuple[int, ...]:
    """Return items at even steps of all clicks, so that an item comes as often as it is clicked.

    In training a click is held against clicks of other groups, which are drawn that way too.

    Parameters
    ----------
    popularity : ndarray of shape (n_items,)
        How often each item was clicked.
    n : int, default=100
        How many to return.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> popular_negatives(np.array([1.0, 0.0, 3.0]), 4)
    (0, 2, 2, 2)
    """
    clicks = np.cumsum(np.asarray(popularity, dtype=np.float64))
    steps = (np.arange(n) + 0.5) / n * clicks[-1]
    found = np.minimum(np.searchsorted(clicks, steps, side="right"), len(clicks) - 1)
    return tuple(found.tolist())


def recent_clicks(
    items: IntArray, offsets: IntArray, n_clicks: int | None
) -> tuple[IntArray, IntArray]:
    """Return the last `n_clicks` of each history, and where each begins among them.

    Examples
    --------
    >>> clicks, begins = recent_clicks(np.array([7, 8, 9, 4]), np.array([0, 3, 4]), 2)
    >>> clicks.tolist(), begins.tolist()
    ([8, 9, 4], [0, 2, 3])
    """
    sizes = np.diff(offsets)
    if n_clicks is None or not len(sizes) or sizes.max() <= n_clicks:
        return items[offsets[0] : offsets[-1]], offsets - offsets[0]
    taken = np.minimum(sizes, n_clicks)
    begins = np.concatenate([[0], np.cumsum(taken)])
    first = np.repeat(offsets[1:] - taken - begins[:-1], taken)
    return items[first + np.arange(begins[-1])], begins


def distinct_of(values: IntArray, n_values: int | None = None) -> tuple[IntArray, IntArray]:
    """Return the distinct values in order, and which of them each value is."""
    if n_values is None:
        n_values = int(values.max()) + 1 if len(values) else 0
    is_used = np.zeros(n_values, dtype=bool)
    is_used[values] = True
    distinct = np.flatnonzero(is_used)
    place = np.empty(n_values, dtype=np.int64)
    place[distinct] = np.arange(len(distinct))
    return distinct, place[values]


def _ragged_rows(offsets: IntArray, rows: IntArray) -> tuple[IntArray, IntArray]:
    sizes = np.diff(offsets)[rows]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    first = np.repeat(offsets[rows] - begins[:-1], sizes)
    return first + np.arange(begins[-1]), begins


def log_sum_exp(scores: NDArray[Any], *, axis: int) -> NDArray[Any]:
    """Return log(sum(exp(scores))) along an axis; `scores` is used as working space."""
    highest = scores.max(axis=axis, keepdims=True)
    np.subtract(scores, highest, out=scores)
    np.exp(scores, out=scores)
    return np.asarray(np.log(scores.sum(axis=axis)) + highest.squeeze(axis))


def _softmax(scores: Float32Array) -> Float32Array:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


_Between = Callable[[Float32Array, Float32Array], Float32Array]
_Context = Callable[[Float32Array, Float32Array, Float32Array], Float32Array]


def _sigmoid_weight(
    features: Float32Array, between: _Between, context: _Context, scale: float
) -> Float32Array:
    """Return the paper's form: log sigmoid of S(context of the other clicks, click)."""
    size = features.shape[1]
    if size == 1:  # no context to agree with
        return np.zeros(features.shape[:2], dtype=features.dtype)
    likeness = scale * between(features, features)
    likeness[:, np.arange(size), np.arange(size)] = -np.inf
    agreement = scale * context(_softmax(likeness), features, features)
    return np.asarray(-np.logaddexp(np.zeros_like(agreement), -agreement))


def _contrastive_weight(
    features: Float32Array,
    negatives: Float32Array,
    between: _Between,
    context: _Context,
    scale: float,
) -> Float32Array:
    """Return the authors' form: a click against negatives, each in the context of the group.

    As in their code an object's own similarity enters its attention as zero.
    """
    size = features.shape[1]
    likeness = scale * between(features, features)
    likeness[:, np.arange(size), np.arange(size)] = 0.0
    own = scale * context(_softmax(likeness), features, features)
    strange = np.broadcast_to(negatives, (len(features), *negatives.shape))
    attention = _softmax(scale * between(strange, features))
    others = log_sum_exp(scale * context(attention, features, strange), axis=-1)
    return np.asarray(own - np.logaddexp(own, others[:, None]))


def _dot_between(left: Float32Array, right: Float32Array) -> Float32Array:
    return np.asarray(np.matmul(left, right.transpose(0, 2, 1)))


def _dot_context(
    attention: Float32Array, features: Float32Array, queries: Float32Array
) -> Float32Array:
    return np.asarray((np.matmul(attention, features) * queries).sum(axis=-1))


def _kl_between(left: Float32Array, right: Float32Array) -> Float32Array:
    probabilities = np.exp(left)
    negative_entropy = (probabilities * left).sum(axis=-1, keepdims=True)
    return np.asarray(np.matmul(probabilities, right.transpose(0, 2, 1)) - negative_entropy)


def _kl_context(
    attention: Float32Array, features: Float32Array, queries: Float32Array
) -> Float32Array:
    mixed = np.maximum(np.matmul(attention, np.exp(features)), np.finfo(np.float32).tiny)
    return np.asarray((mixed * (queries - np.log(mixed))).sum(axis=-1))


_SIMILARITIES: dict[str, tuple[_Between, _Context]] = {
    "dot": (_dot_between, _dot_context),
    "neg_kl": (_kl_between, _kl_context),
}
"""For each S: S of every pair, and S of the context that queries attend to and the queries."""
