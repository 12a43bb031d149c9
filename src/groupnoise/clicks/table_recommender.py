"""A recommender of two tables of item vectors and a scoring rule."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from groupnoise.clicks.evaluation.ranking import RowScores
from groupnoise.clicks.evidence.model import Evidence
from groupnoise.clicks.history_scores import (
    ItemSlices,
    batch_independent_objective,
    encode_histories,
    evidence_of_clicks,
    history_logits,
    item_slices,
    restore_unknown_clicks,
    rule_from_objective,
    score_catalogue,
    score_items,
)
from groupnoise.clicks.item_to_item import ItemToItemRecommender
from groupnoise.clicks.items.catalogue import (
    IndexedHistories,
    ItemHistories,
    log_from_frame,
    reusable_histories,
)
from groupnoise.clicks.items.features import FeatureMap
from groupnoise.clicks.mixture import ItemVectors, Mixture
from groupnoise.clicks.scoring import ScoringRule
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.batching import batch_rows, collate
from groupnoise.core.candidates import FullCandidates
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel, item_model
from groupnoise.core.objective import ObjectScores, collect_object_scores
from groupnoise.core.pair_matching import PairMatching
from groupnoise.exceptions import DataError
from groupnoise.training.estimator import MatchingEstimator
from groupnoise.training.state import Moments, check_moments
from groupnoise.training.workers import Workers

EVALUATION_BATCH = 512
OPTIMIZER = "optimizer."
"""Prefix of the arrays that hold the state of an optimizer, followed by the member."""
SCORES_AT_ONCE = 1 << 25
"""Scores, or entries of candidate vectors, held at a time: 128 MB."""


class TableRecommender(MatchingEstimator, ItemToItemRecommender):
    """Scores items by their vectors, under a learned rule or that of an objective.

    A subclass trains `model_`, and sets `rule_` where evidence is added over a history.
    """

    _learned = "model_"
    rule_: ScoringRule
    feature_map_: FeatureMap
    optimizer_state_: list[Moments]
    scope: str
    keep_optimizer: bool

    def _set_evidence(self, evidence: Evidence) -> None:
        """Take over the item vectors and the scoring rule of learned evidence."""
        self.rule_ = evidence.rule()
        self._set_vectors(ItemVectors(evidence.objects, evidence.targets, evidence.bias))

    def _optimizer_states(self, n_members: int) -> list[Moments]:
        """Return the optimizer state of each member, empty where none was kept."""
        states = getattr(self, "optimizer_state_", [])
        if len(states) != n_members:
            states = [{} for _ in range(n_members)]
        self.optimizer_state_ = states
        return states

    def _set_vectors(self, vectors: ItemVectors) -> None:
        """Take over vectors of all items of a catalogue that may have grown."""
        model = self._empty_model(vectors.target.shape[1])
        shared = model.object_encoder is model.target_encoder
        weights = {
            "target_encoder.weight": vectors.target,
            "object_encoder.weight": vectors.target if shared else vectors.query,
        }
        if model.bias is not None:
            weights["bias"] = vectors.bias[:, None]
        model.load_state_dict({name: torch.from_numpy(rows) for name, rows in weights.items()})
        self.model_ = model.eval()

    def _empty_model(self, width: int) -> MatchingModel:
        """Return untrained tables, those of added evidence or those the parameters specify."""
        generator = torch.Generator().manual_seed(0)
        if not hasattr(self, "rule_"):
            return self._build_model(generator, width)
        return item_model(
            self.n_items_, width, shared=False, has_bias=True, std=1.0, generator=generator,
            sparse=False,
        )  # fmt: skip

    @abstractmethod
    def _build_model(
        self, generator: torch.Generator, dim: int, workers: Workers | None = None
    ) -> MatchingModel:
        """Return the untrained tables that the parameters specify."""

    def _rows_at_once(self, n_candidates: int | None) -> int:
        # The more histories together, the more clicks they share.
        width = self.n_items_ if n_candidates is None else n_candidates * self._width()
        return max(1, SCORES_AT_ONCE // width)

    def _width(self) -> int:
        """Return the dimension of the trained vectors."""
        return self.model_.object_encoder.weight.shape[1]  # type: ignore[index, return-value]

    def scoring_rule(self) -> ScoringRule:
        """Return how this model scores items after a history.

        Everything that answers for this model, here or from an exported artifact, goes by it.

        Returns
        -------
        ScoringRule
        """
        check_is_fitted(self)
        if hasattr(self, "rule_"):
            return self.rule_.with_scope(self.scope)
        return rule_from_objective(
            self._objective(),
            scope=self.scope,
            window_size=self._in_use("window_size"),
            popularity=self.popularity_,
        )

    def _score_all(self, histories: Groups) -> FloatArray:
        return score_catalogue(self.model_, self._queries(histories)).numpy()

    def item_slices(self, histories: Groups) -> ItemSlices | None:
        """Return scores of all histories for a few items at a time, for ranking large catalogues.

        Parameters
        ----------
        histories : Groups of item indices
            Targets are ignored.

        Returns
        -------
        ItemSlices or None
            None where :meth:`scores` must be used: an item is unknown, a probability too small
            for single precision, or a history one query.
        """
        if not self._reads_all(histories) or self.scoring_rule().normalization == "history":
            return None
        return item_slices(self.model_, self._queries(histories))

    def history_logits(self, histories: Groups) -> RowScores | None:
        """Return encoded histories, to be ranked a few at a time.

        Parameters
        ----------
        histories : Groups of item indices
            Targets are ignored.

        Returns
        -------
        callable or None
            Maps a slice of the histories to scores, shape (n_rows, n_items). None where a history
            is not one query, or an item unknown.
        """
        if not self._reads_all(histories) or self.scoring_rule().normalization != "history":
            return None
        return history_logits(self.model_, self._queries(histories))

    def _reads_all(self, histories: Groups) -> bool:
        """Tell whether every history has a click and every item is known."""
        check_is_fitted(self)
        is_known = not self.catalogue_.index(histories).n_unknown.any()
        return is_known and bool(histories.sizes.all())

    def _score_some(self, histories: Groups, items: IntArray) -> FloatArray:
        candidates = torch.from_numpy(np.maximum(items, 0))
        return score_items(self.model_, self._queries(histories), candidates).numpy()

    def _queries(self, histories: Groups) -> Mixture:
        return encode_histories(self.model_, self.scoring_rule(), histories)

    def _scores_after(self, items: IntArray) -> FloatArray:
        return self._after_one_click(items)

    def select(self, histories: ItemHistories | Groups, targets: Any = None) -> ObjectScores:
        """Return the click that matches the next item best, and the scores of all clicks.

        Parameters
        ----------
        histories : sequence of sequences of item ids, or Groups of item indices
            The clicks; groups may carry their targets. A click that is not in the catalogue keeps
            its position: it scores -inf, has no responsibility and is never chosen.
        targets : array-like of shape (n_histories,), optional
            The next item of each history: an id, or an index for groups without targets.

        Returns
        -------
        ObjectScores
            One row per click, and the position of the click chosen in each history.

        Raises
        ------
        DataError
            If a history holds no click of the catalogue, or a target is not in it.
        """
        check_is_fitted(self)
        clicks: Any = log_from_frame(histories) or reusable_histories(histories)
        indexed = self.catalogue_.index(clicks)
        groups = self._with_targets(clicks, indexed, targets)
        if hasattr(self, "rule_"):
            found = evidence_of_clicks(self.scoring_rule(), self.item_vectors(), groups)
            return self._at_all_clicks(found, clicks, indexed)
        objective = batch_independent_objective(self._objective(), self.scoring_rule(), self.model_)
        pair = PairMatching(FullCandidates(self.n_items_))
        outputs = []
        with torch.no_grad():
            for rows in batch_rows(groups.sizes, EVALUATION_BATCH, None):
                batch = collate(groups, rows)
                matching = pair(self.model_, batch, torch.Generator())
                outputs.append((objective(matching), batch.mask))
        return self._at_all_clicks(collect_object_scores(outputs), clicks, indexed)

    def _at_all_clicks(
        self, scores: ObjectScores, clicks: Sequence[Any] | Groups, indexed: IndexedHistories
    ) -> ObjectScores:
        """Return scores of known clicks at their positions among all clicks."""
        if not indexed.n_unknown.any():
            return scores
        sizes = np.diff(indexed.offsets) + indexed.n_unknown
        return restore_unknown_clicks(scores, self.catalogue_.knows(clicks), sizes)

    def _with_targets(
        self, histories: Sequence[Any] | Groups, indexed: IndexedHistories, targets: Any
    ) -> Groups:
        """Return the known clicks of each history with the next item."""
        if isinstance(histories, Groups):
            next_items = histories.targets if targets is None else np.asarray(targets)
        else:
            next_items = None if targets is None else self.catalogue_.indices_of(targets)
        if next_items is None:
            raise DataError("select needs the next item of each history; pass targets.")
        unknown = np.flatnonzero((next_items < 0) | (next_items >= self.n_items_))
        if len(unknown):
            raise DataError(f"the target of history {unknown[0]} is not in the catalogue.")
        empty = np.flatnonzero(np.diff(indexed.offsets) == 0)
        if len(empty):
            raise DataError(f"history {empty[0]} holds no click that is in the catalogue.")
        return Groups(indexed.items, indexed.offsets, next_items)

    def item_vectors(self) -> ItemVectors:
        """Return the vectors and biases of all items.

        Returns
        -------
        ItemVectors
        """
        check_is_fitted(self)
        ids = torch.arange(self.n_items_)
        with torch.no_grad():
            bias = self.model_.target_bias(ids)
            return ItemVectors(
                self.model_.encode_objects(ids).numpy(),
                self.model_.encode_targets(ids).numpy(),
                np.zeros(self.n_items_, dtype=np.float32) if bias is None else bias.numpy(),
            )

    def _write_artifact(
        self, path: Path | str, n_neighbours: int, described: dict[str, Any]
    ) -> str:
        from groupnoise.recall.artifact import write_artifact

        vectors = self.item_vectors()
        return write_artifact(
            path,
            ids=self.items_,
            query_vectors=vectors.query,
            target_vectors=vectors.target,
            target_bias=vectors.bias,
            popularity=self.popularity_,
            rule=self.scoring_rule(),
            features=getattr(self, "feature_map_", None),
            **described,
        )

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        fitted: dict[str, Any] = {"dim": self._width()}
        arrays = {**self.catalogue_.to_arrays(), "popularity": self.popularity_}
        if hasattr(self, "rule_"):
            fitted["rule"] = self.rule_.as_record()
            arrays.update(self.rule_.arrays())
        if hasattr(self, "feature_map_"):
            arrays.update(self.feature_map_.to_arrays())
        for member, moments in enumerate(getattr(self, "optimizer_state_", [])):
            arrays.update({f"{OPTIMIZER}{member}.{name}": moments[name] for name in moments})
        return fitted, arrays

    def _restore_optimizer(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state of optimizers from a file, if it was saved."""
        by_member: dict[str, dict[str, NDArray[Any]]] = {}
        for name in arrays:
            if name.startswith(OPTIMIZER):
                member, _, own = name.removeprefix(OPTIMIZER).partition(".")
                by_member.setdefault(member, {})[own] = arrays[name]
        if by_member:
            self.optimizer_state_ = [check_moments(by_member[each]) for each in sorted(by_member)]
