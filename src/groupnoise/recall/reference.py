"""Drift detection: reference histograms of training, compared with requests and answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.exceptions import DataError
from groupnoise.io.files import MANIFEST, write_json
from groupnoise.io.folders.array_folder import read_manifest
from groupnoise.recall.artifact import open_artifact
from groupnoise.recall.model import RecallModel
from groupnoise.recall.options import RecallOptions
from groupnoise.recall.recalled import OneRecalled, Recalled

N_BINS = 10
MAX_HISTORIES = 2000
"""Histories used for the reference of scores."""
MIN_HISTORIES = 100
KEY = "reference"
MAX_PENDING = 2000
"""Histories that may wait to be counted; further ones are skipped."""
WINDOW = 20_000.0
"""Counts above this are halved, so that old ones decay."""
MIN_COUNT = 200
"""Fewest counts for an index."""
SCORE = "score"


class Bins(NamedTuple):
    """A histogram over the items of a model.

    `bin_of`: the bin of each item.
    `shares`: the share of the clicks of the training in each bin, all above 0.
    """

    bin_of: IntArray
    shares: FloatArray


def population_stability(shares: FloatArray, counts: FloatArray) -> float:
    r"""Return the population stability index of counts and expected shares, 0 if equal.

    It is :math:`\sum_b (a_b - e_b) \ln (a_b / e_b)` of the shares
    :math:`a` of the counts and the expected shares :math:`e`; half a count is added to each bin,
    so that empty ones are finite. Below .1 is usual, above .25 is a shift.

    Examples
    --------
    >>> round(population_stability(np.array([0.5, 0.5]), np.array([900.0, 100.0])), 3)
    0.876
    """
    n_counts = counts.sum()
    expected, actual = (
        (each + 0.5) / (n_counts + 0.5 * len(counts)) for each in (shares * n_counts, counts)
    )
    return float(((actual - expected) * np.log(actual / expected)).sum())


def item_bins(model: RecallModel) -> dict[str, Bins]:
    """Return histograms of the clicks of the training: by popularity, and by category if any."""
    items = model.items
    popularity = np.maximum(np.asarray(items.popularity, dtype=np.float64), 0)
    if not popularity.sum() > 0:
        return {}
    before = np.zeros(len(items))
    order = items.popular_order
    before[order] = np.concatenate([[0.0], np.cumsum(popularity[order])[:-1]])
    tenth = np.minimum(N_BINS * before / popularity.sum(), N_BINS - 1).astype(np.int64)
    bins = {"popularity": _bins(tenth, popularity)}
    codes = items.first_categories
    if codes is not None:
        bins["category"] = _bins(codes, popularity)
    return {name: each for name, each in bins.items() if len(each.shares) > 1}


def _bins(codes: IntArray, popularity: FloatArray) -> Bins:
    """Return the bins that have training clicks; items of other bins are put in the last."""
    weights = np.bincount(codes, weights=popularity)
    numbers = np.cumsum(weights > 0) - 1
    last = int(numbers[-1])
    bin_of = np.where(weights[codes] > 0, numbers[codes], last)
    return Bins(bin_of, weights[weights > 0] / weights.sum())


def best_scores(recalled: Recalled) -> FloatArray:
    """Return the best score of each history that was not answered by popularity."""
    scores = np.asarray(recalled.scores[:, 0], dtype=np.float64)
    return scores[np.isfinite(scores) & ~recalled.from_popularity]


def add_reference(folder: Path | str, histories: Sequence[Sequence[Any]]) -> int:
    """Write the reference scores of an artifact in its manifest; return the number of histories.

    `histories`: such as the service will receive; of many, `MAX_HISTORIES` evenly spaced ones are
    used. Raises DataError if fewer than `MIN_HISTORIES` hold an item of the model.
    """
    step = max(1, -(-len(histories) // MAX_HISTORIES))
    scores = best_scores(open_artifact(folder).recall(histories[::step]))
    if len(scores) < MIN_HISTORIES:
        raise DataError(
            f"{len(scores)} histories hold an item of the model, and usual scores need at least "
            f"{MIN_HISTORIES}; give more histories or none."
        )
    edges = np.unique(np.quantile(scores, np.arange(1, N_BINS) / N_BINS))
    counts = np.bincount(np.searchsorted(edges, scores, side="right"), minlength=len(edges) + 1)
    found = {"edges": edges.tolist(), "shares": (counts / counts.sum()).tolist()}
    manifest = read_manifest(folder)
    content = {**manifest, KEY: {"histories": len(scores), "scores": found}}
    write_json(Path(folder) / MANIFEST, content)
    return len(scores)


def score_reference(manifest: Mapping[str, Any]) -> tuple[FloatArray, FloatArray] | None:
    """Return the edges and shares of the reference scores; None without valid ones.

    `manifest`: of an artifact; not trusted.
    """
    try:
        found = manifest[KEY]["scores"]
        edges = np.asarray(found["edges"], dtype=np.float64)
        shares = np.asarray(found["shares"], dtype=np.float64)
    except (KeyError, TypeError, ValueError):
        return None
    is_whole = edges.ndim == 1 and shares.shape == (len(edges) + 1,) and len(edges) > 0
    if not is_whole or not np.isfinite(edges).all() or not (np.diff(edges) > 0).all():
        return None
    return (edges, shares) if (shares >= 0).all() and abs(shares.sum() - 1) < 1e-6 else None


class Drift:
    """Counts the clicks and scores of the requests to one version.

    Requests are appended to a list, and counted when the counts are read.

    `model`: the version.
    """

    def __init__(self, model: RecallModel) -> None:
        self._items = model.items
        self._bins = item_bins(model)
        self._reference = score_reference(model.manifest)
        self._shares = {name: each.shares for name, each in self._bins.items()}
        if self._reference is not None:
            self._shares[SCORE] = self._reference[1]
        self._counts: dict[str, FloatArray] = {
            name: np.zeros(len(shares)) for name, shares in self._shares.items()
        }
        self._n_pending = 0
        self._clicks: list[Any] = []
        self._scores: list[float] = []

    def observe(
        self, histories: Sequence[Sequence[Any]], options: RecallOptions, recalled: Recalled
    ) -> None:
        """Record a request and its answer; filters change scores, so only plain requests count."""
        if self._n_pending < MAX_PENDING and options == RecallOptions(top=options.top):
            self._n_pending += len(histories)
            self._clicks += [item for history in histories for item in history]
            self._scores += best_scores(recalled).tolist()

    def observe_one(self, history: Sequence[Any], recalled: OneRecalled) -> None:
        """Record a request of one history without options, and its answer."""
        if self._n_pending < MAX_PENDING:
            self._n_pending += 1
            self._clicks += history
            if recalled.scores and not recalled.from_popularity:
                self._scores.append(recalled.scores[0])

    def counts(self) -> dict[str, list[float]]:
        """Return the counts up to now by histogram."""
        clicks, scores = self._clicks, self._scores
        self._clicks, self._scores, self._n_pending = [], [], 0
        positions = self._items.positions_of(clicks)
        known = positions[positions >= 0]
        for name, each in self._bins.items():
            self._counts[name] = _decayed_sum(self._counts[name], each.bin_of[known])
        if self._reference is not None:
            numbers = np.searchsorted(self._reference[0], np.array(scores), side="right")
            self._counts[SCORE] = _decayed_sum(self._counts[SCORE], numbers)
        return {name: values.tolist() for name, values in self._counts.items()}

    def shifts(self, others: Sequence[Mapping[str, Sequence[float]]] = ()) -> dict[str, float]:
        """Return the population stability index of each histogram with enough counts.

        `others`: :meth:`counts` of the same version in other processes.
        """
        found = {}
        for name, counts in self.counts().items():
            total = np.sum([counts, *(each[name] for each in others)], axis=0)
            if total.sum() >= MIN_COUNT:
                found[name] = population_stability(self._shares[name], total)
        return found


def _decayed_sum(counts: FloatArray, numbers: Any) -> FloatArray:
    total = counts + np.bincount(numbers, minlength=len(counts))
    return np.asarray(total / 2 if total.sum() > WINDOW else total)
