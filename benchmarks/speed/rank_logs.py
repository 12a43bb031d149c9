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
from _record import write_result

from groupnoise.clicks import rank_targets, split_histories
from groupnoise.clicks.baselines import (
    ALSRecommender,
    EASERecommender,
    ItemCFRecommender,
    PopularityRecommender,
)
from groupnoise.clicks.ranking import rank_and_list
from groupnoise.io.named import load_dataset

LOGS = ("movielens-1m", "amazon-video-games")
METHODS: dict[str, Callable[[], Any]] = {
    "popularity": PopularityRecommender,
    "item-CF": ItemCFRecommender,
    # What is learned does not change the time to rank.
    "ALS": lambda: ALSRecommender(max_epochs=1, random_state=0),
    "EASE": lambda: EASERecommender(max_items=8192),
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
    data_dir = parser.parse_args().data
    rows = []
    for log in LOGS:
        data = load_dataset(log, data_dir=data_dir)
        split = split_histories(data, "leave_one_out")
        groups = split.test.groups
        for method, make in METHODS.items():
            model = make().fit(split.train.histories, item_ids=split.train.item_ids)
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
