"""A cleaned copy of audited data: what looks wrong is left out, nothing is made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from groupnoise.audit.issues import GroupIssues
from groupnoise.core.arrays import BoolArray
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import (
    BagDataset,
    ClickDataset,
    PartialLabelDataset,
    subset_bags,
    subset_rows,
)
from groupnoise.io.setting import setting_of


def cleaned_copy(dataset: Any, issues: GroupIssues) -> Any:
    """Return a data set without what its audit found wrong.

    Bags lose labels that look wrong, and go where none is left. Rows lose candidate labels that
    can be dropped, never the one chosen, and go where the right label seems to be missing.
    Histories lose stray clicks.

    Parameters
    ----------
    dataset : BagDataset, PartialLabelDataset or ClickDataset
        What was audited.
    issues : GroupIssues
        What `find_group_issues` returned for it.

    Returns
    -------
    BagDataset, PartialLabelDataset or ClickDataset
        A new data set; `groupnoise.io.write_groups` writes it to a folder.
    """
    cleaned: Any = setting_of(dataset).clean(dataset, issues)
    return cleaned


def clean_bags(dataset: BagDataset, issues: GroupIssues) -> BagDataset:
    """Return bags without labels that look wrong; bags go where none is left."""
    _check_same_data(issues, dataset.bags.n_objects)
    wrong = issues.ranked("wrong_target")
    labels = dataset.labels.copy()
    labels[issues.groups["source"][wrong], issues.groups["target"][wrong]] = False
    kept = _some_left(labels.any(axis=1))
    return subset_bags(replace(dataset, labels=labels), kept)


def clean_candidates(dataset: PartialLabelDataset, issues: GroupIssues) -> PartialLabelDataset:
    """Return rows without candidates that can be dropped; rows go where the right one lacks."""
    _check_same_data(issues, int(dataset.candidates.sum()))
    dropped = issues.ranked("droppable_candidate")
    rows, labels = issues.objects["source"][dropped], issues.objects["object"][dropped]
    candidates = dataset.candidates.copy()
    candidates[rows, labels] = False
    candidates[issues.groups["source"], issues.groups["object"]] = True
    kept = np.ones(len(candidates), dtype=bool)
    kept[issues.groups["source"][issues.ranked("wrong_target")]] = False
    return subset_rows(replace(dataset, candidates=candidates), _some_left(kept))


def clean_clicks(dataset: ClickDataset, issues: GroupIssues) -> ClickDataset:
    """Return histories without stray clicks."""
    _check_same_data(issues, dataset.histories.n_objects)
    kept = np.ones(dataset.histories.n_objects, dtype=bool)
    kept[issues.ranked("stray_click")] = False
    sizes = np.add.reduceat(kept, dataset.histories.offsets[:-1], dtype=np.int64)
    users = np.flatnonzero(_some_left(sizes > 0))
    offsets = np.concatenate([[0], np.cumsum(sizes[users])])
    return replace(
        dataset,
        histories=Groups(dataset.histories.objects[kept], offsets),
        user_ids=dataset.user_ids[users],
        is_stray=None if dataset.is_stray is None else dataset.is_stray[kept],
        source_rows=None if dataset.source_rows is None else dataset.source_rows[kept],
        timestamps=None if dataset.timestamps is None else dataset.timestamps[kept],
        # Places and counts in the notes are those of the log as it was.
        notes={"stray_clicks_dropped": int((~kept).sum())},
    )


def _some_left(kept: BoolArray) -> BoolArray:
    if not kept.any():
        raise DataError("the audit finds fault with every group, so no cleaned copy would be left.")
    return kept


def _check_same_data(issues: GroupIssues, n_objects: int) -> None:
    if len(issues.objects["noise"]) != n_objects:
        raise DataError(
            "these issues were found in other data; give the data set that was audited."
        )
