"""Training from windows on disk: accuracy of shuffling by pools, and memory.

Accuracy: the recommender on a click log, all windows shuffled at once against pools of blocks of
neighbouring windows. Neighbours are windows of one user, so a bad shuffle would show. Memory: one
epoch over simulated windows in a folder, all shuffled at once against pools of a million, the
latter under a limit of memory that is smaller than the windows.

Run: python benchmarks/speed/out_of_core.py
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import write_result

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.clicks import rank_targets, split_clicks, write_windows
from groupnoise.core import hit_at_k, ndcg_at_k
from groupnoise.io import ClickDataset, load_dataset, open_groups
from groupnoise.io.datasets import Windows

SEEDS = (0, 1, 2)
SHARES = (None, 0.08, 0.02)
"""Of the windows, mixed at a time; None shuffles all at once."""
MILLION = 1 << 20
LONG_HISTORY, N_ITEMS = 105, 100_000
LARGE: dict[str, Any] = {
    "dim": 8,
    "n_negatives": 64,
    "weighting": None,
    "batch_size": 8192,
    "max_epochs": 1,
    "init": "random",
    "random_state": 0,
}
MEGABYTE = 1 << 20


def main() -> None:
    """Measure both and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--windows", type=int, default=20_000_000, help="simulated; 0 for none")
    parser.add_argument("--dataset", default="amazon-video-games", help="a click log by name")
    parser.add_argument("--limit", type=int, default=600, help="megabytes, for the last way")
    options = parser.parse_args()
    accuracy = accuracies(options.dataset)
    print(write_result(f"out_of_core_accuracy_{options.dataset}", accuracy), flush=True)
    if options.windows:
        memory = memories(options.windows, options.limit)
        print(write_result("out_of_core_memory", memory))


def accuracies(dataset: str) -> dict[str, Any]:
    """Return test figures for each way to shuffle."""
    clicks = load_dataset(dataset)
    assert isinstance(clicks, ClickDataset)
    split = split_clicks(
        clicks.histories, protocol="leave_one_out", size=5, min_size=1, random_state=0
    )
    rows = []
    for share in SHARES:
        pool = None if share is None else int(share * len(split.train.groups))
        trials = []
        for seed in SEEDS:
            model = MaxMatchingRecommender(shuffle_pool=pool, random_state=seed)
            model.fit(split.train.groups, item_ids=clicks.item_ids)
            trials.append(figures(model, clicks, split.test))
            print(pool, seed, trials[-1], flush=True)
        summary = {
            name: {
                "mean": round(statistics.mean(trial[name] for trial in trials), 4),
                "deviation": round(statistics.stdev(trial[name] for trial in trials), 4),
            }
            for name in trials[0]
        }
        rows.append({"shuffle_pool": pool, "share mixed at a time": share or 1.0, **summary})
    return {
        "dataset": dataset,
        "windows": len(split.train.groups),
        "seeds": SEEDS,
        "rows": rows,
    }


def figures(
    model: MaxMatchingRecommender, clicks: ClickDataset, windows: Windows
) -> dict[str, float]:
    """Return HIT@10 and NDCG@10 among 100 negatives."""
    ranks = rank_targets(
        model,
        windows.groups,
        clicks.n_items,
        "sampled",
        seen=clicks.histories.subset(windows.users),
        random_state=0,
    )
    return {"HIT@10": float(hit_at_k(*ranks, k=10)), "NDCG@10": float(ndcg_at_k(*ranks, k=10))}


def memories(n_windows: int, limit: int) -> dict[str, Any]:
    """Return memory and time of an epoch over windows in a folder, for each way to hold them."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "windows"
        groups = write_windows(folder, simulated(n_windows), size=5, min_size=5).groups
        assert groups.targets is not None
        arrays = (groups.objects, groups.offsets, groups.targets)
        size = sum(array.nbytes for array in arrays) // MEGABYTE
        rows = []
        for pool, allowed in ((None, None), (MILLION, limit)):
            with multiprocessing.get_context("spawn").Pool(1) as process:
                rows.append(process.apply(fit_large, (folder, pool, allowed)))
            print(rows[-1], flush=True)
    return {"windows": n_windows, "megabytes": size, "settings": LARGE, "rows": rows}


def simulated(n_windows: int) -> Groups:
    """Return histories that give this many windows of five clicks; users keep to a topic."""
    generator = np.random.default_rng(0)
    n_users = n_windows // (LONG_HISTORY - 5)
    topic = np.repeat(generator.integers(N_ITEMS // 20, size=n_users), LONG_HISTORY)
    clicks = (topic * 20 + generator.integers(20, size=len(topic))).astype(np.int32)
    return Groups(clicks, np.arange(0, len(clicks) + 1, LONG_HISTORY))


def fit_large(folder: Path, pool: int | None, limit: int | None) -> dict[str, Any]:
    """Fit one epoch; memory is counted from after a fit on a few of the windows."""
    model = MaxMatchingRecommender(**LARGE, shuffle_pool=pool)
    stored = open_groups(folder)
    assert isinstance(stored, Windows)
    model.fit(stored.groups[:50_000])
    allowed, most = resource.getrlimit(resource.RLIMIT_DATA)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (limit * MEGABYTE, most))
    started, before = time.perf_counter(), anonymous_megabytes()
    with Peak() as peak:
        model.fit(stored.groups)
    seconds = time.perf_counter() - started
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, most))
    return {
        "shuffle_pool": pool,
        "limit in megabytes": limit,
        "seconds": round(seconds, 1),
        "megabytes of the process before": before,
        "megabytes added at most": peak.megabytes - before,
        "HIT@10 of fresh windows": round(hit_rate(model), 4),
    }


def hit_rate(model: MaxMatchingRecommender) -> float:
    """Return HIT@10 among 100 negatives of windows drawn as the simulated ones are."""
    generator = np.random.default_rng(1)
    topics = generator.integers(N_ITEMS // 20, size=(2000, 1))
    clicks = topics * 20 + generator.integers(20, size=(len(topics), 6))
    windows = Groups.from_array(clicks[:, :5], clicks[:, 5])
    return float(hit_at_k(*rank_targets(model, windows, model.n_items_, "sampled"), k=10))


class Peak:
    """The most memory of its own that this process held while the block ran, sampled."""

    def __enter__(self) -> Peak:
        self.megabytes, self._is_over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.02):
            self.megabytes = max(self.megabytes, anonymous_megabytes())


def anonymous_megabytes() -> int:
    """Return the resident memory of this process that is not a mapped file."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("RssAnon"))


if __name__ == "__main__":
    main()
