"""Accuracy on whole bags by ten folds: a plain fit on Musk, Elephant, Fox and Tiger.

    python benchmarks/bag_accuracy.py [SEEDS] [SET ...]

Folds are drawn anew under every seed and hold their share of both labels. What is done already is
kept in a log beside the result, so that a stopped run is resumed.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from _record import RESULTS, run_missing, write_result
from sklearn.metrics import roc_auc_score

from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags.search.held_out_bags import draw_folds
from groupnoise.io import load_dataset

AIMS = {"musk1": 0.90, "musk2": 0.90, "elephant": 0.87, "fox": 0.63, "tiger": 0.85}
N_FOLDS = 10


def ten_folds(set: str, seed: int) -> dict[str, object]:
    """Return accuracy and AUROC over all bags, each answered by a fit that has not seen it."""
    data = load_dataset(set)
    label = data.labels.argmax(axis=1)
    folds = draw_folds(data.labels, N_FOLDS, np.random.default_rng(seed))
    answers, chance = np.empty(len(label), dtype=np.int64), np.empty(len(label))
    started = time.process_time()
    for fold in range(N_FOLDS):
        seen, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        names = np.array(data.class_names)[label[seen]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = MaxMatchingMILClassifier(random_state=seed).fit(data.bags.subset(seen), names)
        proba = model.bag_proba(data.bags.subset(held))
        columns = [model.classes_.tolist().index(each) for each in data.class_names]
        answers[held] = proba[:, columns].argmax(axis=1)
        chance[held] = proba[:, columns[1]]
    return {
        "set": set,
        "seed": seed,
        "accuracy": round(float(np.mean(answers == label)), 4),
        "AUROC": round(float(roc_auc_score(label, chance)), 4),
        "processor seconds of a fit": round((time.process_time() - started) / N_FOLDS, 1),
    }


def main() -> None:
    """Run, and write the table after every set and seed."""
    seeds = [int(each) for each in (sys.argv[1] if len(sys.argv) > 1 else "0").split(",")]
    names = sys.argv[2:] or list(AIMS)
    places = ({"set": name, "seed": seed} for seed in seeds for name in names)
    for run, done in run_missing(Path("runs") / "bag_accuracy.jsonl", places, ten_folds):
        print(json.dumps(run), flush=True)
        rows = [
            {
                "set": name,
                "aim": AIMS[name],
                "accuracy": round(mean := float(np.mean([each["accuracy"] for each in own])), 4),
                "AUROC": round(float(np.mean([each["AUROC"] for each in own])), 4),
                "seeds": sorted(int(each["seed"]) for each in own),
                "reached": bool(mean >= AIMS[name]),
            }
            for name in AIMS
            if (own := [each for each in done if each["set"] == name])
        ]
        write_result("bag_accuracy", {"folds": N_FOLDS, "rows": rows, "runs": done})
    print(RESULTS / "bag_accuracy.json")


if __name__ == "__main__":
    main()
