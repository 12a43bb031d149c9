"""Time and peak memory of an audit of a million groups, read from data folders block by block.

Bags lie in a mapped folder and are judged by a model fitted on a small part of them; a click log
gives a window per click. The audit runs in a process of its own, so that its peak memory is its
own; what the libraries, the model and the checks of the data take before it is given beside it.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _processes import PEAK_MB, run_python
from _record import write_result

from groupnoise import Groups, MaxMatchingMILClassifier, MaxMatchingRecommender
from groupnoise.bags import load_digit_bags
from groupnoise.clicks import make_shop
from groupnoise.io import BagDataset, write_groups

N_FITTED = 500
"""Bags and histories fitted on; how good the model is does not matter here."""
MEASURED_RUN = """
import json, sys, time
from groupnoise import load_model
from groupnoise import find_group_issues
from groupnoise.io import open_groups

data, model, output = open_groups(sys.argv[1]), load_model(sys.argv[2]), sys.argv[3]
loaded = peak_mb()
started = time.perf_counter()
issues = find_group_issues(model, data)
judged = time.perf_counter() - started
issues.write(f"{output}/groups.parquet")
issues.write(f"{output}/objects.parquet", "objects")
written = time.perf_counter() - started - judged
peak = peak_mb()
print(json.dumps({
    "groups": len(issues), "objects": len(issues.objects["noise"]),
    "judging_seconds": round(judged, 1), "writing_seconds": round(written, 1),
    "memory_before_mb": loaded, "peak_memory_mb": peak,
    "tables_mb": sum(c.nbytes for t in (issues.groups, issues.objects) for c in t.values()) >> 20,
}))
"""


def bags(folder: Path, n_groups: int) -> Any:
    """Write bags of five digits, drawn again and again, and return a fitted model."""
    few = load_digit_bags(N_FITTED, size=(5, 5), random_state=0)
    in_bytes = np.rint(few.bags.objects * 255).astype(np.uint8)  # a million groups are 320 MB
    digits = Groups(in_bytes, few.bags.offsets)
    model = MaxMatchingMILClassifier(background=True, absent_strength=1.0, random_state=0)
    model.fit(digits, few.labels.astype(np.int64))
    rows = np.random.default_rng(0).integers(N_FITTED, size=n_groups)
    data = BagDataset("many bags", digits.subset(rows), few.labels[rows], few.class_names)
    write_groups(folder, data)
    return model


def clicks(folder: Path, n_groups: int) -> Any:
    """Write histories of twenty-one clicks, and return a recommender fitted on some of them."""
    n_users = n_groups // 20
    log = make_shop(n_users, 400, length=(21, 21), random_state=0)
    model = MaxMatchingRecommender(max_epochs=1, random_state=0)
    model.fit(log.histories[: min(n_users, N_FITTED)], item_ids=log.item_ids)
    write_groups(folder, log)
    return model


TASKS = {"bags": bags, "clicks": clicks}


def measure(task: str, n_groups: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        data, model, output = (Path(folder) / name for name in ("data", "model", "tables"))
        TASKS[task](data, n_groups).save(model)
        measured = json.loads(run_python(PEAK_MB + MEASURED_RUN, data, model, output))
        size = sum(path.stat().st_size for path in data.iterdir()) >> 20
    return {**measured, "data_mb": size}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--keep", action="store_true", help="write the result files")
    options = parser.parse_args()
    for task in options.tasks:
        figures = []
        for n_groups in options.groups:
            figures.append(measure(task, n_groups))
            print(task, figures[-1], flush=True)
        if options.keep:
            payload = {"config": {"n_fitted": N_FITTED}, "figures": figures}
            write_result(f"audit_scale_{task}", payload)


if __name__ == "__main__":
    main()
