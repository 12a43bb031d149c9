"""Candidate labels by stratified ten-fold cross-validation: a default fit.

    python benchmarks/ten_folds.py [SET ...]

`StratifiedKFold(10, shuffle=True, random_state=0)` by true label, features as they come; no true
label is seen. Figures in print name no seed, so that the folds are not the same.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
from _record import write_result
from sklearn.model_selection import StratifiedKFold

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.core.metrics import accuracy
from groupnoise.io import load_dataset
from groupnoise.reproduce.provenance import provenance

N_FOLDS = 10
SETS = ("lost", "msrcv2", "birdsong")
PUBLISHED = {
    "PL-LCSA": {"lost": 0.789, "msrcv2": 0.562, "birdsong": 0.756},
    "SDIM": {"lost": 0.797, "msrcv2": 0.500, "birdsong": 0.734},
    "PL-AGGD": {"lost": 0.744, "msrcv2": 0.509, "birdsong": 0.734},
    "PL-ECOC": {"lost": 0.706, "msrcv2": 0.427, "birdsong": 0.751},
    "IPAL": {"lost": 0.645, "msrcv2": 0.531, "birdsong": 0.712},
    "PL-kNN": {"lost": 0.459, "msrcv2": 0.418, "birdsong": 0.603},
}
SOURCE = "PL-LCSA (JSEE 2022, doi 10.23919/JSEE.2022.000102), Table 3; its text names no protocol"


def run_fold(name: str, fold: int) -> dict[str, Any]:
    """Fit on nine tenths of a set and return the accuracy on the rest."""
    data = load_dataset(name)
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some classes have fewer rows than there are folds
        train, test = list(folds.split(data.features, data.truth))[fold]
        started = time.process_time()
        model = MaxMatchingPartialLabelClassifier(random_state=fold)
        model.fit(data.features[train], data.candidates[train].astype(np.int64))
    found = accuracy(data.truth[test], model.predict(data.features[test]))
    seconds = round(time.process_time() - started, 1)
    row = {"set": name, "fold": fold, "accuracy": round(found, 6), "seconds": seconds}
    print(row, flush=True)
    return {**row, **provenance("pll")}


def main() -> None:
    """Run all folds of the given sets, and write the results beside published ones."""
    rows, trials = [], []
    for name in sys.argv[1:] or SETS:
        trials += (own := [run_fold(name, fold) for fold in range(N_FOLDS)])
        figures = [each["accuracy"] for each in own]
        rows.append(
            {
                "set": name,
                "accuracy": float(np.mean(figures)),
                "std": float(np.std(figures, ddof=1)),
                "seconds of a fit": float(np.mean([each["seconds"] for each in own])),
            }
        )
    payload = {"published": PUBLISHED, "published_source": SOURCE, "rows": rows, "trials": trials}
    write_result("ten_folds", payload)


if __name__ == "__main__":
    main()
