"""Time to rank the test items of all users of Amazon Video Games in the whole catalogue.

A model is trained first, with few epochs: what it has learnt does not change how long an answer
takes. MM+ answers with all clicks of the test window, MM with the last one.

Run: python benchmarks/speed/full_ranking.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import write_result

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks import split_clicks
from groupnoise.io import ClickDataset, load_dataset
from groupnoise.reproduce.trials import window_metrics

DIM, EPOCHS, REPEATS, SECONDS_WANTED = 128, 2, 3, 3.0


def main() -> None:
    dataset = load_dataset("amazon-video-games")
    assert isinstance(dataset, ClickDataset)
    split = split_clicks(dataset.histories, "authors")
    model = MaxMatchingRecommender(dim=DIM, max_epochs=EPOCHS, random_state=0)
    model.fit(split.train.groups, item_ids=dataset.item_ids)
    figures: dict[str, Any] = {}
    for name, scope in [("MM+", "group"), ("MM", "last")]:
        model.set_params(scope=scope)
        seconds = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            hit, _ = window_metrics(model, dataset, split.test, "full")
            seconds.append(round(time.perf_counter() - started, 2))
        figures[name] = {"seconds": seconds, "best_seconds": min(seconds), "hit@10": round(hit, 4)}
        print(f"{name:<4}{min(seconds):6.2f} s", seconds)
    write_result(
        "full_ranking",
        {
            "configuration": {
                "users": len(split.test.groups),
                "items": dataset.n_items,
                "dim": DIM,
                "epochs": EPOCHS,
                "seed": 0,
                "torch_threads": torch.get_num_threads(),
                "seconds_wanted": SECONDS_WANTED,
            },
            "figures": figures,
        },
    )


if __name__ == "__main__":
    main()
