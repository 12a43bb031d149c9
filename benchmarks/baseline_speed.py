"""Time PL-kNN against scikit-learn's neighbours, and PALOC on BirdSong.

    python benchmarks/baseline_speed.py

Ratios are taken in one run, alternating the two, and are the median over the rounds. The figures
go to `benchmarks/results/`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _record import write_result
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from groupnoise.candidates.baselines import PALOCClassifier, PLKNNClassifier
from groupnoise.io import load_dataset
from groupnoise.io.datasets import split_rows

ROUNDS = 7


def seconds_to_fit_and_predict(model: Any, train: tuple[Any, Any], queries: Any) -> float:
    started = time.perf_counter()
    model.fit(*train).predict(queries)
    return time.perf_counter() - started


def neighbours(rows: Any, candidates: Any, truth: Any) -> dict[str, float]:
    """Time both on the same rows, for fit and prediction of all of them."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(
            seconds_to_fit_and_predict(KNeighborsClassifier(n_neighbors=10), (rows, truth), rows)
        )
        ours.append(
            seconds_to_fit_and_predict(PLKNNClassifier(n_neighbors=10), (rows, candidates), rows)
        )
    ratio = float(np.median(np.array(ours) / np.array(theirs)))
    return {
        "ours_seconds": round(float(np.median(ours)), 4),
        "scikit_learn_seconds": round(float(np.median(theirs)), 4),
        "ratio": round(ratio, 3),
    }


def main() -> None:
    figures: dict[str, Any] = {"rounds": ROUNDS, "pl_knn": {}}
    for name in ("lost", "msrcv2", "birdsong"):
        data = load_dataset(name)
        rows = StandardScaler().fit_transform(data.features)
        figures["pl_knn"][name] = neighbours(rows, data.candidates, data.truth)
        print(f"PL-kNN {name:9} {figures['pl_knn'][name]}", flush=True)
    train, _, test = split_rows(len(rows), random_state=0)  # BirdSong, the last of the three
    seconds = seconds_to_fit_and_predict(
        PALOCClassifier(), (rows[train], data.candidates[train]), rows[test]
    )
    figures["paloc_birdsong_seconds"] = round(seconds, 2)
    print(f"PALOC  birdsong  {seconds:.1f} s to fit {len(train)} rows and predict {len(test)}")
    write_result("baseline_speed", figures)


if __name__ == "__main__":
    main()
