"""From a data set to the arguments of `fit`, with a part held out to choose the best epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.exceptions import DataError

if TYPE_CHECKING:
    from groupnoise.core.groups import Groups
    from groupnoise.io.datasets import ClickDataset
    from groupnoise.io.named import Dataset

Validate = Callable[[Any], float]
N_NEGATIVES = 100
"""What `rank_targets` draws for each row under "sampled"."""
MAX_HELD_OUT = 10_000
"""Users that score an epoch of a training from disk; their standard error is below half a point."""
SHORTEST_HELD_OUT = 3
"""Clicks of a history whose last can be held out: two are left to train on."""


def training_arguments(dataset: Dataset) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what `fit` of an estimator of this setting takes: positional and named."""
    from groupnoise.io.datasets import BagDataset, PartialLabelDataset

    if isinstance(dataset, BagDataset):
        return (dataset.bags, labels_as_names(dataset.labels, dataset.class_names)), {}
    if isinstance(dataset, PartialLabelDataset):
        names = labels_as_names(dataset.candidates, dataset.class_names)
        return (dataset.features, names), {}
    return (dataset.histories,), {"item_ids": dataset.item_ids}


def labels_as_names(indicator: BoolArray, class_names: list[str]) -> list[list[str]]:
    """Return the names of the classes set in each row, so that a model speaks of names."""
    names = np.asarray(class_names)
    return [names[row].tolist() for row in indicator]


def hold_out(dataset: Dataset, share: float, seed: int) -> tuple[Dataset, Validate | None]:
    """Return the data to train on, and what scores an estimator on the rest.

    The score needs no truth beyond what the data says: bag labels, candidate labels, the last
    click of a history.
    """
    from groupnoise.io.datasets import BagDataset, PartialLabelDataset, subset_bags, subset_rows

    if isinstance(dataset, BagDataset):
        n_groups = len(dataset.bags)
    elif isinstance(dataset, PartialLabelDataset):
        n_groups = len(dataset.features)
    else:
        n_groups = len(dataset.histories)
    held = np.random.default_rng(seed).random(n_groups) < share
    if not held.any() or held.all():
        return dataset, None
    if isinstance(dataset, BagDataset):
        part = subset_bags(dataset, np.flatnonzero(held))
        names = labels_as_names(part.labels, part.class_names)
        training: Dataset = subset_bags(dataset, np.flatnonzero(~held))
        return training, lambda fitted: _covered(fitted.predict_bags(part.bags), names)
    if isinstance(dataset, PartialLabelDataset):
        rest = subset_rows(dataset, np.flatnonzero(held))
        names = labels_as_names(rest.candidates, rest.class_names)
        training = subset_rows(dataset, np.flatnonzero(~held))
        return training, lambda fitted: _covered(fitted.predict(rest.features), names)
    return _hold_out_last_clicks(dataset, held, share, seed)


def _covered(predicted: Any, names: list[list[str]]) -> float:
    return float(
        np.mean([label in allowed for label, allowed in zip(predicted, names, strict=True)])
    )


def protocols_for(groups: Groups, n_items: int) -> tuple[str, ...]:
    """Return the ranking protocols a catalogue is large enough for, the cheaper one first."""
    n_left = n_items - int(groups.sizes.max()) - 1
    return ("sampled", "full") if n_left >= N_NEGATIVES else ("full",)


def _hold_out_last_clicks(
    dataset: Any, held: BoolArray, share: float, seed: int
) -> tuple[Any, Validate]:
    """Take the last click from some histories; the rest of them stays in training."""
    from groupnoise.core.groups import Groups

    histories = dataset.histories
    held = held & (histories.sizes >= SHORTEST_HELD_OUT)
    if not held.any():
        held[_some_long_histories(histories, share, seed)] = True
    last = histories.offsets[1:][held] - 1
    kept = np.ones(histories.n_objects, dtype=bool)
    kept[last] = False
    sizes = histories.sizes - held
    shorter = Groups(histories.objects[kept], np.concatenate([[0], np.cumsum(sizes)]))
    watched = _last_as_target(histories.subset(held))
    training = replace(dataset, histories=shorter, is_stray=None, notes={})
    return training, _score_of_next_clicks(watched, dataset.n_items)


def _some_long_histories(histories: Groups, share: float, seed: int) -> IntArray:
    """Return a share of the histories that are long enough, for where a draw among all had none."""
    sizes = histories.sizes
    long_enough = np.flatnonzero(sizes >= SHORTEST_HELD_OUT)
    if not len(long_enough):
        remedy = "; use --validation 0" if (sizes == SHORTEST_HELD_OUT - 1).any() else ""
        raise DataError(
            f"no history has the {SHORTEST_HELD_OUT} clicks it takes to hold its last one out"
            f"{remedy}."
        )
    n_held = min(MAX_HELD_OUT, max(1, round(share * len(long_enough))))
    drawn: IntArray = np.random.default_rng(seed).choice(long_enough, n_held, replace=False)
    return np.sort(drawn)


def hold_out_some(
    dataset: ClickDataset, share: float, seed: int
) -> tuple[IntArray, Validate | None]:
    """Return the users whose last click is held out, and what scores an estimator on those.

    A copy of the rest would be as large as the log, so leaving these clicks out is left to who
    cuts the windows; and they are few, however many users there are.
    """
    histories = dataset.histories
    n_held = min(MAX_HELD_OUT, round(share * len(histories)))
    users = np.random.default_rng(seed).choice(len(histories), n_held, replace=False)
    users = np.sort(users)
    users = users[histories.offsets[users + 1] - histories.offsets[users] >= SHORTEST_HELD_OUT]
    if not n_held:
        return users, None
    if not len(users):
        users = _some_long_histories(histories, share, seed)
    watched = _last_as_target(histories.subset(users))
    return users, _score_of_next_clicks(watched, dataset.n_items)


def _last_as_target(histories: Groups) -> Groups:
    """Return histories without their last click, which is what comes next."""
    from groupnoise.core.groups import Groups

    last = histories.offsets[1:] - 1
    begins = histories.offsets - np.arange(len(histories) + 1)
    return Groups(np.delete(histories.objects, last), begins, histories.objects[last])


def _score_of_next_clicks(watched: Groups, n_items: int) -> Validate:
    from groupnoise.clicks.ranking import rank_targets
    from groupnoise.core.metrics import ndcg_at_k

    protocol = protocols_for(watched, n_items)[0]
    return lambda fitted: ndcg_at_k(*rank_targets(fitted, watched, n_items, protocol))
