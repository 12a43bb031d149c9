"""A data set as an experiment looks at it: whole, with drawn candidates, or two of its classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from groupnoise.candidates.noise import replace_candidates
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BagDataset, PartialLabelDataset, subset_bags
from groupnoise.io.named import Dataset, load_dataset

MIN_BAGS = 15
"""Bags of a class below which a pair is not tried: 8:1:1 would leave one for testing."""


@dataclass(frozen=True)
class DatasetView:
    """A data set, and what is done to it before it is split.

    `dataset`: name of the registry.
    `noise`: epsilon and tau: candidate labels are drawn anew by the seed of the trial.
    `pair`: the number of a class: only bags with exactly one of it and its successor are kept.
    """

    dataset: str
    noise: tuple[float, int] | None = None
    pair: int | None = None

    @property
    def label(self) -> str:
        """What to call it in tables."""
        if self.noise is not None:
            return f"{self.dataset} epsilon={self.noise[0]:g} tau={self.noise[1]}"
        if self.pair is not None:
            return f"{self.dataset} {self.pair + 1}-{self.pair + 2}"
        return self.dataset

    def load(self, seed: int, data_dir: str | None = None) -> Dataset:
        """Return the data as a trial under this seed sees it."""
        data = _load(self.dataset, data_dir)
        if self.noise is not None:
            if not isinstance(data, PartialLabelDataset):
                raise DataError(f"{self.dataset} has no candidate labels to draw anew.")
            epsilon, tau = self.noise
            return replace_candidates(data, epsilon=epsilon, tau=tau, random_state=seed)
        if self.pair is not None:
            if not isinstance(data, BagDataset):
                raise DataError(f"{self.dataset} has no bags to take two classes of.")
            return class_pair(data, self.pair)
        return data


def noise_views(dataset: str, levels: dict[str, Any]) -> list[DatasetView]:
    """Return the levels of noise: epsilon varied at the fixed tau, tau at the fixed epsilon."""
    fixed = levels["fixed"]
    pairs = [(epsilon, fixed["tau"]) for epsilon in levels["epsilon"]]
    pairs += [(fixed["epsilon"], tau) for tau in levels["tau"]]
    return [DatasetView(dataset, noise=pair) for pair in dict.fromkeys(pairs)]


def pair_views(dataset: str, step: int, data_dir: str | None = None) -> list[DatasetView]:
    """Return pairs of adjacent classes with bags enough, beginning at every `step`-th class."""
    data = _load(dataset, data_dir)
    if not isinstance(data, BagDataset):
        raise DataError(f"{dataset} has no bags to take two classes of.")
    found = []
    for first in range(0, len(data.class_names) - 1, step):
        either = data.labels[:, first : first + 2]
        if either[either.sum(axis=1) == 1].sum(axis=0).min() >= MIN_BAGS:
            found.append(DatasetView(dataset, pair=first))
    if not found:
        raise DataError(f"no two adjacent classes of {dataset} have {MIN_BAGS} bags each.")
    return found


def class_pair(data: BagDataset, first: int) -> BagDataset:
    """Return the bags that carry either class `first` or the next, as a problem of two classes.

    Instances of any other class count as background, which is not scored.
    """
    if data.instance_labels is None:
        raise DataError(f"{data.name} has no instance labels, so accuracy cannot be measured.")
    either = data.labels[:, first : first + 2]
    kept = subset_bags(data, either.sum(axis=1) == 1)
    truth = np.asarray(kept.instance_labels) - first
    return replace(
        kept,
        labels=kept.labels[:, first : first + 2],
        class_names=data.class_names[first : first + 2],
        instance_labels=np.where((truth == 0) | (truth == 1), truth, -1),
    )


@lru_cache(maxsize=4)
def _load(name: str, data_dir: str | None) -> Dataset:
    return load_dataset(name, data_dir=data_dir)
