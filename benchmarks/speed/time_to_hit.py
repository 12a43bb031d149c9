"""HIT@10 over seconds of training on Amazon Video Games with 100 negatives.

Settings are the recommender's defaults but for the negatives; the test windows of the authors'
protocol are ranked after every epoch among 100 sampled items, and choose nothing: the curve is
all there is, and training always goes on to its end. Seconds are of training alone; those of the
evaluations stand beside them.

Run: python benchmarks/speed/time_to_hit.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import write_result

from groupnoise import MaxMatchingRecommender
from groupnoise.clicks import split_clicks
from groupnoise.io import ClickDataset, load_dataset
from groupnoise.reproduce.trials import window_metrics

N_NEGATIVES, SEED = 100, 0
GOALS = {0.694: 60.0, 0.74: 180.0}
"""HIT@10 and the seconds it should take on two cores: the paper's MM+, and SASRec's figure."""


def main() -> None:
    dataset = load_dataset("amazon-video-games")
    assert isinstance(dataset, ClickDataset)
    split = split_clicks(dataset.histories, "authors", min_size=1)
    curve: list[dict[str, float]] = []
    evaluation_seconds: list[float] = []

    def rank(model: MaxMatchingRecommender) -> float:
        started = time.perf_counter()
        hit, ndcg = window_metrics(model, dataset, split.test, seed=SEED)
        curve.append({"hit@10": round(hit, 4), "ndcg@10": round(ndcg, 4)})
        evaluation_seconds.append(round(time.perf_counter() - started, 2))
        return float(len(curve))  # the last epoch is always the best: the test part chooses nothing

    model = MaxMatchingRecommender(n_negatives=N_NEGATIVES, random_state=SEED)
    model.fit(split.train.groups, item_ids=dataset.item_ids, validate=rank)
    seconds = 0.0
    for point, record in zip(curve, model.history_, strict=True):
        seconds += record["seconds"]
        point["training_seconds"] = round(seconds, 1)
        print(point)
    reached = {
        str(goal): {
            "seconds": next((p["training_seconds"] for p in curve if p["hit@10"] >= goal), None),
            "wanted_below": wanted,
        }
        for goal, wanted in GOALS.items()
    }
    print(reached)
    write_result(
        "time_to_hit",
        {
            "configuration": {
                "negatives_in_training": N_NEGATIVES,
                "epochs": model.max_epochs,
                "training_windows": len(split.train.groups),
                "test_windows": len(split.test.groups),
                "seed": SEED,
                "torch_threads": torch.get_num_threads(),
            },
            "curve": curve,
            "evaluation_seconds": evaluation_seconds,
            "reached": reached,
        },
    )


if __name__ == "__main__":
    main()
