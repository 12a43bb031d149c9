"""Batch recall against a bare matrix product with a partial sort, and the time to open a million.

    python benchmarks/serving_batch.py
    python benchmarks/serving_batch.py --histories 1000000 --rounds 1 --methods mm \
        --name serving_batch_million

The bare run scores the same queries in blocks with `@` and `np.argpartition`, and neither reads nor
writes a file. The share of it that batch recall reaches is taken in processor time, so that other
work on the machine does not count; the rate is on the clock, one block per core at a time.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from _record import write_result
from pyarrow import parquet

from groupnoise.recall import RecallOptions, open_artifact, recall_file
from groupnoise.recall.artifact import write_artifact

N_ITEMS, DIMENSION, TOP, CLICKS = 100_000, 64, 100, 5
BARE_BLOCK = 256
MAX_BARE = 8192
SEED = 0
SCOPES = {"mm": "last", "mm+": "group"}


def write_catalogue(folder: Path, n_items: int) -> Any:
    generator = np.random.default_rng(SEED)
    table = 0.3 * generator.standard_normal((n_items, DIMENSION), dtype=np.float32)
    write_vectors(folder, table)
    return table


def write_vectors(folder: Path, table: Any, **more: Any) -> None:
    """Write an artifact whose items have one vector each."""
    n_items = len(table)
    write_artifact(
        folder,
        ids=np.arange(n_items),
        query_vectors=table,
        target_vectors=table,
        target_bias=None,
        popularity=np.arange(n_items),
        titles=[f"item number {number}" for number in range(n_items)],
        log_normalizer=np.zeros(n_items),
        **more,
    )


def write_histories(path: Path, n_histories: int) -> Any:
    clicks = np.random.default_rng(SEED + 1).integers(0, N_ITEMS, (n_histories, CLICKS))
    offsets = pyarrow.array(np.arange(0, clicks.size + 1, CLICKS, dtype=np.int32))
    lists = pyarrow.ListArray.from_arrays(offsets, pyarrow.array(clicks.ravel()))
    table = pyarrow.table({"user": pyarrow.array(np.arange(n_histories)), "items": lists})
    parquet.write_table(table, path)
    return clicks


def bare_seconds(table: Any, queries: Any, n_sorted: int) -> float:
    """Time products of `queries` in blocks, and partial sorts of one row in `n_sorted`."""
    started = time.process_time()
    for begin in range(0, len(queries), BARE_BLOCK):
        scores = table[queries[begin : begin + BARE_BLOCK]] @ table.T
        np.argpartition(scores[::n_sorted], N_ITEMS - TOP, axis=1)
    return time.process_time() - started


def batch_rates(folder: Path, n_histories: int, methods: list[str], rounds: int) -> dict[str, Any]:
    table = write_catalogue(folder / "artifact", N_ITEMS)
    clicks = write_histories(folder / "histories.parquet", n_histories)
    model = open_artifact(folder / "artifact")
    n_bare = min(max(BARE_BLOCK, n_histories // 4), MAX_BARE)  # its rate does not change after
    results = {}
    for method in methods:
        clocked, ours, bare = [], [], []
        for _ in range(rounds):
            options = RecallOptions(top=TOP, scope=SCOPES[method])
            started = time.process_time()
            done = recall_file(model, folder / "histories.parquet", folder / "out.parquet", options)
            ours.append(n_histories / (time.process_time() - started))
            clocked.append(n_histories / done.seconds)
            if method == "mm":
                bare.append(n_bare / bare_seconds(table, clicks[:n_bare, -1], 1))
            else:  # the same products: one row per click, one sort per history
                n_fewer = max(BARE_BLOCK, n_bare // CLICKS)
                bare.append(n_fewer / bare_seconds(table, clicks[:n_fewer].ravel(), CLICKS))
        results[method] = {
            "histories_per_second": round(float(np.median(clocked))),
            "histories_per_processor_second": round(float(np.median(ours))),
            "bare_product_and_partial_sort_per_processor_second": round(float(np.median(bare))),
            "share_of_bare": round(float(np.median(np.array(ours) / np.array(bare))), 2),
        }
    return results


def opening_seconds(folder: Path, n_items: int) -> dict[str, float]:
    """Time opening a large artifact: mapped, and read with every byte checked."""
    write_catalogue(folder, n_items)
    seconds = {}
    for name, memory_map in (("mapped", True), ("read_and_verified", False)):
        started = time.perf_counter()
        model = open_artifact(folder, memory_map=memory_map)
        assert model.items.positions_of([n_items - 1])[0] == n_items - 1
        seconds[name] = round(time.perf_counter() - started, 3)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=20_000)
    parser.add_argument("--methods", nargs="+", choices=("mm", "mm+"), default=["mm", "mm+"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--name", default="serving_batch", help="Name of the result file.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rates = batch_rates(Path(folder), arguments.histories, arguments.methods, arguments.rounds)
        opening = opening_seconds(Path(folder) / "million", 1_000_000)
    payload = {
        "configuration": {
            "items": N_ITEMS,
            "dimension": DIMENSION,
            "top": TOP,
            "clicks_per_history": CLICKS,
            "histories": arguments.histories,
            "threads": os.cpu_count(),
            "rounds": arguments.rounds,
            "seed": SEED,
            "load_average": os.getloadavg()[0],
        },
        "batch_recall": rates,
        "opening_a_million_items_seconds": opening,
        "peak_memory_megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(write_result(arguments.name, payload, packages=("pyarrow",)))


if __name__ == "__main__":
    main()
