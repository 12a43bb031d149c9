"""Letters of Letter-Frost by ten folds of its bags: a plain fit, novel letters as background.

    python benchmarks/letter_frost.py [SEEDS] [--blocks]

Bags are dealt out at random under every seed. With `--blocks` folds are those of the published
code (`MIMLNC.m` of spi12der/MIML): ten blocks of bags as they stand in the file, the first of
15 bags and the others of 14; a seed is then one of the model alone. A letter is answered by its
likeliest class, or as novel where the background is likelier; no bag says which letters are novel.
What is done already is kept in a log beside the result, so that a stopped run is resumed.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _record import RESULTS, run_missing, write_result

from groupnoise import MaxMatchingMILClassifier
from groupnoise.io import load_dataset

N_FOLDS = 10
RUNS = Path("runs")
PUBLISHED = {"linear, ten-fold, about": 0.64}


def one_fold(seed: int, fold: int, blocks: bool) -> dict[str, object]:
    """Return how many letters of a fold are answered right, all of them and the known ones."""
    data = load_dataset("letter-frost")
    folds = np.arange(len(data.bags)) % N_FOLDS
    folds = np.sort(folds) if blocks else np.random.default_rng(seed).permutation(folds)
    seen, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
    names = [[data.class_names[each] for each in np.flatnonzero(data.labels[bag])] for bag in seen]
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MaxMatchingMILClassifier(random_state=seed).fit(data.bags.subset(seen), names)
    seconds = time.process_time() - started
    rows = data.bags.subset(held).objects
    truth = data.instance_labels[np.isin(data.bags.group_of_object, held)]
    outside = model.background_proba(rows)
    proba = model.predict_proba(rows) * (1.0 - outside)[:, None]
    columns = np.array([data.class_names.index(each) for each in model.classes_])
    best = columns[proba.argmax(axis=1)]
    answer = np.where(outside > proba.max(axis=1), -1, best)
    known = truth >= 0
    return {
        "seed": seed,
        "fold": fold,
        "letters": len(truth),
        "right": int((answer == truth).sum()),
        "known": int(known.sum()),
        "right among known": int((best == truth)[known].sum()),
        "novel found": int((answer < 0)[~known].sum()),
        "processor seconds": round(seconds, 1),
    }


def main() -> None:
    """Run missing folds, and write the table."""
    given = [each for each in sys.argv[1:] if each != "--blocks"]
    blocks = "--blocks" in sys.argv
    name = "letter_frost_blocks" if blocks else "letter_frost"
    seeds = [int(each) for each in (given or ["0"])[0].split(",")]
    places = ({"seed": seed, "fold": fold} for seed in seeds for fold in range(N_FOLDS))
    done: list[dict[str, Any]] = []
    log = RUNS / f"{name}.jsonl"
    for run, finished in run_missing(log, places, partial(one_fold, blocks=blocks)):
        print(json.dumps(run), flush=True)
        done = finished
    total = {
        count: sum(int(each[count]) for each in done)
        for count in ("letters", "right", "known", "right among known", "novel found")
    }
    payload = {
        "folds": N_FOLDS,
        "seeds": sorted({int(each["seed"]) for each in done}),
        "accuracy": round(total["right"] / total["letters"], 4),
        "mean accuracy of folds": round(
            float(np.mean([int(each["right"]) / int(each["letters"]) for each in done])), 4
        ),
        "accuracy among known letters": round(total["right among known"] / total["known"], 4),
        "novel letters found": round(total["novel found"] / (total["letters"] - total["known"]), 4),
        "published": PUBLISHED,
        "runs": done,
    }
    write_result(name, payload)
    print(json.dumps({key: payload[key] for key in list(payload)[2:6]}))
    print(RESULTS / f"{name}.json")


if __name__ == "__main__":
    main()
