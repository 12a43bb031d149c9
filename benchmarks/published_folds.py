"""Candidate labels by the folds of others: stratified five-fold, seed 42, features from 0 to 1.

    python benchmarks/published_folds.py recipe|plain [SET ...]

The protocol of VI-PLL (Fuchs and Klein, 2026): `StratifiedKFold(5, shuffle=True,
random_state=42)` by true label, minimum and maximum learned from the training rows. "recipe" is
`ours` of `reproduce pll` with its grid set to one value, "plain" a fit without a parameter. No true
label is seen. The accuracy on training rows is that of `disambiguate`. What is done is kept in a
log, so that a stopped run is resumed.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from _record import RESULTS, write_result
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import MinMaxScaler

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.core.metrics import accuracy
from groupnoise.io import load_dataset

LOG = Path("runs/published_folds.jsonl")
N_FOLDS = 5
RECIPE: dict[str, Any] = {
    "encoder": "mlp",
    "hidden": (300,),
    "dropout": 0.5,
    "normalize": "both",
    "selection": "tempered",
    "temperature": (1.0, 0.3),
    "weighting_strength": 0.0,
    "scaling": "power",
    "n_members": 4,
}
OF_SETS: dict[str, dict[str, Any]] = {
    "lost": {"max_epochs": 60},
    "msrcv2": {"max_epochs": 40, "batch_size": 128},
    "birdsong": {"max_epochs": 40, "batch_size": 128, "temperature": (3.0, 0.3)},
}
PUBLISHED: dict[str, dict[str, float]] = {
    "lost": {"VI-PLL": 0.785, "PRODEN": 0.734, "CroSel": 0.729, "training rows: VI-PLL": 0.925},
    "msrcv2": {"VI-PLL": 0.602, "PRODEN": 0.552, "PiCO": 0.568, "training rows: PiCO": 0.757},
    "birdsong": {"VI-PLL": 0.762, "PRODEN": 0.712, "PiCO": 0.728, "training rows: PiCO": 0.881},
}
SOURCE = "computed from the result files of github.com/mathefuchs/vi-pll"


def run_fold(name: str, method: str, fold: int) -> dict[str, Any]:
    """Fit on four fifths of a set and return the accuracies on both parts."""
    data = load_dataset(name)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=42)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some classes have fewer rows than there are folds
        train, test = list(folds.split(data.features, data.truth))[fold]
        scaler = MinMaxScaler().fit(data.features[train])
        rows = scaler.transform(data.features).astype(np.float32)
        candidates = data.candidates.astype(np.int64)
        started = time.process_time()
        settings = {**RECIPE, **OF_SETS[name]}
        if method == "recipe":
            model = MaxMatchingPartialLabelClassifier.fixed(**settings, random_state=fold)
        else:
            model = MaxMatchingPartialLabelClassifier(random_state=fold)
        model.fit(rows[train], candidates[train])
        chosen = model.disambiguate(rows[train], candidates[train])
    return {
        "set": name,
        "method": method,
        "fold": fold,
        "accuracy": round(accuracy(data.truth[test], model.predict(rows[test])), 6),
        "training rows": round(accuracy(data.truth[train], chosen), 6),
        "seconds": round(time.process_time() - started, 1),
    }


def read_log() -> list[dict[str, Any]]:
    """Return what is done: the trials of the result file, and those of the log."""
    path = RESULTS / "published_folds.json"
    kept = json.loads(path.read_text(encoding="utf-8"))["trials"] if path.is_file() else []
    lines = LOG.read_text(encoding="utf-8").splitlines() if LOG.is_file() else []
    trials = [*kept, *map(json.loads, lines)]
    newest = {(each["set"], each["method"], each["fold"]): each for each in trials}
    return list(newest.values())


def main() -> None:
    """Run what is missing, and write the table."""
    method, *names = sys.argv[1:]
    LOG.parent.mkdir(exist_ok=True)
    for name in names or OF_SETS:
        for fold in range(N_FOLDS):
            if any((r["set"], r["method"], r["fold"]) == (name, method, fold) for r in read_log()):
                continue
            with LOG.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(run_fold(name, method, fold)) + "\n")
    trials, rows = read_log(), []
    for name in OF_SETS:
        for each in ("recipe", "plain"):
            own = [trial for trial in trials if (trial["set"], trial["method"]) == (name, each)]
            if own:
                rows.append(
                    {
                        "set": name,
                        "method": each,
                        "folds": len(own),
                        "accuracy": float(np.mean([trial["accuracy"] for trial in own])),
                        "std": float(np.std([trial["accuracy"] for trial in own], ddof=1)),
                        "training rows": float(np.mean([trial["training rows"] for trial in own])),
                        "seconds of a fit": float(np.mean([trial["seconds"] for trial in own])),
                    }
                )
    payload = {
        "protocol": "StratifiedKFold(5, shuffle=True, random_state=42), min-max on training rows",
        "recipe": RECIPE,
        "recipe_of_sets": OF_SETS,
        "published": PUBLISHED,
        "published_source": SOURCE,
        "rows": rows,
        "trials": trials,
    }
    write_result("published_folds", payload)


if __name__ == "__main__":
    main()
