"""Judging clicks: which one led to the next, and which no neighbour supports."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from groupnoise._typing import IntArray
from groupnoise.audit._evidence import (
    Columns,
    Evidence,
    Tally,
    choice_columns,
    posterior,
)
from groupnoise.audit._lift import ItemLift
from groupnoise.datasets import ClickDataset
from groupnoise.exceptions import UnknownTargetError
from groupnoise.groups import Groups, ragged_rows, sliding_windows


class ClickSource:
    """Click histories as material of an audit.

    Each click after the first is the target of a group, the clicks before it in its window;
    each click is an object, judged by the clicks on both sides.

    Parameters
    ----------
    dataset : ClickDataset
        What to audit.
    """

    setting = "rs"

    def __init__(self, dataset: ClickDataset) -> None:
        self.dataset = dataset
        self.group_counts: IntArray = dataset.histories.sizes - 1
        self.object_counts: IntArray = dataset.histories.sizes
        self.strata: IntArray = self.object_counts
        self._lifts: tuple[Any, ItemLift] | None = None

    def __len__(self) -> int:
        return len(self.dataset.histories)

    def fit(self, estimator: Any, rows: IntArray) -> Any:
        """Return a clone of the estimator fitted on the histories at `rows`."""
        histories = self.dataset.histories.subset(rows)
        return clone(estimator).fit(histories, item_ids=self.dataset.item_ids)

    def calibrate(self, model: Any, rows: IntArray) -> None:
        """Do nothing: lifts compare probabilities of one model, so a temperature says little."""

    def judge(self, model: Any, rows: IntArray) -> Evidence:
        """Return what the model says of the histories at `rows`."""
        lift = self._lift_of(model)
        part = self.dataset.histories.subset(rows)
        clicks = Groups(lift.known_items[part.objects], part.offsets)
        support = lift.support(clicks, reach=2 * model.window_size)
        noise = 1.0 / (1.0 + support)
        tally = Tally(clicks.n_objects)
        groups: Columns = {}
        if (clicks.sizes > 1).any():
            windows = sliding_windows(clicks, model.window_size)
            sizes, starts = windows.groups.sizes, windows.groups.offsets[:-1]
            target = clicks.offsets[windows.histories] + windows.positions
            objects = ragged_rows(target - sizes, sizes)
            selected = model.select(windows.groups)
            found = posterior(selected.scores, selected.offsets)
            tally.add(objects, found)
            before = np.add.reduceat(lift.of_pairs(clicks.objects, objects, target, sizes), starts)
            groups = {
                "source": rows[windows.histories],
                "position": windows.positions,
                "target": part.objects[target],
                "size": sizes,
                "object": part.objects[objects[found.chosen]],
                **choice_columns(found, starts, selected.log_weight),
                "doubt": 1.0 / (1.0 + before / sizes),
                "suspicion": noise[target],
            }
        return Evidence(
            groups,
            {
                "source": np.repeat(rows, clicks.sizes),
                "place": ragged_rows(np.zeros(len(rows)), clicks.sizes),
                "object": part.objects,
                **tally.columns(),
                "noise": noise,
            },
        )

    def _lift_of(self, model: Any) -> ItemLift:
        """Return the lifts of a model, computed once however many blocks it judges."""
        if self._lifts is None or self._lifts[0] is not model:
            known = model.catalogue_.indices_of(self.dataset.item_ids)
            unknown = np.flatnonzero(known < 0)
            if len(unknown):
                raise UnknownTargetError(
                    f"{len(unknown)} items of the data are not in the catalogue of the model, the "
                    f"first is {self.dataset.item_ids[unknown[0]].item()!r}; audit with a model "
                    "fitted on them, or cross-fit."
                )
            self._lifts = (model, ItemLift(model, known))
        return self._lifts[1]
