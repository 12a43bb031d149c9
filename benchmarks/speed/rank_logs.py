"""Processor time to rank every user's last click in the whole catalogue of two large logs.

    python benchmarks/speed/rank_logs.py --data DIRECTORY

Leave-one-out; `rank` is the ranks alone, `lists` the ranks and lists of the ten best in one pass.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import recorded, write_result

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks import rank_targets, split_histories
from groupnoise.clicks.baselines import (
    ALSRecommender,
    EASERecommender,
    ItemCFRecommender,
    PopularityRecommender,
)
from groupnoise.clicks.evaluation.ranking import rank_and_list
from groupnoise.io.named import load_dataset

LOGS = ("movielens-1m", "amazon-video-games")
DEEP: dict[str, Any] = {
    "encoder": ("deep recurrence", "recurrence"),
    "dim": 128,
    "shared": False,
    "init": "random",
    "candidates": "sampled",
    "n_negatives": 256,
    "max_epochs": 1,
    "batch_size": 1024,
    "learning_rate": 5e-3,
    "weight_decay": 1.0,
    "linear": None,
    "random_state": 0,
}
"""What plain fits take on both logs, without the linear evidence that they add on the second."""
N_LEARNED = 200
"""Training histories of slow methods: the fit does not change the time to rank."""
METHODS: dict[str, Callable[[], Any]] = {
    "popularity": PopularityRecommender,
    "item-CF": ItemCFRecommender,
    # What is learned does not change the time to rank.
    "ALS": lambda: ALSRecommender(max_epochs=1, random_state=0),
    "EASE": lambda: EASERecommender(max_items=8192),
    "Max-Matching, two encoders": lambda: MaxMatchingRecommender(**DEEP, window_size=200),
}


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the processor time of some work."""
    started = time.process_time()
    work()
    return round(time.process_time() - started, 2)


def main() -> None:
    """Time all methods on all logs and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=None, help="Searched first for the logs.")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    arguments = parser.parse_args()
    data_dir = arguments.data
    rows = [row for row in recorded("rank_logs") if row["method"] not in arguments.methods]
    for log in LOGS:
        data = load_dataset(log, data_dir=data_dir)
        split = split_histories(data, "leave_one_out")
        groups = split.test.groups
        for method in arguments.methods:
            make = METHODS[method]
            histories = split.train.histories
            if method.startswith("Max-Matching"):
                histories = histories[:N_LEARNED]
            model = make().fit(histories, item_ids=split.train.item_ids)
            rows.append(
                {
                    "log": log,
                    "method": method,
                    "targets": len(groups),
                    "items": data.n_items,
                    "rank": seconds_of(lambda: rank_targets(model, groups, data.n_items, "full")),  # noqa: B023
                    "lists": seconds_of(lambda: rank_and_list(model, groups, data.n_items)),  # noqa: B023
                }
            )
            print(rows[-1], flush=True)
    command = "python benchmarks/speed/rank_logs.py --data DIRECTORY"
    print(write_result("rank_logs", {"command": command, "rows": rows}))


if __name__ == "__main__":
    main()
