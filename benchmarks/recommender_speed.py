"""Time the baseline recommenders on Amazon Video Games, the counting ones against `implicit`.

    python benchmarks/recommender_speed.py

Fits are repeated in turn, ours and theirs, and the best of each is kept, so that a busy machine
disturbs both alike. The comparison is left out with a sentence if `implicit` is not installed.
"""

from __future__ import annotations

import importlib.util
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from _record import write_result
from scipy import sparse

from groupnoise import Groups
from groupnoise.clicks import rank_targets, split_clicks
from groupnoise.clicks.baselines import (
    CaserRecommender,
    CooccurrenceRecommender,
    ItemCFRecommender,
    SASRecRecommender,
)
from groupnoise.io import ClickDataset, load_dataset

N_NEIGHBORS = 20
REPEATS = 7
ALLOWED_RATIO = 2.0
ALLOWED_EPOCH_SECONDS = 120.0


def main() -> None:
    """Time everything and write one result file."""
    dataset = load_dataset("amazon-video-games")
    assert isinstance(dataset, ClickDataset)
    histories = dataset.histories
    figures: dict[str, Any] = {
        "fit": compare_with_implicit(histories, dataset.n_items),
        "ranking": time_ranking(dataset),
        "one_epoch": time_epochs(histories),
    }
    path = write_result("recommender_speed", {"figures": figures}, packages=("implicit",))
    print(f"written to {path.name}")


def compare_with_implicit(histories: Groups, n_items: int) -> dict[str, Any] | str:
    """Fit the counting methods and implicit's item-item recommenders in turn, on one thread."""
    if importlib.util.find_spec("implicit") is None:
        sentence = "implicit is not installed; `pip install implicit` adds the comparison."
        print(sentence)
        return sentence
    # implicit advises against more than one BLAS thread; it is told its own number of threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from implicit.nearest_neighbours import CosineRecommender, ItemItemRecommender

    clicks = sparse.csr_matrix(
        (np.ones(histories.n_objects), histories.objects, histories.offsets),
        shape=(len(histories), n_items),
    )
    theirs = {"num_threads": 1, "K": N_NEIGHBORS}
    pairs: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "co-occurrence": (
            lambda: CooccurrenceRecommender().fit(histories),
            lambda: ItemItemRecommender(**theirs).fit(clicks, show_progress=False),
        ),
        f"item-CF, {N_NEIGHBORS} neighbours": (
            lambda: ItemCFRecommender(n_neighbors=N_NEIGHBORS).fit(histories),
            lambda: CosineRecommender(**theirs).fit(clicks, show_progress=False),
        ),
    }
    figures = {}
    for name, (ours, baseline) in pairs.items():
        seconds, baseline_seconds = best_of_each(ours, baseline)
        ratio = seconds / baseline_seconds
        figures[name] = {
            "seconds": round(seconds, 3),
            "implicit_seconds": round(baseline_seconds, 3),
            "ratio": round(ratio, 2),
            "allowed_ratio": ALLOWED_RATIO,
        }
        print(f"{name:24} {seconds:.3f} s, implicit {baseline_seconds:.3f} s, ratio {ratio:.2f}")
    return figures


def best_of_each(ours: Callable[[], Any], baseline: Callable[[], Any]) -> tuple[float, float]:
    best = [np.inf, np.inf]
    for _ in range(REPEATS):
        for place, fit in enumerate((ours, baseline)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # implicit reports a conversion of its own
                started = time.perf_counter()
                fit()
                best[place] = min(best[place], time.perf_counter() - started)
    return best[0], best[1]


def time_ranking(dataset: ClickDataset) -> dict[str, Any]:
    """Rank all test targets, given vectors, among 100 negatives and the whole catalogue."""

    class Vectors:
        table = np.random.default_rng(0).standard_normal((dataset.n_items, 64), dtype=np.float32)

        def scores(self, histories: Groups, items: Any = None) -> Any:
            queries = self.table[histories.objects[histories.offsets[1:] - 1]]
            if items is None:
                return queries @ self.table.T
            return np.einsum("nd,nmd->nm", queries, self.table[items])

    windows = split_clicks(dataset.histories, "authors").test.groups
    figures: dict[str, Any] = {"targets": len(windows), "items": dataset.n_items}
    for protocol in ("sampled", "full"):
        started = time.perf_counter()
        rank_targets(Vectors(), windows, dataset.n_items, protocol)
        figures[f"{protocol}_seconds"] = round(time.perf_counter() - started, 2)
    print(f"ranking {figures}")
    return figures


def time_epochs(histories: Groups) -> dict[str, Any]:
    """Train one epoch of the two sequence models."""
    models = {
        "caser": CaserRecommender(max_epochs=1, random_state=0),
        "sasrec": SASRecRecommender(max_epochs=1, random_state=0),
    }
    figures = {}
    for name, model in models.items():
        cpu_started = time.process_time()
        model.fit(histories)
        figures[name] = {
            "seconds": round(model.history_[0]["seconds"], 1),
            "cpu_seconds": round(time.process_time() - cpu_started, 1),
            "allowed_seconds": ALLOWED_EPOCH_SECONDS,
            "parameters": model.get_params(),
        }
        print(f"{name}: one epoch in {figures[name]['seconds']} s", flush=True)
    return figures


if __name__ == "__main__":
    main()
