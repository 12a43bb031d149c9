"""Write the tables of the README from the result files, or check that they are not stale.

python benchmarks/readme_tables.py            # write them
python benchmarks/readme_tables.py --check    # exit code 1 if they differ
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

SETTINGS = {"mil": "bags of digits", "pll": "digits with candidates", "rs": "simulated shop"}
METHODS = {
    "pairwise": "Pairwise",
    "matching": "Matching",
    "maximizing": "Maximizing",
    "max_matching_paper": "Max-Matching, hard max",
    "max_matching": "**Max-Matching**",
    "supervised": "supervised (upper bound)",
}


def demo_table(result: dict[str, Any]) -> str:
    """One line per method, one column per setting and metric, and the seeds below."""
    rows = result["demo"]["rows"]
    columns = list(dict.fromkeys((row["setting"], row["metric"]) for row in rows))
    cells = {
        (row["setting"], row["metric"], row["method"]): f"{row['mean']:.3f} ± {row['std']:.3f}"
        for row in rows
    }
    lines = [
        "| | " + " | ".join(f"{SETTINGS[setting]}: {metric}" for setting, metric in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for method, name in METHODS.items():
        values = [cells.get((*column, method), "") for column in columns]
        lines.append(f"| {name} | " + " | ".join(values) + " |")
    seeds = ", ".join(map(str, result["seeds"]["demo"]))
    lines += ["", f"Mean and deviation over seeds {seeds}; `{result['command']}`."]
    return "\n".join(lines)


def reproduction_table(result: dict[str, Any]) -> str:
    """One line per data set and method, with mean, deviation and number of trials."""
    rows = [row for row in result["rows"] if row["metric"] != "chosen right"]
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    lines = [
        "| data | method | " + " | ".join(metrics) + " | trials |",
        "|---|---|" + "---|" * (len(metrics) + 1),
    ]
    for dataset, method in dict.fromkeys((row["dataset"], row["method"]) for row in rows):
        found = {
            row["metric"]: row
            for row in rows
            if (row["dataset"], row["method"]) == (dataset, method)
        }
        cells = [f"{found[m]['mean']:.3f} ± {found[m]['std']:.3f}" for m in metrics]
        trials = found[metrics[0]]["trials"]
        name = f"**{method}**" if method == "ours" else method
        lines.append(f"| {dataset} | {name} | " + " | ".join(cells) + f" | {trials} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[dict[str, Any]], str]] = {
    "demo": demo_table,
    "reproduce_amazon": reproduction_table,
    "reproduce_pll": reproduction_table,
}


def with_tables(text: str) -> str:
    """Return a page with every marked table made anew from its result file."""

    def fill(match: re.Match[str]) -> str:
        start, name, end = match.groups()
        result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        return f"{start}{TABLES[name](result)}\n{end}"

    return BLOCK.sub(fill, text)


def main() -> int:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    fresh = with_tables(text)
    if "--check" in sys.argv:
        if fresh != text:
            print("README.md is stale: run `python benchmarks/readme_tables.py`.")
        return int(fresh != text)
    readme.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
