"""Recall examples: what methods recommend after one clicked item, with titles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from groupnoise._typing import IntArray
from groupnoise.datasets import ClickDataset
from groupnoise.exceptions import DataError
from groupnoise.experiments._click_trial import ClickTrial
from groupnoise.groups import Groups

N_MEASURED = 500
"""Clicked items over which the share of related answers is measured."""


def recall_examples(
    trial: ClickTrial, estimator: Any, *, n_items: int, top: int
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Return what a recommender answers to single clicked items.

    Parameters
    ----------
    trial : ClickTrial
        Its data must have titles.
    estimator : Recommender
        Fitted on the trial.
    n_items : int
        How many clicked items to show; the same for every method under one seed.
    top : int
        How many answers to each.

    Returns
    -------
    metrics : dict
        The share of answers that have a category in common with the clicked item, where the
        data has categories.
    examples : list of dict
        For each clicked item its title and its answers, each a title and whether it is related.
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
    best: IntArray = np.argsort(-scores, axis=1, kind="stable")[:, :top]
    return best


def _related(clicks: ClickDataset, items: IntArray, answers: IntArray) -> np.ndarray[Any, Any]:
    """Return whether each answer has a category in common with its clicked item."""
    if clicks.categories is None:
        return np.zeros(answers.shape, dtype=bool)
    kinds = [set(text.split(", ")) - {""} for text in clicks.categories]
    return np.array([_shared(kinds, item, row) for item, row in zip(items, answers, strict=True)])


def _shared(kinds: Sequence[set[str]], item: int, answers: Sequence[int]) -> list[bool]:
    return [bool(kinds[item] & kinds[answer]) for answer in answers]
