"""Confidence intervals over users of the leads on click logs.

    python benchmarks/click_chance.py --data DIRECTORY

Figures are those of `reproduce_amazon.json`, of `ours` and of the best baseline of every log. Every
user has one test window, so a share of hits has a binomial error; hits of both methods are taken to
be independent, although both find the easy targets, so that intervals are too wide rather than too
narrow. Trials of the file differ by initial weights and negatives alone and say nothing of users.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from _record import RESULTS, write_result

from groupnoise.clicks import split_clicks
from groupnoise.io import load_dataset

SOURCE = "reproduce_amazon"
METRIC = "HIT@10"
OTHERS = ("ours", "ours-mm", "paper", "paper-mm")
SIZE = 5


def chance(name: str, rows: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Return the lead on one log with an interval of 95 percent over its users."""
    hits = {row["method"]: row["mean"] for row in rows if row["metric"] == METRIC}
    baseline = max((each for each in hits if each not in OTHERS), key=lambda each: hits[each])
    histories = load_dataset(name, data_dir=folder).histories
    users = len(split_clicks(histories, "authors", size=SIZE, min_size=1).test.users)
    both = [hits["ours"], hits[baseline]]
    reach = 1.96 * float(np.sqrt(sum(hit * (1 - hit) for hit in both) / users))
    lead = hits["ours"] - hits[baseline]
    return {
        "set": name,
        "users": users,
        "ours": hits["ours"],
        "baseline": baseline,
        "its figure": hits[baseline],
        "lead": lead,
        "low": lead - reach,
        "high": lead + reach,
    }


def main() -> None:
    """Write the result file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    kept = json.loads((RESULTS / f"{SOURCE}.json").read_text(encoding="utf-8"))["rows"]
    names = [name for name in dict.fromkeys(row["dataset"] for row in kept) if name[:6] == "amazon"]
    rows = [chance(name, [r for r in kept if r["dataset"] == name], folder) for name in names]
    print(write_result("click_chance", {"metric": METRIC, "from": f"{SOURCE}.json", "rows": rows}))


if __name__ == "__main__":
    main()
