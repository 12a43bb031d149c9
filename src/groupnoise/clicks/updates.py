"""Updating a fitted recommender: more clicks, forgotten items, and features of items."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from groupnoise.clicks.evidence.decide import EvidenceFit
from groupnoise.clicks.evidence.model import Evidence
from groupnoise.clicks.evidence.options import member_encoders
from groupnoise.clicks.evidence.resumed import (
    CAREFUL_RATE,
    choose_strength,
    place_by_features,
    place_new_items,
    resume_training,
)
from groupnoise.clicks.items.catalogue import Catalogue, ItemHistories, as_click_log
from groupnoise.clicks.items.columns import NewItemBias
from groupnoise.clicks.items.table import ItemRows, extend_catalogue, read_item_features
from groupnoise.clicks.mixture import Float32Array, ItemVectors
from groupnoise.clicks.windows.cutting import cut_windows, drop_small_groups
from groupnoise.clicks.windows.training import WindowTraining
from groupnoise.core.arrays import BoolArray, IntArray, ProgressCallback, count_ids
from groupnoise.core.checks import check_fraction
from groupnoise.core.device import training_on
from groupnoise.core.groups import Groups
from groupnoise.core.pair_matching import PairMatching
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.training.parameters import History, TrainingPlan
from groupnoise.training.state import keep_rows

WHOLE_SHARE = 0.9
"""Share of the clicks learned before from which on histories count as the whole log."""

MAX_QUERIES = 3000
"""Clicks by which the placement and the bias of new items are chosen."""
MAX_SCORES = 1 << 24
"""Scores held at a time for that."""

Self = TypeVar("Self", bound="UpdatableRecommender")


class UpdatableRecommender(WindowTraining):
    """Updates item vectors with more clicks, and places items by their features."""

    device: str
    on_epoch: ProgressCallback | None
    _is_updating = False

    def partial_fit(
        self: Self,
        histories: ItemHistories,
        y: object = None,
        *,
        known: ArrayLike | None = None,
        item_features: Any = None,
        decay: float = 1.0,
        forget: Sequence[Any] = (),
    ) -> Self:
        """Update the model with more clicks, of old and new users, on old and new items.

        Nothing is decided anew. With the whole log this is a shorter training than the first one;
        with new clicks alone a few small steps, which keep new items and counts up to date.

        Parameters
        ----------
        histories : sequence of sequences of item ids, or a log
            Each user's clicks in time order, as in :meth:`fit`. New items stand at the end of
            `items_`, and begin at the mean of the items that they were clicked with.
        y : ignored, optional
            Present for scikit-learn.
        known : array-like of shape (n_histories,), optional
            How many of the first clicks of each history were learned before: they are read, but
            not counted again. Where they are the whole log, all of it is learned from again. By
            default none.
        item_features : frame, path or array, optional
            As in :meth:`fit`, and learned from anew.
        decay : float, default=1.0
            Multiplies the earlier counts in `popularity_`.
        forget : sequence of item ids, default=()
            Items to drop, with their vectors and counts; clicks on them, and what `item_features`
            says of them, are left out. Ids that are not known are warned of.

        Returns
        -------
        MaxMatchingRecommender
            This estimator.

        Raises
        ------
        DataError
            If no click is on an item of the model, or ids are of another kind than its own.
        """
        check_is_fitted(self)
        check_fraction("decay", decay)
        log = as_click_log(histories)
        if log is not None:
            is_text = self.catalogue_.ids.dtype.kind == "U"
            ids = log.item_ids.astype(np.str_) if is_text else log.item_ids
            histories = [ids[history] for history in log.histories]
        rows_given: list[Any] = list(histories)  # type: ignore[arg-type]
        rows, n_known = _without_forgotten(rows_given, known, forget)
        if forget:
            _warn_of_unknown_ids(forget, [self.items_, *rows_given])
        catalogue = _with_new_items(self.catalogue_, rows)
        indexed = catalogue.index(rows)
        training = Groups(indexed.items, indexed.offsets)
        is_new = training.position_of_object >= np.repeat(n_known, training.sizes)
        is_whole = training.n_objects - is_new.sum() >= WHOLE_SHARE * self.popularity_.sum() > 0
        earlier = np.pad(decay * self.popularity_, (0, len(catalogue) - self.n_items_))
        popularity = earlier + count_ids(training.objects[is_new], len(catalogue))
        vectors = place_new_items(self.item_vectors(), training, popularity)
        self.catalogue_, self.popularity_ = catalogue, popularity
        self._set_vectors(vectors)
        self.history_ = History()
        if training.sizes.max() < 2:
            pass  # no click follows another: there is nothing to learn but counts
        elif hasattr(self, "rule_"):
            with training_on(self.device):
                self._update_histories(training, vectors, bool(is_whole))
        else:
            self._update_windows(training, n_known)
        if forget:
            self._drop(forget)
        features = self._read_features(item_features)
        if forget and features is not None:
            features = _drop_rows(features, forget)
        self._place_by_features(features, training)
        return self

    def _update_histories(self, training: Groups, vectors: ItemVectors, is_whole: bool) -> None:
        rule = self.rule_
        evidence = Evidence(
            vectors.query,
            vectors.target,
            vectors.bias,
            rule.block_widths,
            np.array(rule.position_weights, dtype=np.float32),
            rule.exponents,
            rule.encoders,
        )
        options = {option.name: option for option in self.decisions_.options}
        parameters = options[self.decisions_.taken[0][0]].parameters
        n_members = len(member_encoders(parameters["encoder"]))
        updated, records = resume_training(
            evidence,
            training,
            parameters,
            self._generator(),
            is_whole=is_whole,
            on_epoch=self.on_epoch,
            moments=self._optimizer_states(n_members) if self.keep_optimizer else None,
        )
        self._set_evidence(updated)
        for record in records:
            self.history_.append(record)

    def _update_windows(self, training: Groups, n_known: IntArray) -> None:
        size = self._in_use("window_size")
        windows = cut_windows(training, size=size, min_size=self.min_window)
        new = np.flatnonzero(windows.positions >= n_known[windows.users])
        groups = drop_small_groups(windows.groups.subset(new), self.min_window)
        self._is_updating = True
        try:
            self._train(
                self.model_,
                groups,
                PairMatching(self._source()),
                self._generator(),
                moments=self._optimizer_states(1)[0] if self.keep_optimizer else None,
            )
        finally:
            self._is_updating = False
        self.model_.eval()

    def _plan(self) -> TrainingPlan:
        plan = super()._plan()
        if not self._is_updating:
            return plan
        return replace(plan, max_epochs=1, learning_rate=CAREFUL_RATE * plan.learning_rate)

    def _drop(self, forget: Sequence[Any]) -> None:
        """Remove items from the catalogue, with their vectors and counts."""
        dropped = {str(each) for each in forget}
        kept = np.array([str(each) not in dropped for each in self.items_.tolist()])
        if hasattr(self, "rule_") and self.rule_.negatives:
            raise ParameterError("a model that holds clicks against some items forgets none.")
        vectors = ItemVectors(*(part[kept] for part in self.item_vectors()))
        if hasattr(self, "feature_map_"):
            self.feature_map_ = self.feature_map_.among(np.flatnonzero(kept))
        self.catalogue_ = Catalogue(self.items_[kept])
        self.popularity_ = self.popularity_[kept]
        if hasattr(self, "optimizer_state_"):
            self.optimizer_state_ = [keep_rows(each, kept) for each in self.optimizer_state_]
        self._set_vectors(vectors)

    def _read_features(self, item_features: Any) -> ItemRows | None:
        """Return the features of items; those of other items are refused before training."""
        if item_features is None:
            return None
        rows = read_item_features(item_features, self.items_)
        extend_catalogue(self.catalogue_, rows)
        return rows

    def _place_by_features(
        self, rows: ItemRows | None, histories: Groups, decided: EvidenceFit | None = None
    ) -> None:
        """Place items by their features: new ones, and rare ones if held-out clicks agree."""
        if rows is None:
            return
        generator = self._generator()
        strength = 0.0
        if decided is not None and decided.trial is not None and decided.held is not None:
            strength = choose_strength(
                self.catalogue_, rows, decided.trial, decided.held, generator
            )
        vectors = self.item_vectors()
        grown = extend_catalogue(self.catalogue_, rows)
        clicks = np.pad(self.popularity_, (0, len(grown) - len(self.catalogue_)))
        self.feature_map_, placed = place_by_features(
            grown,
            rows,
            vectors,
            clicks,
            generator,
            strength=strength,
            queries_before=lambda held: self._queries_before_clicks_on(held, histories, generator),
            measure_bias=lambda held, predicted: self._held_out_bias(held, predicted, histories),
        )
        self.catalogue_, self.popularity_ = grown, clicks
        self._set_vectors(placed)
        is_new = clicks == 0
        if (
            is_new.any()
            and (new_item_bias := self._measure_new_item_bias(histories, is_new)) is not None
        ):
            self.feature_map_ = replace(self.feature_map_, new_item_bias=new_item_bias)
            placed.bias[is_new] += np.float32(new_item_bias.offset_for(int(is_new.sum())))
            self._set_vectors(placed)

    def _queries_before_clicks_on(
        self, items: IntArray, histories: Groups, generator: np.random.Generator
    ) -> tuple[Float32Array, IntArray]:
        """Return the queries of what came before clicks on items, and which of them was clicked."""
        number = np.full(len(self.catalogue_), -1)
        number[items] = np.arange(len(items))
        clicks = histories.objects if histories.targets is None else histories.targets
        clicks_found = np.flatnonzero(number[clicks] >= 0)
        clicks_found = np.sort(generator.permutation(clicks_found)[:MAX_QUERIES])
        before, clicked = [], []
        for click in clicks_found.tolist():
            row = click
            end = histories.offsets[click + 1] if histories.targets is not None else click
            if histories.targets is None:
                row = int(np.searchsorted(histories.offsets, click, side="right")) - 1
            earlier = np.asarray(histories.objects[histories.offsets[row] : end])
            earlier = earlier[number[earlier] < 0]
            if len(earlier):
                before.append(earlier)
                clicked.append(int(number[clicks[click]]))
        if not before:
            return np.zeros((0, self._width()), dtype=np.float32), np.zeros(0, dtype=np.int64)
        mixture = self._queries(Groups.from_lists(before))
        # Of several queries the last click's speaks, where each click is normalised by itself.
        return mixture.queries[mixture.query_of[mixture.offsets[1:] - 1]], np.array(clicked)

    def _held_out_bias(
        self, items: IntArray, predicted: ItemVectors, histories: Groups
    ) -> NewItemBias | None:
        """Return the bias of new items, measured on held-out items placed by their features."""
        trained = self.item_vectors()
        is_new = np.zeros(self.n_items_, dtype=bool)
        is_new[items] = True
        placed = ItemVectors(*(part.copy() for part in trained))
        for part, moved in zip(placed, predicted, strict=True):
            part[items] = moved
        self._set_vectors(placed)
        new_item_bias = self._measure_new_item_bias(histories, is_new)
        self._set_vectors(trained)
        return new_item_bias

    def _measure_new_item_bias(self, histories: Groups, is_new: BoolArray) -> NewItemBias | None:
        """Return the bias of new items from scores after histories without their clicks."""
        n_queries = min(len(histories), MAX_QUERIES, max(1, MAX_SCORES // self.n_items_))
        rows = np.linspace(0, len(histories) - 1, n_queries).astype(np.int64)
        sampled = [np.asarray(histories[row]) for row in rows.tolist()]
        known_clicks = [each[~is_new[each]] for each in sampled if not is_new[each].all()]
        if not known_clicks:
            return None
        scores = self.scores(Groups.from_lists(known_clicks))
        for row, seen in enumerate(known_clicks):
            scores[row, seen] = -np.inf
        return NewItemBias.of(scores, is_new)


def _without_forgotten(
    histories: list[Any], known: ArrayLike | None, forget: Sequence[Any]
) -> tuple[list[Any], IntArray]:
    """Return histories without forgotten items, and how many clicks of each are not new."""
    n_known = np.zeros(len(histories), dtype=np.int64) if known is None else np.asarray(known)
    if n_known.shape != (len(histories),) or n_known.dtype.kind not in "iu" or (n_known < 0).any():
        raise DataError(
            f"known must say of each of the {len(histories)} histories how many clicks were "
            f"learned before; got shape {n_known.shape}."
        )
    if not forget:
        return histories, n_known
    forgotten = {str(each) for each in forget}
    is_kept = [[str(item) not in forgotten for item in history] for history in histories]
    rows = [np.asarray(row)[mask] for row, mask in zip(histories, is_kept, strict=True)]
    counts = [sum(mask[:n]) for mask, n in zip(is_kept, n_known.tolist(), strict=True)]
    kept = [number for number, row in enumerate(rows) if len(row)]
    if not kept:
        raise DataError(
            "every click is on an item to be forgotten; there is nothing to go on with."
        )
    return [rows[number] for number in kept], np.array(counts, dtype=np.int64)[kept]


def _warn_of_unknown_ids(forget: Sequence[Any], known: Sequence[Any]) -> None:
    """Warn of ids to be forgotten that neither the model nor the histories hold."""
    forgotten = {str(each) for each in forget}
    unknown = sorted(forgotten.difference(*([str(item) for item in ids] for ids in known)))
    if unknown:
        warnings.warn(
            f"{len(unknown)} of the {counted(len(forgotten), 'items')} to be forgotten are not "
            f"known, such as {unknown[0]!r}; ids are compared letter by letter.",
            UserWarning,
            stacklevel=3,
        )


def _drop_rows(rows: ItemRows, forget: Sequence[Any]) -> ItemRows:
    """Return a table of items without those to be forgotten."""
    forgotten = {str(each) for each in forget}
    is_kept = np.array([each not in forgotten for each in rows.ids])
    ids = [each for each, keeps in zip(rows.ids, is_kept.tolist(), strict=True) if keeps]
    return rows._replace(ids=ids, columns=rows.columns.filter(is_kept))


def _with_new_items(catalogue: Catalogue, rows: list[Any]) -> Catalogue:
    """Return a catalogue with all items of some histories, the new ones at its end."""
    found: NDArray[Any] = Catalogue.of_histories(rows).ids
    if found.dtype.kind != catalogue.ids.dtype.kind:
        kinds = {"i": "whole numbers", "U": "text"}
        raise DataError(
            f"the ids of these clicks are {kinds[found.dtype.kind]}, such as {found[0].item()!r}; "
            f"those of the model are {kinds[catalogue.ids.dtype.kind]}."
        )
    new = found[catalogue.indices_of(found) < 0]
    if len(new) == len(found):
        raise DataError(
            f"none of the {len(new)} items of these clicks is known to the model, such as "
            f"{new[0].item()!r}; are they of the same shop?"
        )
    return Catalogue([*catalogue.ids.tolist(), *new.tolist()])
