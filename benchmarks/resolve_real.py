"""Labels of `resolve` on real partial-label sets, out of fold.

    python benchmarks/resolve_real.py lost msrcv2 birdsong --seeds 0 1 2

The true labels are asked only for the figures: how many rows get the right one of their candidates,
how sure the answers are on average, and how far the two lie apart in ten parts of the rows, from
the least sure to the surest. Goes to `benchmarks/results/resolve_real.json`; runs with other
parameters stand beside each other there.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from _record import recorded, replace_row, write_result

from groupnoise.io import PartialLabelDataset, load_dataset
from groupnoise.votes import Votes
from groupnoise.votes.classifiers import PredictionCache, default_fits
from groupnoise.votes.inference import CANDIDATE_ROUNDS, infer_labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=CANDIDATE_ROUNDS)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--checkpoint", type=Path, help="folder of trainings; goes on from there")
    options = parser.parse_args()
    runs = recorded("resolve_real", "runs")
    for name, seed in product(options.sets, options.seeds):
        run = {
            "set": name,
            "folds": options.folds,
            "rounds": options.rounds,
            "members": options.members,
            "seed": seed,
            "answer": "all rounds",
        }
        runs = replace_row(runs, run | measure(name, seed, options), list(run))
        print(runs[-1], flush=True)
        write_result("resolve_real", {"runs": runs})


def measure(name: str, seed: int, options: argparse.Namespace) -> dict[str, float]:
    started = time.perf_counter()
    finished = None
    if options.checkpoint is not None:
        finished = PredictionCache(options.checkpoint / f"{name}{seed}")
    data = load_dataset(name)
    assert isinstance(data, PartialLabelDataset)
    assert data.truth is not None
    n_rows = len(data.candidates)
    weights = data.candidates / data.candidates.sum(axis=1, keepdims=True)
    nobody = np.zeros(n_rows, dtype=np.int64)
    votes = Votes(
        np.arange(n_rows), nobody, weights, n_rows, [str(k) for k in data.class_names], ["c"]
    )
    belief = infer_labels(
        votes,
        np.asarray(data.features),
        is_candidates=True,
        n_folds=options.folds,
        n_rounds=options.rounds,
        fit=default_fits(None, None, seed, is_candidates=True, n_members=options.members),
        seed=seed,
        kept=finished,
    )
    is_known = data.truth >= 0
    right = belief.probabilities.argmax(axis=1) == data.truth
    surest = belief.probabilities.max(axis=1)
    assert belief.predicted is not None
    figures = {
        "rows": n_rows,
        "accuracy": round(float(right[is_known].mean()), 4),
        "mean probability": round(float(surest.mean()), 4),
        "calibration error": round(calibration_error(surest[is_known], right[is_known]), 4),
        "accuracy without candidates": round(
            float((belief.predicted.argmax(axis=1) == data.truth)[is_known].mean()), 4
        ),
    }
    if finished is None:  # the time of a part of the trainings would say nothing
        figures["seconds"] = round(time.perf_counter() - started, 1)
    return figures


def calibration_error(surest: Any, right: Any) -> float:
    """Return how far probabilities lie from the share of right answers, in ten parts of rows."""
    parts = np.array_split(np.argsort(surest, kind="stable"), 10)
    apart = [len(part) * abs(surest[part].mean() - right[part].mean()) for part in parts]
    return float(sum(apart) / len(surest))


if __name__ == "__main__":
    main()
