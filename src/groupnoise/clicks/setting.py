"""Click histories (recommendation) behind the commands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.audit import ClickSource
from groupnoise.clicks.evaluation.evaluate import evaluate_histories, evaluate_queries
from groupnoise.clicks.evaluation.history_split import split_histories
from groupnoise.clicks.evaluation.judged import TOP
from groupnoise.clicks.evaluation.splits import MIN_PROTOCOL_CLICKS
from groupnoise.clicks.items.catalogue import Catalogue, IndexedHistories
from groupnoise.clicks.reading.filters import keep_clicks
from groupnoise.clicks.reading.log import read_clicks
from groupnoise.clicks.reading.oddities import (
    find_oddities,
    lost_zeros_message,
    unknown_items_message,
)
from groupnoise.core.arrays import BoolArray, IntArray, offsets_from_sizes, ragged_rows
from groupnoise.core.groups import Groups
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import ClickDataset
from groupnoise.io.description import (
    Description,
    count_oddity,
    histogram_of_sizes,
)
from groupnoise.io.hold_out import MAX_HELD_OUT
from groupnoise.io.setting import Answers, Evaluation, RowLabels, Setting
from groupnoise.io.tables.sources import Report

MAX_CHECKED_CLICKS = 300_000
"""Clicks of a log that are compared with the fingerprints of a model; they take a second."""
MIN_CLICKS = 3
"""Clicks of a history whose last can be held out: two are left to train on."""


class ClickSetting(Setting[ClickDataset]):
    """Click histories, one per user, in time order."""

    name = "rs"
    units = "histories"
    object_name = "click"
    has_features = False
    is_streamed = True
    answers_rows = False
    held_out_words = "the last click of {} held out"
    column_options = (
        "user",
        "item",
        "time",
        "rating",
        "min_rating",
        "only",
        "date_order",
        "repeats",
    )
    # Linear evidence is scaled to rank; as a probability it gives most to the click itself. Pairs
    # of clicks are judged, of which vectors of items tell as much as networks that take far longer.
    audit_parameters: ClassVar[dict[str, Any]] = {"linear": None, "encoder": None}
    judged_by_protocol = True
    models = ("recommend",)
    split_by_protocol = staticmethod(split_histories)
    audit_source = ClickSource

    def read(
        self,
        source: Any,
        *,
        report: Report | None = None,
        feature_names: Any = None,
        labels_needed: bool = True,
        **options: Any,
    ) -> ClickDataset:
        """Read a log; clicks have neither features nor labels."""
        return read_clicks(source, report=report, **options)

    def n_groups(self, dataset: ClickDataset) -> int:
        """Return how many histories there are."""
        return len(dataset.histories)

    def subset(self, dataset: ClickDataset, rows: IntArray) -> ClickDataset:
        """Return some of the histories; the catalogue stays whole."""
        offsets = dataset.histories.offsets
        clicks = ragged_rows(offsets[:-1][rows], np.diff(offsets)[rows])
        return replace(
            dataset,
            histories=dataset.histories.subset(rows),
            user_ids=dataset.user_ids[rows],
            is_stray=None,
            source_rows=None,
            timestamps=None if dataset.timestamps is None else dataset.timestamps[clicks],
        )

    def hold_out(self, dataset: ClickDataset, share: float, seed: int) -> IntArray:
        """Return the histories whose last click is kept out of training."""
        if share == 0:
            return np.zeros(0, dtype=np.int64)
        offsets = np.asarray(dataset.histories.offsets)
        sizes = np.diff(offsets)
        long_enough = np.flatnonzero(sizes >= MIN_CLICKS)
        if not len(long_enough):
            remedy = "; nobody clicked twice, so there is nothing to learn from"
            if (sizes == MIN_CLICKS - 1).any():
                remedy = "; use --validation 0"
            raise DataError(
                f"no history has the {MIN_CLICKS} clicks it takes to hold its last one out{remedy}."
            )
        n_held = min(MAX_HELD_OUT, len(long_enough), max(1, round(share * len(sizes))))
        drawn = np.random.default_rng(seed).choice(long_enough, n_held, replace=False)
        return np.sort(drawn)

    def without(self, dataset: ClickDataset, rows: IntArray) -> ClickDataset:
        """Return all histories, those at `rows` without their last click."""
        histories = dataset.histories
        kept = np.ones(histories.n_objects, dtype=bool)
        kept[histories.offsets[1:][rows] - 1] = False
        shorter = keep_clicks(dataset, kept)
        return replace(shorter, is_stray=None, notes={}, source_rows=None)

    def arguments(self, dataset: ClickDataset) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the histories, and the ids of all items."""
        return (dataset.histories,), {"item_ids": dataset.item_ids}

    def evaluate(
        self,
        fitted: Any,
        dataset: ClickDataset,
        rows: IntArray | None = None,
        *,
        seed: int = 0,
        protocol: str | None = None,
        at: Sequence[int] = (TOP,),
    ) -> Evaluation:
        """Rank the last click of each history, or the test clicks of a protocol."""
        if protocol is None:
            return evaluate_histories(fitted, dataset, rows, at=at, seed=seed)
        split = self.split_by_protocol(dataset, protocol)
        return evaluate_queries(fitted, dataset, split.test, counts=split.counts, at=at, seed=seed)

    def answer(
        self, fitted: Any, dataset: ClickDataset, *, top: int = 10, exclude_seen: bool = True
    ) -> Answers:
        """Return the best items for each history, unless the catalogue is smaller.

        Raises DataError if the model knows no item of the data.
        """
        item_ids = fitted.catalogue_.convert_ids(dataset.item_ids)
        histories = [item_ids[history] for history in dataset.histories]
        indexed = fitted.catalogue_.index(histories)
        if not len(indexed.items):
            raise DataError(unknown_items_message(dataset.item_ids, fitted.items_))
        ids, scores = fitted.recommend(histories, top=top, exclude_seen=exclude_seen)
        is_there = scores > -np.inf  # a small catalogue cannot fill every position
        users, positions = np.nonzero(is_there)
        columns = {
            "user": dataset.user_ids[users].tolist(),
            "rank": (positions + 1).tolist(),
            "item": ids[is_there].tolist(),
            "score": [float(score) for score in scores[is_there]],
            "source": indexed.sources[users].tolist(),
        }
        notes = _unknown_click_notes(indexed)
        if lost := lost_zeros_message(dataset.item_ids, fitted.items_):
            notes += (lost,)
        if n_unanswered := int((~is_there.any(axis=1)).sum()):
            notes += (
                f"{counted(n_unanswered, 'histories')} got no item: every item was seen; "
                "--no-exclude-seen recommends those again",
            )
        return Answers(columns, notes=notes)

    def describe(self, dataset: ClickDataset) -> Description:
        """Return lengths, popularity, notes and oddities of histories."""
        histories, lengths = dataset.histories, dataset.histories.sizes
        n_clicks_of = np.bincount(histories.objects, minlength=dataset.n_items)
        pairs = histories.group_of_object * dataset.n_items + histories.objects
        busiest = np.sort(n_clicks_of)[::-1][: max(1, dataset.n_items // 100)]
        draft = Description(dataset.name, "rs")
        draft.facts |= {
            "users": len(histories),
            "items": dataset.n_items,
            "clicks": histories.n_objects,
            "clicks per user, mean": float(lengths.mean()),
            "clicks per item, mean": float(n_clicks_of.mean()),
            "fraction of clicks on the top 1 % of items": float(
                busiest.sum() / histories.n_objects
            ),
            "clicks on an item the user clicked before": len(pairs) - len(np.unique(pairs)),
        }
        if dataset.is_stray is not None:
            draft.facts["fraction of stray clicks"] = float(dataset.is_stray.mean())
        for protocol, least in MIN_PROTOCOL_CLICKS.items():
            what = f"users skipped by --protocol {protocol} (fewer than {least} clicks)"
            draft.facts[what] = int((lengths < least).sum())
        for key, value in dataset.notes.items():
            if isinstance(value, (int, float, str)):
                draft.facts[key.replace("_", " ")] = value
        draft.histograms += [
            histogram_of_sizes("Clicks per user", lengths),
            histogram_of_sizes("Clicks per item", n_clicks_of),
        ]
        draft.oddities += [
            *count_oddity(lengths == 1, "users", "with a single click, too few for any group"),
            *count_oddity(n_clicks_of == 0, "items", "without a click"),
        ]
        draft.oddities += find_oddities(dataset)
        if dataset.titles is not None:
            without_title = np.array([not title.strip() for title in dataset.titles])
            draft.oddities += count_oddity(without_title, "items", "without a title")
        return draft

    def summary(self, dataset: ClickDataset) -> str:
        """Return the counts of histories, items and clicks, and of rows left out."""
        parts = [
            counted(len(dataset.histories), "histories"),
            counted(dataset.n_items, "items"),
            counted(dataset.histories.n_objects, "clicks"),
        ]
        dropped = {
            "rows_below_min_rating": "rows rated too low",
            "repeats_merged": "repeated clicks merged",
            "core_users_dropped": "users outside the core",
            "core_items_dropped": "items outside the core",
        }
        notes = dataset.notes
        parts += [f"{notes[key]} {text}" for key, text in dropped.items() if notes.get(key)]
        return ", ".join(parts)

    def dataset_of(self, groups: Any, targets: Any = None) -> ClickDataset:
        """Return a data set of histories: lists of item ids, or groups of item indices."""
        if isinstance(groups, Groups):
            items = np.arange(int(groups.objects.max()) + 1)
            return ClickDataset("histories", groups, items, np.arange(len(groups)))
        rows = list(groups)
        catalogue = Catalogue.of_histories(rows)
        indexed = catalogue.index(rows)
        histories = Groups(indexed.items, indexed.offsets)
        return ClickDataset("histories", histories, catalogue.ids, np.arange(len(histories)))

    def row_labels(self, dataset: ClickDataset) -> RowLabels | None:
        """Return the row of each click; clicks have no labels."""
        return None if dataset.source_rows is None else RowLabels(dataset.source_rows)

    def content(self, dataset: ClickDataset) -> Iterable[Any]:
        """Yield clicks, histories, items and users."""
        yield from (dataset.histories.objects, dataset.histories.offsets)
        yield from (dataset.item_ids, dataset.user_ids)

    def scored(self, dataset: ClickDataset, result: Evaluation) -> ClickDataset:
        """Return a history for each target: the clicks of its user up to it, and with it."""
        order = np.argsort(dataset.user_ids, kind="stable")
        users = result.rows["user"]
        rows = order[np.searchsorted(dataset.user_ids, users, sorter=order)]
        sizes = result.rows["position"] + 1
        clicks = ragged_rows(dataset.histories.offsets[rows], sizes)
        objects = np.asarray(dataset.histories.objects)[clicks]
        return replace(
            dataset,
            histories=Groups(objects, offsets_from_sizes(sizes)),
            user_ids=users,
            is_stray=None,
            source_rows=None,
            timestamps=None,
        )

    def matching_groups(self, dataset: ClickDataset, fingerprints: NDArray[np.uint64]) -> BoolArray:
        """Return which histories have one of some fingerprints, or begin one that has."""
        is_known = super().matching_groups(dataset, fingerprints)
        sizes = dataset.histories.sizes
        users, owner = np.unique(dataset.user_ids, return_inverse=True)
        longest = np.zeros(len(users), dtype=np.int64)
        np.maximum.at(longest, owner, np.where(is_known, sizes, 0))
        # Of one user all are beginnings of one history, as `scored` cuts them.
        return np.asarray(sizes <= longest[owner])

    def share_found(self, dataset: ClickDataset, fingerprints: NDArray[np.uint64]) -> float:
        """Return the share of some fingerprints that histories or their beginnings have."""
        sizes = dataset.histories.sizes
        n_looked = max(1, round(len(sizes) * min(1.0, MAX_CHECKED_CLICKS / sizes.sum())))
        rows = np.random.default_rng(0).permutation(len(sizes))[:n_looked]
        found: list[bytes] = []
        for row in rows.tolist():
            digest = hashlib.blake2b(str(dataset.user_ids[row]).encode(), digest_size=8)
            for item in dataset.item_ids[dataset.histories[row]].tolist():
                digest.update(f"\0{item}".encode())
                found.append(digest.copy().digest())
        begun = np.frombuffer(b"".join(found), dtype="<u8").astype(np.uint64)
        n_found = int(np.isin(fingerprints, begun).sum())
        return float(min(1.0, n_found / len(fingerprints) * len(sizes) / n_looked))

    def group_content(self, dataset: ClickDataset, row: int) -> bytes:
        """Return the user and the clicks of a history."""
        items = dataset.item_ids[dataset.histories[row]].tolist()
        return "\0".join(map(str, [dataset.user_ids[row], *items])).encode()


def _unknown_click_notes(indexed: IndexedHistories) -> tuple[str, ...]:
    """Return a note on clicks of unknown items, and histories without any other."""
    n_unknown = int(indexed.n_unknown.sum())
    n_by_popularity = int((np.diff(indexed.offsets) == 0).sum())
    if not n_unknown:
        return ()
    return (
        f"clicks on items the model does not know: {n_unknown}; "
        f"histories without another click, answered by popularity: {n_by_popularity}",
    )


SETTING = ClickSetting()
