"""The vectors of a recall model, and the scores that its rule gives with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from groupnoise.clicks.mixture import Float32Array, Mixture
from groupnoise.clicks.scoring import SCOPES, ScoringRule
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.recall.log_normalizers import log_normalizers


@dataclass(frozen=True)
class MatchingVectors:
    """Item vectors and the rule that scores with them.

    `targets` (n_items, dimension + 1): g of every item; the last column is its bias, so that one
        product gives the score.
    `queries` (n_items, dimension or dimension + 1): f of every item; may be `targets` itself, whose
        bias column is then passed over.
    `log_normalizer`: log of the sum of exponentiated scores over the whole catalogue, per clicked
        item.
    `rule`: how the clicks of a history become queries.
    """

    targets: Float32Array
    queries: Float32Array
    log_normalizer: Float32Array
    rule: ScoringRule

    @property
    def dimension(self) -> int:
        """The length of a vector, the bias left out."""
        return int(self.targets.shape[1]) - 1

    def features(self, positions: IntArray) -> Float32Array:
        """Return f of the items at `positions`, shape (..., dimension)."""
        return np.asarray(self.queries.take(positions, axis=0)[..., : self.dimension])

    def mixture(self, histories: Sequence[IntArray], scope: str | None = None) -> Mixture:
        """Return the weighted queries of histories, none of them empty."""
        rule = self._rules[scope]
        if len(histories) == 1:
            return rule.mixture(self.features, histories[0], np.array([0, len(histories[0])]))
        offsets = np.zeros(len(histories) + 1, dtype=np.int64)
        np.cumsum([len(history) for history in histories], out=offsets[1:])
        return rule.mixture(self.features, np.concatenate(histories), offsets)

    @cached_property
    def _rules(self) -> dict[str | None, ScoringRule]:
        """The rule under every scope: to make and check one anew would cost each request."""
        return {scope: self.rule.with_scope(scope) for scope in (None, *SCOPES)}

    def group_weights(self, history: IntArray) -> FloatArray:
        """Return P(click | history) of the latest clicks, those that make a group."""
        group = history if self.rule.window_size is None else history[-self.rule.window_size :]
        negatives = np.array(self.rule.negatives, dtype=np.int64)
        log_weight = self.rule.log_group_weight(
            self.features(group)[None], self.features(negatives) if len(negatives) else None
        )
        return np.asarray(np.exp(log_weight[0].astype(np.float64)))

    def query_rows(self, mixture: Mixture) -> Float32Array:
        """Return rows whose product with `targets` is the score, shape (n_queries, dim + 1)."""
        rows = np.ones((len(mixture.queries), self.dimension + 1), dtype=np.float32)
        rows[:, :-1] = mixture.queries
        return rows

    def term_offsets(self, mixture: Mixture) -> Float32Array:
        """Return what each term adds to the product of its query with a target, (n_terms,)."""
        if mixture.items is not None:
            normalizer = self.log_normalizer[mixture.items]
        else:
            normalizer = log_normalizers(self.query_rows(mixture), self.targets)
        return np.asarray(mixture.log_weight - normalizer[mixture.query_of], dtype=np.float32)

    def contributions(self, mixture: Mixture, positions: IntArray) -> FloatArray:
        """Return what each term says for each item, shape (n_terms, n_positions)."""
        pairs = self.query_rows(mixture)[mixture.query_of] @ self.targets[positions].T
        return np.asarray(pairs + self.term_offsets(mixture)[:, None])

    def click_evidence(
        self, history: IntArray, positions: IntArray, scope: str | None = None
    ) -> FloatArray:
        """Return what each click that counts adds to the score of each item.

        Of rules that normalise histories; shape (n_clicks, n_positions).
        """
        rule = self._rules[scope]
        added = rule.click_evidence(self.features(history[-(rule.n_clicks or 0) :]))
        return np.asarray(added @ self.targets[positions, : self.dimension].T, dtype=np.float64)
