"""Which label `resolve` gives the rows of real partial-label sets, out of fold.

    python benchmarks/resolve_real.py lost msrcv2 birdsong

The true labels are asked only for the figures: how many rows get the right one of their candidates,
and how sure the answers are on average. Goes to `benchmarks/results/resolve_real.json`; runs with
other parameters stand beside each other there.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from _record import RESULTS, write_result

from groupnoise.io import PartialLabelDataset, load_dataset
from groupnoise.votes import Votes
from groupnoise.votes.classifiers import KeptAnswers, trainings
from groupnoise.votes.crowd import believe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sets", nargs="+")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--checkpoint", type=Path, help="folder of trainings; goes on from there")
    options = parser.parse_args()
    path = RESULTS / "resolve_real.json"
    kept = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.is_file() else []
    for name in options.sets:
        run = {
            "set": name,
            "folds": options.folds,
            "rounds": options.rounds,
            "members": options.members,
            "seed": 0,
        }
        kept = [each for each in kept if any(each[key] != run[key] for key in run)]
        kept.append(run | measure(name, options))
        print(kept[-1], flush=True)
        write_result("resolve_real", {"runs": kept})


def measure(name: str, options: argparse.Namespace) -> dict[str, float]:
    started = time.perf_counter()
    finished = None if options.checkpoint is None else KeptAnswers(options.checkpoint / name)
    data = load_dataset(name)
    assert isinstance(data, PartialLabelDataset)
    assert data.truth is not None
    n_rows = len(data.candidates)
    weights = data.candidates / data.candidates.sum(axis=1, keepdims=True)
    nobody = np.zeros(n_rows, dtype=np.int64)
    votes = Votes(
        np.arange(n_rows), nobody, weights, n_rows, [str(k) for k in data.class_names], ["c"]
    )
    belief = believe(
        votes,
        np.asarray(data.features),
        is_candidates=True,
        n_folds=options.folds,
        n_rounds=options.rounds,
        fit=trainings(None, None, 0, is_candidates=True, n_members=options.members),
        kept=finished,
    )
    is_known = data.truth >= 0
    right = belief.probabilities.argmax(axis=1) == data.truth
    assert belief.predicted is not None
    figures = {
        "rows": n_rows,
        "accuracy": round(float(right[is_known].mean()), 4),
        "mean probability": round(float(belief.probabilities.max(axis=1).mean()), 4),
        "accuracy without candidates": round(
            float((belief.predicted.argmax(axis=1) == data.truth)[is_known].mean()), 4
        ),
    }
    if finished is None:  # the time of a part of the trainings would say nothing
        figures["seconds"] = round(time.perf_counter() - started, 1)
    return figures


if __name__ == "__main__":
    main()
