"""Training on windows of clicks, each click normalised by itself: the paper's recommender."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from groupnoise.clicks.evidence.spectral import init_spectral
from groupnoise.clicks.table_recommender import TableRecommender
from groupnoise.clicks.windows.cutting import cut_windows, drop_small_groups
from groupnoise.core.candidates import (
    CandidateSource,
    FullCandidates,
    InBatchCandidates,
    SampledCandidates,
)
from groupnoise.core.groups import Groups
from groupnoise.core.model import MatchingModel, item_model, merge_item_models
from groupnoise.core.pair_matching import PairMatching
from groupnoise.decisions.portfolio import Option, is_auto
from groupnoise.decisions.record import Decisions
from groupnoise.decisions.trade_off import WindowTrials
from groupnoise.training.checkpoints import Checkpoints
from groupnoise.training.estimator import Validate
from groupnoise.training.workers import Workers

CLICK_VALUES: dict[str, Any] = {
    "dim": 128,
    "shared": True,
    "window_size": 5,
    "candidates": "sampled",
    "n_negatives": 256,
    "init": "random",
    "selection": "marginal",
    "recency": 0.3,
    "max_epochs": 6,
    "batch_size": 512,
    "learning_rate": 5e-3,
    "weight_decay": 0.2,
    "n_members": 1,
}
"""Values of "auto" under normalization="click"."""

CLICK_ONLY: dict[str, Any] = {
    "item_bias": True,
    "min_window": 1,
    "corrected": False,
    "init_std": 0.05,
    "selection": "auto",
    "temperature": (1.0, 0.3),
    "top_k": 2,
    "weighting": "sigmoid",
    "weighting_strength": 1.0,
    "similarity": "dot",
    "similarity_scale": 1.0,
    "recency": "auto",
    "schedule": "linear",
    "patience": None,
    "shuffle_pool": None,
    "n_members": "auto",
}
"""Parameters of normalization="click" alone, with their defaults: any other value selects it."""


class WindowTraining(TableRecommender):
    """Trains item vectors on sliding windows; a subclass holds the parameters."""

    min_window: int
    candidates: str
    init: str | Sequence[str]
    item_bias: bool
    init_std: float
    corrected: bool

    def _fit_windows(
        self,
        training: Groups,
        validate: Validate | None,
        workers: Workers | None,
        checkpoint: Checkpoints | None,
    ) -> None:
        """Train all members on windows, or on the windows of whole histories."""
        if training.targets is None:
            size = self._in_use("window_size")
            training = cut_windows(training, size=size, min_size=self.min_window).groups
        training = drop_small_groups(training, self.min_window)
        self._resolve_trade_off(WindowTrials(training, self.items_))
        generator = self._generator()
        starts = itertools.cycle(self._initializations())

        def build(first_weights: torch.Generator) -> MatchingModel:
            model = self._build_model(first_weights, self._in_use("dim"), workers)
            if next(starts) == "spectral":
                init_spectral(model, training, rate=self._in_use("recency"), generator=generator)
            return model

        self._train_members(
            build,
            training,
            PairMatching(self._source()),
            generator,
            validate=validate,
            workers=workers,
            checkpoint=checkpoint,
            moments=self._optimizer_states(1)[0] if self.keep_optimizer else None,
        )
        self._merge_members()

    def _click_only_parameters(self) -> list[str]:
        """Return the given parameters that only normalization="click" has."""
        given = [
            name for name, default in CLICK_ONLY.items() if not _equal(getattr(self, name), default)
        ]
        if self.candidates == "in_batch":
            given.append("candidates")
        if not isinstance(self.init, str):
            given.append("init")
        return given

    def _explicit_decisions(self) -> Decisions:
        """Return the record of a fit that decided nothing."""
        values = {name: self._in_use(name) for name in CLICK_VALUES}
        plain = {
            name: value if isinstance(value, (str, int, float, tuple, list)) else repr(value)
            for name, value in values.items()
        }
        option = Option("explicit", {**plain, "normalization": "click"}, "asked for")
        return Decisions(facts={}, options=(option,), trials=(), taken=(("explicit", 1.0),))

    def _in_use(self, name: str) -> Any:
        value = getattr(self, name)
        if is_auto(value) and name in CLICK_VALUES:
            return CLICK_VALUES[name]
        return super()._in_use(name)

    @property
    def group_size(self) -> int:
        """How many of the latest clicks make a group where each is normalised by itself."""
        return self._in_use("window_size")

    def _merge_members(self) -> None:
        """Merge the members into one model."""
        members = self._models()
        # Workers other than the first hold parts of the tables, and answer nothing.
        if len(members) > 1 and members[0].own_ids == slice(None):
            wide = self._build_model(torch.Generator(), self._in_use("dim") * len(members))
            merge_item_models(members, wide)
            self.model_ = wide
        del self.members_

    def _weights(self) -> nn.Module:
        # Also where a training failed before its members were merged.
        return self.model_

    def _initializations(self) -> Sequence[str]:
        # What is neither a name nor a sequence is left for the check of names to refuse.
        init = self._in_use("init")
        return init if isinstance(init, (list, tuple)) else (init,)

    def _build_model(
        self, generator: torch.Generator, dim: int, workers: Workers | None = None
    ) -> MatchingModel:
        # An exact softmax reads and moves every row, so there is nothing to split or leave alone.
        make = (
            partial(item_model, sparse=False)
            if self._in_use("candidates") == "full"
            else (workers or Workers()).item_model
        )
        return make(
            self.n_items_,
            dim,
            shared=self._in_use("shared"),
            has_bias=self.item_bias,
            std=self.init_std,
            generator=generator,
        )

    def _source(self) -> CandidateSource:
        candidates = self._in_use("candidates")
        if candidates == "full":
            return FullCandidates(self.n_items_)
        if candidates == "sampled":
            n_negatives = self._in_use("n_negatives")
            return SampledCandidates(self.n_items_, n_negatives, corrected=self.corrected)
        shares = torch.from_numpy(self.popularity_ / self.popularity_.sum())
        return InBatchCandidates(shares if self.corrected else None)


def _equal(value: Any, default: Any) -> bool:
    """Tell whether a parameter is its default; a list from a file equals its tuple."""
    plain = tuple(value) if isinstance(value, list) else value
    return bool(type(plain) is type(default) and plain == default) or plain is default
