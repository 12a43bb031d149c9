"""Bags nobody tuned for: ours without a parameter beside baselines at their defaults.

    python benchmarks/unseen_bags.py [SEEDS] [SET ...]
    python benchmarks/unseen_bags.py table        (prints what docs/unseen.md shows)

Trials are kept in a log beside the result, so that a stopped run is resumed.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from _record import RESULTS, write_result
from scipy.stats import rankdata

from groupnoise.reproduce.unseen import UnseenResult, run_unseen
from groupnoise.reproduce.unseen_sets import read_unseen_sets

METHODS = ("max-matching", "milr", "mi-net", "attention-mil", "instance-lr")
FIGURES = (
    "instance AUROC",
    "instance average precision",
    "instance balanced accuracy",
    "instance accuracy",
    "bag AUROC",
    "bag accuracy",
)


def table(results: list[UnseenResult]) -> list[dict[str, object]]:
    """Return one row per set and method: means over the seeds, and processor seconds."""
    cells = defaultdict(list)
    for result in results:
        if not result.failed:
            cells[result.part, result.dataset, result.method].append(result)
    rows: list[dict[str, object]] = []
    for (part, dataset, method), found in sorted(cells.items()):
        row: dict[str, object] = {"part": part, "set": dataset, "method": method}
        row["seeds"] = sorted(each.seed for each in found)
        for figure in FIGURES:
            values = [each.metrics[figure] for each in found if figure in each.metrics]
            if values:
                row[figure] = round(float(np.mean(values)), 4)
        row["processor seconds"] = round(float(np.mean([r.processor_seconds for r in found])), 1)
        rows.append(row)
    return rows


def behind(rows: list[dict[str, object]], figure: str) -> dict[str, float]:
    """Return by how much ours is behind the best baseline on each set; negative is ahead."""
    result = {}
    for name in sorted({str(row["set"]) for row in rows}):
        values = {str(r["method"]): r[figure] for r in rows if r["set"] == name and figure in r}
        ours = values.pop("max-matching", None)
        if isinstance(ours, float) and values:
            result[name] = round(max(float(str(each)) for each in values.values()) - ours, 4)
    return result


def markdown() -> str:
    """Return the kept result as a table, sets where ours is furthest behind first."""
    kept = json.loads((RESULTS / "unseen_bags.json").read_text())
    rows = kept["rows"]
    sets = sorted({(row["part"], row["set"]) for row in rows})
    shown = {
        "instance AUROC": "instance AUROC",
        "instance average precision": "average precision",
        "instance balanced accuracy": "balanced accuracy",
        "bag AUROC": "bag AUROC",
        "bag accuracy": "bag accuracy",
    }
    lines = []
    for name, title in shown.items():
        lost = behind(rows, name)
        head = " | ".join(kept["methods"])
        lines += [f"**{title[0].upper()}{title[1:]}**", "", f"| | {head} | behind |"]
        lines.append("|---" * (len(kept["methods"]) + 2) + "|")
        for part, each in sorted(sets, key=lambda pair: -lost.get(pair[1], -9.0)):
            if each in lost:
                values = {r["method"]: r[name] for r in rows if r["set"] == each and name in r}
                best = max(values.values())
                cells = [
                    f"**{values[m]:.3f}**" if values[m] == best else f"{values[m]:.3f}"
                    for m in kept["methods"]
                ]
                gap = f"{lost[each]:.3f}" if lost[each] > 0 else ""
                lines.append(f"| {each} ({part}) | {' | '.join(cells)} | {gap} |")
        ranks = mean_ranks(rows, name, kept["methods"])
        lines += [f"| mean rank | {' | '.join(f'{rank:.2f}' for rank in ranks)} | |", ""]
    return "\n".join(lines)


def mean_ranks(rows: list[dict[str, object]], figure: str, methods: list[str]) -> list[float]:
    """Return the mean rank of each method over the sets that have a figure; 1 is best."""
    ranks = []
    for each in sorted({str(row["set"]) for row in rows}):
        values = {r["method"]: r[figure] for r in rows if r["set"] == each and figure in r}
        if len(values) == len(methods):
            ranks.append(rankdata([-float(str(values[method])) for method in methods]))
    return [float(rank) for rank in np.mean(ranks, axis=0)]


def main() -> None:
    """Run, and write the table after every set."""
    if sys.argv[1:] == ["table"]:
        print(markdown())
        return
    seeds = [int(each) for each in (sys.argv[1] if len(sys.argv) > 1 else "0").split(",")]
    named = sys.argv[2:]
    sets = [each for each in read_unseen_sets() if each.setting == "mil"]
    sets = [each for name in named for each in sets if each.name == name] or sets
    log = Path("runs") / "unseen_bags.jsonl"
    log.parent.mkdir(exist_ok=True)
    results: list[UnseenResult] = []
    missing: dict[str, str] = {}
    for each in sets:
        found, absent = run_unseen([each], seeds, methods=METHODS, n_jobs=1, log=log)
        results += found
        missing |= absent
        rows = table(results)
        figures = ("instance AUROC", "bag AUROC", "bag accuracy")
        payload = {
            "methods": METHODS,
            "rows": rows,
            "behind the best baseline": {name: behind(rows, name) for name in figures},
            "missing": missing,
        }
        print(json.dumps(rows[-len(METHODS) :], indent=1), flush=True)
        write_result("unseen_bags", payload)
    print(RESULTS / "unseen_bags.json")


if __name__ == "__main__":
    main()
