"""Search for better ranking in the whole catalogue, one change at a time.

    python benchmarks/recall_search.py                        # every change, on Beauty
    python benchmarks/recall_search.py --dataset amazon-toys-and-games-5core
    python benchmarks/recall_search.py --only "the same, batch 1024, recency 0.6" --test

Changes are compared on validation clicks; `--test` looks at the test clicks, for what was chosen
already. `--refit` then trains once more with the validation clicks included. Rows are added to
`benchmarks/results/recall_search.json`, so that a long search may be run in parts.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from _record import recorded, replace_row, write_result

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.clicks import split_clicks
from groupnoise.clicks.windows.cutting import take_windows
from groupnoise.io import ClickDataset, load_dataset
from groupnoise.io.datasets import Windows, WindowSplit
from groupnoise.reproduce.trials import window_metrics

NAME = "recall_search"
VALIDATION_WINDOWS = 30_000
PROTOCOLS = ("sampled", "full")

SPECTRAL: dict[str, Any] = {"init": "spectral", "weight_decay": 0.3}
MANY: dict[str, Any] = {**SPECTRAL, "n_negatives": 4096, "batch_size": 1024, "learning_rate": 1e-2}
CHANGES: dict[str, dict[str, Any]] = {
    "random start, 256 negatives": {"n_negatives": 256},
    "random start, 1024 negatives": {"n_negatives": 1024},
    "random start, 4096 negatives": {"n_negatives": 4096},
    "spectral start, 256 negatives": {**SPECTRAL, "n_negatives": 256},
    "spectral start, 1024 negatives": {**SPECTRAL, "n_negatives": 1024},
    "spectral start, 4096 negatives": {**SPECTRAL, "n_negatives": 4096},
    "the same, batch 1024, recency 0.6": {**MANY, "recency": 0.6},
    "the same, two members, both starts": {
        **MANY,
        "recency": 0.6,
        "n_members": 2,
        "init": ["spectral", "random"],
    },
    "1024 negatives, no weighting": {
        **SPECTRAL,
        "n_negatives": 1024,
        "weighting_strength": 0.0,
    },
    "1024 negatives, 256 dimensions": {**SPECTRAL, "n_negatives": 1024, "dim": 256},
    "1024 negatives, 64 dimensions": {**SPECTRAL, "n_negatives": 1024, "dim": 64},
    "1024 negatives, windows of 10": {**SPECTRAL, "n_negatives": 1024, "window_size": 10},
}


def main() -> None:
    """Run the given changes and record their metrics."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(CHANGES), choices=list(CHANGES))
    parser.add_argument("--dataset", default="amazon-beauty-5core")
    parser.add_argument("--protocol", default="leave_one_out")
    parser.add_argument("--seeds", default="0:1", help="FIRST:LAST, the last left out")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--refit", action="store_true")
    options = parser.parse_args()
    clicks = load_dataset(options.dataset)
    assert isinstance(clicks, ClickDataset)
    first, last = (int(part) for part in options.seeds.split(":"))
    for name in options.only:
        for seed in range(first, last):
            row = {"dataset": options.dataset, "protocol": options.protocol, "change": name}
            row |= measure(clicks, options, CHANGES[name], seed)
            print(json.dumps(row), flush=True)
            keep(row)


def measure(
    clicks: ClickDataset, options: argparse.Namespace, settings: dict[str, Any], seed: int
) -> dict[str, Any]:
    """Fit one setting under one seed and return its figures."""
    model = MaxMatchingRecommender(**settings, random_state=seed)
    split = split_clicks(
        clicks.histories,
        protocol=options.protocol,
        size=model.window_size,
        min_size=1,
        random_state=seed,
    )
    started = time.process_time()
    model.fit(split.train.groups, item_ids=clicks.item_ids)
    seconds = round(time.process_time() - started, 1)
    row = {"settings": settings, "seed": seed, "fit_seconds": seconds}
    row["validation"] = figures(model, clicks, some_windows(split.validation, seed), seed)
    if options.test:
        row["test"] = figures(model, clicks, split.test, seed)
    if options.refit:
        model.fit(with_validation(split), item_ids=clicks.item_ids)
        row["test, validation clicks included"] = figures(model, clicks, split.test, seed)
    return row


def some_windows(windows: Windows, seed: int) -> Windows:
    """Return at most VALIDATION_WINDOWS of them, drawn by the seed."""
    n_rows = len(windows.users)
    return take_windows(
        windows, np.random.default_rng(seed).permutation(n_rows)[:VALIDATION_WINDOWS]
    )


def with_validation(split: WindowSplit) -> Groups:
    """Return the training windows and those of validation: all that comes before the test."""
    return Groups.concat([split.train.groups, split.validation.groups])


def figures(
    model: MaxMatchingRecommender, clicks: ClickDataset, windows: Windows, seed: int
) -> dict[str, float]:
    """Return HIT@10 and NDCG@10 among 100 negatives and over the catalogue."""
    result = {}
    for protocol in PROTOCOLS:
        hit, ndcg = window_metrics(model, clicks, windows, protocol, seed)
        result |= {f"{protocol} HIT@10": round(hit, 4), f"{protocol} NDCG@10": round(ndcg, 4)}
    return result


def keep(row: dict[str, Any]) -> None:
    """Add a row to the result file, in place of an earlier one of the same trial."""
    rows = replace_row(recorded(NAME), row, ("dataset", "protocol", "change", "settings", "seed"))
    write_result(NAME, {"validation_windows": VALIDATION_WINDOWS, "rows": rows})


if __name__ == "__main__":
    main()
