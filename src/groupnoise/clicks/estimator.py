"""MaxMatchingRecommender: click histories in, ranked next items out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from groupnoise.clicks.catalogue import Catalogue, IndexedHistories, ItemHistories
from groupnoise.clicks.history_scores import (
    ItemSlices,
    ItemVectors,
    among_all_clicks,
    item_slices,
    objective_of_answers,
    queries_of,
    rule_of,
    score_catalogue,
    score_items,
)
from groupnoise.clicks.history_windows import large_enough, sliding_windows
from groupnoise.clicks.recommender import ItemToItemRecommender
from groupnoise.clicks.scoring import Mixture, ScoringRule
from groupnoise.clicks.spectral import start_among_neighbours
from groupnoise.core.arrays import FloatArray, IntArray, ProgressCallback, RandomState
from groupnoise.core.batching import batch_rows, collate
from groupnoise.core.candidates import (
    CandidateSource,
    FullCandidates,
    InBatchCandidates,
    SampledCandidates,
)
from groupnoise.core.checks import check_choice, check_count, check_positive
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel, item_model, merge_item_models
from groupnoise.core.pair_matching import PairMatching
from groupnoise.core.selection import Selection
from groupnoise.core.similarity import Similarity
from groupnoise.core.weighting import Weighting
from groupnoise.decisions.trade_off import WindowTrials
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import MatchingEstimator, ObjectScores, Validate, object_scores
from groupnoise.training.workers import OneWorker, Workers

EVALUATION_BATCH = 512

SCORES_AT_ONCE = 1 << 25
"""Scores, or entries of candidate vectors, held at a time: 128 MB."""


class MaxMatchingRecommender(MatchingEstimator, ItemToItemRecommender):
    """Recommend next items after learning from click histories.

    Objects are clicked items, the target is the next one; f and g are vectors per item, h = f and
    S the dot product (the paper's Table 1, third row).

    Parameters
    ----------
    dim : int
        Width of the vectors.
    shared : bool
        Whether f and g share one table; two tables overfit on small logs.
    item_bias : bool
        Whether every item has a bias as a target.
    window_size : int
        How many clicks make a group.
    min_window : int
        The fewest clicks that make a group; `window_size` keeps full windows alone.
    scope : {"group", "last"}
        What a recommendation is made from: the last `window_size` clicks (the paper's MM+), or
        the last one alone (MM).
    candidates : {"sampled", "full", "in_batch"}
        What pair matching normalizes over.
    n_negatives : int
        How many items "sampled" draws for a batch.
    corrected : bool
        Whether sampled candidates are corrected for how they were drawn (logQ).
    init : {"random", "spectral"} or sequence of them
        Initial vectors: random ones (the paper), or eigenvectors of which items are clicked
        together. These place a rare item among its neighbours' neighbours, which lifts the top of
        the whole catalogue; they cost memory for the pairs of items clicked together. Members
        take the entries of a sequence in turn.
    init_std : float
        Deviation of random initial vectors.
    selection, temperature, top_k
        How a group's score comes from its clicks; see
        :func:`groupnoise.core.make_selection`.
    weighting, weighting_strength, similarity, similarity_scale
        Group weighting; see :func:`groupnoise.core.make_weighting`.
        `weighting_strength="auto"` and `temperature="auto"` are chosen on held-out groups.
    recency : float
        How fast trust in a click falls with each later click, in training and in answers; see
        :func:`groupnoise.core.selection.log_recency`. 0 (the paper) ignores the order.
    max_epochs, batch_size, learning_rate, weight_decay, schedule, patience, shuffle_pool
        See :class:`groupnoise.training.TrainingPlan`.
    n_members : int
        How many models are trained one after the other; their scores are averaged. They become
        one model of `n_members * dim` wide vectors, which is saved, exported and served as any
        other. `init=("spectral", "random")` makes them differ, so that averaging helps most.
    on_epoch : callable, optional
        Called with a record after each epoch.
    random_state : int, generator or None
        Decides all randomness.

    Attributes
    ----------
    items_ : ndarray of shape (n_items,)
        The id of each item index.
    popularity_ : ndarray of shape (n_items,)
        How often each item was a target.
    model_ : MatchingModel
        The trained tables.
    history_ : History
        One record per epoch.

    Examples
    --------
    >>> histories = [["tea", "milk", "jam", "bread"], ["nail", "hammer", "saw", "nail"]] * 20
    >>> model = MaxMatchingRecommender(dim=8, max_epochs=10, candidates="full", random_state=0)
    >>> ids, _ = model.fit(histories).recommend([["tea", "milk"]], top=1)
    >>> ids.tolist()
    [['jam']]
    """

    _learned = "model_"

    def __init__(
        self,
        *,
        dim: int = 128,
        shared: bool = True,
        item_bias: bool = True,
        window_size: int = 5,
        min_window: int = 1,
        scope: str = "group",
        candidates: str = "sampled",
        n_negatives: int = 256,
        corrected: bool = False,
        init: str | Sequence[str] = "random",
        init_std: float = 0.05,
        selection: str | Selection = "marginal",
        temperature: float | Sequence[float] | str = (1.0, 0.3),
        top_k: int = 2,
        weighting: str | Weighting | None = "sigmoid",
        weighting_strength: float | str = 1.0,
        similarity: str | Similarity = "dot",
        similarity_scale: float = 1.0,
        recency: float = 0.3,
        max_epochs: int = 6,
        batch_size: int = 512,
        learning_rate: float = 5e-3,
        weight_decay: float = 0.2,
        schedule: str = "linear",
        patience: int | None = None,
        shuffle_pool: int | None = None,
        n_members: int = 1,
        on_epoch: ProgressCallback | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.dim = dim
        self.shared = shared
        self.item_bias = item_bias
        self.window_size = window_size
        self.min_window = min_window
        self.scope = scope
        self.candidates = candidates
        self.n_negatives = n_negatives
        self.corrected = corrected
        self.init = init
        self.init_std = init_std
        self.selection = selection
        self.temperature = temperature
        self.top_k = top_k
        self.weighting = weighting
        self.weighting_strength = weighting_strength
        self.similarity = similarity
        self.similarity_scale = similarity_scale
        self.recency = recency
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.patience = patience
        self.shuffle_pool = shuffle_pool
        self.n_members = n_members
        self.on_epoch = on_epoch
        self.random_state = random_state

    @classmethod
    def paper(cls, **overrides: Any) -> MaxMatchingRecommender:
        """Return the paper's settings: max selection, lambda 1, full windows, plain Adam."""
        settings = {
            "selection": "max",
            "weighting_strength": 1.0,
            "recency": 0.0,
            "min_window": 5,
            "weight_decay": 0.0,
            "schedule": "constant",
            "learning_rate": 1e-3,
            "max_epochs": 10,
        }
        return cls(**{**settings, **overrides})

    def fit(
        self,
        histories: ItemHistories | Groups,
        y: object = None,
        *,
        item_ids: Any = None,
        validate: Validate | None = None,
        workers: Workers | None = None,
        checkpoint: Checkpoints | None = None,
    ) -> MaxMatchingRecommender:
        """Learn from click histories.

        Parameters
        ----------
        histories : sequence of sequences of item ids, or Groups
            Each user's clicks in time order. Groups hold item indices: without targets each is a
            whole history, with targets each is a window whose next click is known; windows of
            fewer than `min_window` clicks are left out.
        y : ignored
            Present for scikit-learn.
        item_ids : array-like of shape (n_items,), optional
            The whole catalogue; by default every item that occurs.
        validate : callable, optional
            Called with this estimator after each epoch; the best epoch's weights are kept. Of
            several members the one in training answers alone.
        workers : Workers, optional
            The processes that share this training; by default this one trains alone.
        checkpoint : Checkpoints, optional
            Where the training saves itself while it runs, and goes on from after an interruption.
        """
        training = self._prepare(histories, item_ids)
        if training.targets is None:
            training = sliding_windows(training, self.window_size, self.min_window).groups
        training = large_enough(training, self.min_window)
        self._settle_trade_off(WindowTrials(training, self.items_))
        generator = self._generator()
        starts = itertools.cycle(self._starts())

        def build(first_weights: torch.Generator) -> MatchingModel:
            model = self._build_model(first_weights, self.dim, workers)
            if next(starts) == "spectral":
                start_among_neighbours(model, training, rate=self.recency, generator=generator)
            return model

        self._train_members(
            build,
            training,
            PairMatching(self._source()),
            generator,
            validate=validate,
            workers=workers,
            checkpoint=checkpoint,
        )
        self._merge_members()
        return self

    def _merge_members(self) -> None:
        """Keep the members as one model, so that whatever reads a model need not know of them."""
        members = self._models()
        # Workers other than the first hold parts of the tables, and answer nothing.
        if len(members) > 1 and members[0].own_ids == slice(None):
            wide = self._build_model(torch.Generator(), self.dim * len(members))
            merge_item_models(members, wide)
            self.model_ = wide
        del self.members_

    def _weights(self) -> nn.Module:
        # Also where a training failed before its members were merged.
        return self.model_

    def _starts(self) -> Sequence[str]:
        # What is neither a name nor a sequence is left for the check of names to refuse.
        return self.init if isinstance(self.init, (list, tuple)) else (self.init,)

    def _check_parameters(self) -> None:
        check_count("dim", self.dim)
        check_count("window_size", self.window_size)
        check_positive("recency", self.recency, allow_zero=True)
        check_choice("scope", self.scope, ("group", "last"))
        check_choice("candidates", self.candidates, ("sampled", "full", "in_batch"))
        if not self._starts():
            raise ParameterError("init names no start; give 'random', 'spectral' or both.")
        for start in self._starts():
            check_choice("init", start, ("random", "spectral"))

    def _build_model(
        self, generator: torch.Generator, dim: int, workers: Workers | None = None
    ) -> MatchingModel:
        # An exact softmax reads and moves every row, so there is nothing to split or leave alone.
        make = (
            partial(item_model, sparse=False)
            if self.candidates == "full"
            else (workers or OneWorker()).item_model
        )
        return make(
            self.n_items_,
            dim,
            shared=self.shared,
            has_bias=self.item_bias,
            std=self.init_std,
            generator=generator,
        )

    def _source(self) -> CandidateSource:
        if self.candidates == "full":
            return FullCandidates(self.n_items_)
        if self.candidates == "sampled":
            return SampledCandidates(self.n_items_, self.n_negatives, corrected=self.corrected)
        shares = torch.from_numpy(self.popularity_ / self.popularity_.sum())
        return InBatchCandidates(shares if self.corrected else None)

    def _rows_at_once(self, n_candidates: int | None) -> int:
        # The more histories together, the more clicks they share.
        width = self.n_items_ if n_candidates is None else n_candidates * self.dim * self.n_members
        return max(1, SCORES_AT_ONCE // width)

    def scoring_rule(self) -> ScoringRule:
        """Return how this model scores items after a history.

        Everything that answers for this model, here or from an exported artifact, goes by it.

        Returns
        -------
        ScoringRule
        """
        check_is_fitted(self)
        return rule_of(
            self._objective(),
            scope=self.scope,
            window_size=self.window_size,
            popularity=self.popularity_,
        )

    def _score_all(self, histories: Groups) -> FloatArray:
        scores: FloatArray = score_catalogue(self.model_, self._queries(histories)).numpy()
        return scores

    def item_slices(self, histories: Groups) -> ItemSlices | None:
        """Return what scores all histories for a few items at a time, for ranking at size.

        Parameters
        ----------
        histories : Groups of item indices
            Targets are ignored.

        Returns
        -------
        ItemSlices or None
            None where only :meth:`scores` will do: an item is unknown, or a probability too small
            for single precision.
        """
        check_is_fitted(self)
        if self.catalogue_.index(histories).n_unknown.any() or not histories.sizes.all():
            return None
        return item_slices(self.model_, self._queries(histories))

    def _score_some(self, histories: Groups, items: IntArray) -> FloatArray:
        wanted = torch.from_numpy(np.maximum(items, 0))
        scores: FloatArray = score_items(self.model_, self._queries(histories), wanted).numpy()
        return scores

    def _queries(self, histories: Groups) -> Mixture:
        return queries_of(self.model_, self.scoring_rule(), histories)

    def _item_similarity(self, indices: IntArray) -> FloatArray:
        with torch.no_grad():
            vectors = self.model_.encode_objects(torch.from_numpy(indices))
            everything = torch.arange(self.n_items_)
            similarity: FloatArray = self.model_.logits(vectors, everything).numpy()
        return similarity

    def select(self, histories: ItemHistories | Groups, targets: Any = None) -> ObjectScores:
        """Return which click matches the next item best, and how all clicks score.

        Parameters
        ----------
        histories : sequence of sequences of item ids, or Groups of item indices
            The clicks; groups may carry their targets. A click that is not in the catalogue keeps
            its place: it scores -inf, has no share and is never chosen.
        targets : array-like of shape (n_histories,), optional
            The next item of each history: an id, or an index for groups without targets.

        Raises
        ------
        DataError
            If a history holds no click of the catalogue, or a target is not in it.
        """
        check_is_fitted(self)
        asked = histories if isinstance(histories, Groups) else list(histories)
        indexed = self.catalogue_.index(asked)
        groups = self._with_targets(asked, indexed, targets)
        objective = objective_of_answers(self._objective(), self.scoring_rule(), self.model_)
        pair = PairMatching(FullCandidates(self.n_items_))
        outputs = []
        with torch.no_grad():
            for rows in batch_rows(groups.sizes, EVALUATION_BATCH, None):
                batch = collate(groups, rows)
                matching = pair(self.model_, batch, torch.Generator())
                outputs.append((objective(matching), batch.mask))
        found = object_scores(outputs)
        if not indexed.n_unknown.any():
            return found
        sizes = np.diff(indexed.offsets) + indexed.n_unknown
        return among_all_clicks(found, self.catalogue_.knows(asked), sizes)

    def _with_targets(
        self, histories: Sequence[Any] | Groups, indexed: IndexedHistories, targets: Any
    ) -> Groups:
        """Return the known clicks of each history with the next item."""
        if isinstance(histories, Groups):
            wanted = histories.targets if targets is None else np.asarray(targets)
        else:
            wanted = None if targets is None else self.catalogue_.indices_of(targets)
        if wanted is None:
            raise DataError("select needs the next item of each history; pass targets.")
        unknown = np.flatnonzero((wanted < 0) | (wanted >= self.n_items_))
        if len(unknown):
            raise DataError(f"the target of history {unknown[0]} is not in the catalogue.")
        empty = np.flatnonzero(np.diff(indexed.offsets) == 0)
        if len(empty):
            raise DataError(f"history {empty[0]} holds no click that is in the catalogue.")
        return Groups(indexed.items, indexed.offsets, wanted)

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
            **described,
        )

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        dim = self.model_.object_encoder.weight.shape[1]  # type: ignore[index]
        return {"dim": dim}, {**self.catalogue_.to_arrays(), "popularity": self.popularity_}

    def _rebuild(self, fitted: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_parameters()
        self.catalogue_ = Catalogue.from_arrays(arrays)
        self.popularity_ = arrays["popularity"]
        self._check_popularity()
        # Folders written before there were members do not say how wide their vectors are.
        width = fitted.get("dim", self.dim)
        self.model_ = self._build_model(torch.Generator().manual_seed(0), width)
