"""Bags that nobody tuned for: a default fit and baselines at their defaults.

    python benchmarks/unseen_bags.py [--seeds 0,1] [--methods ...] [--log FILE] [SET ...]

Trials are kept in the log, so that a stopped run is resumed, and in the result, where they replace
earlier ones of the same set, method and seed and stand beside all others.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from _record import RESULTS, recorded, write_result
from _unseen_tables import BAG_FIGURES, METHODS, behind

from groupnoise.reproduce.unseen import UnseenResult, run_unseen
from groupnoise.reproduce.unseen_sets import read_unseen_sets

FIGURES = tuple(BAG_FIGURES)


def trial_of(result: UnseenResult) -> dict[str, object]:
    """Return one trial as it is kept: its figures and processor seconds."""
    trial: dict[str, object] = {"part": result.part, "set": result.dataset}
    trial |= {"method": result.method, "seed": result.seed}
    trial |= {name: round(result.metrics[name], 4) for name in FIGURES if name in result.metrics}
    return {**trial, "processor seconds": round(result.processor_seconds, 1)}


def kept_trials() -> dict[tuple[str, str, int], dict[str, object]]:
    """Return the trials of the kept result by set, method and seed, in the part of the recipe."""
    parts = {each.name: each.part for each in read_unseen_sets()}
    return {
        (each["set"], each["method"], each["seed"]): {**each, "part": parts[each["set"]]}
        for each in recorded("unseen_bags", "trials")
    }


def table(trials: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """Return one row per set and method: means over the seeds."""
    cells = defaultdict(list)
    for trial in trials:
        cells[str(trial["part"]), str(trial["set"]), str(trial["method"])].append(trial)
    rows: list[dict[str, object]] = []
    for (part, dataset, method), found in sorted(cells.items()):
        row: dict[str, object] = {"part": part, "set": dataset, "method": method}
        row["seeds"] = sorted(int(str(each["seed"])) for each in found)
        for figure in (*FIGURES, "processor seconds"):
            values = [float(str(each[figure])) for each in found if figure in each]
            if values:
                row[figure] = round(float(np.mean(values)), 4)
        rows.append(row)
    return rows


def main() -> None:
    """Run, and write the table after every set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help="names of sets, by default all")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--methods", nargs="+", default=METHODS["mil"], choices=METHODS["mil"])
    parser.add_argument("--log", type=Path, default=Path("runs") / "unseen_bags.jsonl")
    options = parser.parse_args()
    seeds = [int(each) for each in options.seeds.split(",")]
    sets = [each for each in read_unseen_sets() if each.setting == "mil"]
    sets = [each for name in options.sets for each in sets if each.name == name] or sets
    options.log.parent.mkdir(exist_ok=True)
    missing: dict[str, str] = {}
    for each in sets:
        found, absent = run_unseen(
            [each], seeds, methods=options.methods, n_jobs=1, log=options.log
        )
        missing |= absent
        trials = kept_trials()
        for result in found:
            if not result.failed:
                trials[result.dataset, result.method, result.seed] = trial_of(result)
            print(json.dumps(trial_of(result)), result.failed or "", flush=True)
        rows = table(trials.values())
        figures = ("instance AUROC", "bag AUROC", "bag accuracy")
        payload = {
            "methods": METHODS["mil"],
            "rows": rows,
            "behind the best baseline": {name: behind(rows, name) for name in figures},
            "missing": missing,
            "trials": [trials[key] for key in sorted(trials)],
        }
        write_result("unseen_bags", payload)
    print(RESULTS / "unseen_bags.json")


if __name__ == "__main__":
    main()
