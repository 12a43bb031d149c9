"""How time and memory grow with the length of a click log, beside a bare sort and group-by.

Each figure is that of a fresh process: `ours` turns the log into sliding windows on disk
(`convert_clicks`, then `write_windows`); `bare` lets polars sort the same file by user and time
and group it by user, in memory, and keeps nothing.

    python benchmarks/data_size.py                      # 1 to 20 million clicks, CSV and Parquet
    python benchmarks/data_size.py --millions 1 2       # a quick look
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _record import write_result

from groupnoise.clicks import convert_clicks, write_windows

CLICKS_PER_USER = 10
CLICKS_PER_ITEM = 40
SEED = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--millions", type=float, nargs="+", default=[1, 2, 5, 10, 20])
    parser.add_argument("--formats", nargs="+", default=["csv", "parquet"])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--measure", nargs=2, metavar=("WHAT", "LOG"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure_here(*arguments.measure)
        return
    rows = []
    for millions in arguments.millions:
        with tempfile.TemporaryDirectory() as folder:
            log = generate_log(int(millions * 1e6))
            for suffix in arguments.formats:
                path = Path(folder) / f"log.{suffix}"
                log.write_csv(path) if suffix == "csv" else log.write_parquet(path)
            for suffix in arguments.formats:
                rows.append(compare(Path(folder) / f"log.{suffix}", arguments.repeats))
                print(json.dumps(rows[-1]))
    name = "data_size" if 20 in arguments.millions else "data_size_small"
    write_result(name, {"seed": SEED, "rows": rows}, packages=("polars", "pyarrow"))


def generate_log(n_clicks: int) -> pl.DataFrame:
    """Return a log in random order; how often users and items occur follows Zipf's law."""
    generator = np.random.default_rng(SEED)
    return pl.DataFrame(
        {
            "user": draw_zipf(n_clicks, n_clicks // CLICKS_PER_USER, 0.5, generator),
            "item": draw_zipf(n_clicks, n_clicks // CLICKS_PER_ITEM, 1.0, generator),
            "time": generator.integers(1_400_000_000, 1_600_000_000, n_clicks),
        }
    )


def draw_zipf(
    n_draws: int, n_values: int, exponent: float, generator: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return draws in which every value occurs, the r-th most frequent about r ** -exponent."""
    cumulated = np.cumsum(np.arange(1, n_values + 1) ** -exponent)
    places = np.searchsorted(cumulated, generator.random(n_draws - n_values) * cumulated[-1])
    names = generator.permutation(n_values)
    return generator.permutation(np.concatenate([names, names[places]]))


def compare(log: Path, repeats: int) -> dict[str, Any]:
    """Measure both in turns, and keep the quickest of each."""
    runs: dict[str, list[dict[str, Any]]] = {"bare": [], "ours": []}
    for _ in range(repeats):
        for what, results in runs.items():
            results.append(measure_apart(what, log))
    best = {what: min(results, key=lambda run: run["seconds"]) for what, results in runs.items()}
    return {
        "clicks": best["ours"]["clicks"],
        "format": log.suffix[1:],
        **best,
        "time_ratio": round(best["ours"]["seconds"] / best["bare"]["seconds"], 2),
        "cpu_ratio": round(best["ours"]["cpu_seconds"] / best["bare"]["cpu_seconds"], 2),
    }


def measure_apart(what: str, log: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", what, str(log)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    result: dict[str, Any] = json.loads(answer)
    return result


def measure_here(what: str, log: str) -> None:
    """Do the work and print its figures; the process was started for nothing else."""
    begin = time.perf_counter()
    counts = {"bare": sort_and_group, "ours": make_windows}[what](Path(log))
    seconds = time.perf_counter() - begin
    usage = resource.getrusage(resource.RUSAGE_SELF)
    figures = {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_resident_gb": round(usage.ru_maxrss / 1e6, 3),
    }
    print(json.dumps({**figures, **counts}))


def sort_and_group(log: Path) -> dict[str, int]:
    scan = pl.scan_csv(log) if log.suffix == ".csv" else pl.scan_parquet(log)
    histories = scan.sort("user", "time").group_by("user", maintain_order=True).agg("item")
    return {"users": histories.collect().height}


def make_windows(log: Path) -> dict[str, int]:
    with tempfile.TemporaryDirectory(dir=log.parent) as folder:
        clicks = convert_clicks(log, Path(folder) / "clicks")
        windows = write_windows(Path(folder) / "windows", clicks.histories)
        return {
            "clicks": clicks.histories.n_objects,
            "users": len(clicks.histories),
            "items": clicks.n_items,
            "windows": len(windows.groups),
        }


if __name__ == "__main__":
    main()
