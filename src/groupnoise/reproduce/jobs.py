"""Jobs of a reproduction: one method on one view of a data set under one seed, resumable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from groupnoise.clicks.evaluation.splits import split_clicks
from groupnoise.clicks.reading.filters import keep_clicks
from groupnoise.core.arrays import IntArray
from groupnoise.core.groups import Groups
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import ClickDataset, split_rows
from groupnoise.io.named import Dataset
from groupnoise.io.setting import find_setting
from groupnoise.reproduce.provenance import code_fingerprint
from groupnoise.reproduce.recipes import DatasetView, Recipe
from groupnoise.reproduce.run import TrialResult, run_method
from groupnoise.reproduce.trials import BagTrial, CandidateTrial, ClickTrial, DataTrial

N_MEASURED = 500
"""Clicked items over which the share of related items is computed."""
QUICK_USERS = 800
QUICK_ROWS = 1000


def recall_examples(
    trial: ClickTrial, estimator: Any, *, n_items: int, top: int
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return the recommendations for single clicked items.

    Returns `metrics`: the share of answers that share a category with the clicked item, where the
    data has categories; `examples`: for each clicked item its title and its answers, each a title
    and whether it is related. `trial`: its data must have titles. `n_items`: how many
    clicked items to show; the same for every method under one seed.
    """
    clicks = trial.clicks
    if clicks.titles is None:
        raise DataError(f"{trial.dataset} has no titles, so examples cannot be shown.")
    items = clicked_items(trial, max(n_items, N_MEASURED))
    answers = _answers(estimator, items, top)
    related = _related(clicks, items, answers)
    metrics = {} if clicks.categories is None else {f"same kind@{top}": float(related.mean())}
    examples = [
        {
            "clicked": clicks.titles[item],
            "answers": [
                {"title": clicks.titles[answer], "related": bool(is_related)}
                for answer, is_related in zip(answers[row], related[row], strict=True)
            ],
        }
        for row, item in enumerate(items[:n_items])
    ]
    return metrics, examples


def clicked_items(trial: ClickTrial, n_items: int) -> IntArray:
    """Return distinct items as users click them: the last clicks of test histories, shuffled."""
    groups = trial.split.test.groups
    last = groups.objects[groups.offsets[1:] - 1]
    titles = np.array(trial.clicks.titles)
    named = np.unique(last[titles[last] != ""])
    shuffled: IntArray = np.random.default_rng(trial.seed).permutation(named)
    return shuffled[:n_items].astype(np.int64)


def _answers(estimator: Any, items: IntArray, top: int) -> IntArray:
    """Return the best other items after each clicked one, as item indices."""
    scores = np.array(estimator.scores(Groups(items, np.arange(len(items) + 1))))
    scores[np.arange(len(items)), items] = -np.inf
    return np.argsort(-scores, axis=1, kind="stable")[:, :top]


def _related(clicks: ClickDataset, items: IntArray, answers: IntArray) -> np.ndarray[Any, Any]:
    """Return whether each answer shares a category with its clicked item."""
    if clicks.categories is None:
        return np.zeros(answers.shape, dtype=bool)
    kinds = [set(text.split(", ")) - {""} for text in clicks.categories]
    return np.array(
        [
            [bool(kinds[item] & kinds[answer]) for answer in row]
            for item, row in zip(items, answers, strict=True)
        ]
    )


@dataclass(frozen=True)
class Job:
    """One method on one view of a data set under one seed."""

    recipe: Recipe
    view: DatasetView
    seed: int
    row: str
    quick: bool = False
    data_dir: str | None = None

    @property
    def key(self) -> str:
        """Identifies the job: its settings and a fingerprint of the code."""
        method = self.recipe.method(self.row, self.view.dataset, quick=self.quick)
        words = [
            self.view.label,
            self.seed,
            self.row,
            self.quick,
            self.recipe.protocol,
            self.recipe.rows[self.row].method,
            dict(method.grid),
            dict(method.readings),
            code_fingerprint(self.recipe.setting),
        ]
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def n_fits(self) -> int:
        """How many estimators it fits."""
        n_fits = self.recipe.method(self.row, self.view.dataset, quick=self.quick).n_fits
        return n_fits + bool(self.recipe.protocol.get("refit", False))

    def run(self) -> tuple[str, list[TrialResult]]:
        """Return the key and the results, one per criterion and reading."""
        data = self.view.load(self.seed, self.data_dir)
        trial = make_trial(self.recipe, self.view.label, data, self.seed, quick=self.quick)
        method = self.recipe.method(self.row, self.view.dataset, quick=self.quick)
        results, estimator = run_method(trial, method)
        if self.recipe.examples is not None and isinstance(trial, ClickTrial):
            metrics, examples = recall_examples(trial, estimator, **self.recipe.examples)
            metrics = {**results[0].metrics, **metrics}
            results[0] = replace(results[0], metrics=metrics, examples=examples)
        return self.key, results


def make_trial(
    recipe: Recipe, name: str, data: Dataset, seed: int, *, quick: bool = False
) -> DataTrial:
    """Cut a data set by the protocol of a recipe."""
    protocol = recipe.protocol
    if isinstance(data, ClickDataset):
        if quick and len(data.histories) > QUICK_USERS:
            data = _first_users(data, QUICK_USERS)
        split = split_clicks(
            data.histories,
            protocol=protocol.get("name", "authors"),
            size=protocol.get("size", 5),
            min_size=protocol.get("min_size"),
            random_state=seed,
        )
        is_full, refits = protocol.get("full", False), protocol.get("refit", False)
        return ClickTrial(name, seed, data, split, full=is_full, refits=refits)
    setting = find_setting(recipe.setting)
    n_rows = setting.n_groups(data)
    if quick:
        n_rows = min(n_rows, QUICK_ROWS)
    rows = split_rows(n_rows, tuple(protocol["fractions"]), random_state=seed)
    train, validation, test = (setting.subset(data, part) for part in rows)
    if recipe.setting == "mil":
        follows = protocol.get("follow_test", False)
        return BagTrial(name, seed, train, validation, test, follows)
    is_ordered = name in protocol.get("ordered", ())
    return CandidateTrial(name, seed, train, validation, test, recipe.criteria, is_ordered)


def _first_users(data: ClickDataset, n_users: int) -> ClickDataset:
    """Return the first users and only the items they clicked, for a quick look."""
    kept = data.histories.group_of_object < n_users
    found = keep_clicks(data, kept, whole_catalogue=False)
    return replace(found, is_stray=None, source_rows=None, timestamps=None, notes={})


Line = TypeVar("Line")


def append_line(log: Path, content: Any) -> None:
    """Append a line of JSON, so that a kill loses only unfinished work."""
    with log.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(content) + "\n")


def read_lines(log: Path | None, read: Callable[..., Line]) -> list[Line]:
    """Return `read` of each line of a log, if any; truncated lines are skipped."""
    found = []
    for line in log.read_text(encoding="utf-8").splitlines() if log and log.is_file() else ():
        try:
            found.append(read(**json.loads(line)))
        except (TypeError, ValueError):
            continue
    return found


def read_results(log: Path) -> dict[str, list[TrialResult]]:
    """Return the finished jobs of an earlier run by their keys."""

    def read(key: str, results: list[dict[str, Any]]) -> tuple[str, list[TrialResult]]:
        return key, [TrialResult(**result) for result in results]

    return dict(read_lines(log, read))
