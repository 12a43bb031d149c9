"""What a plain fit reaches on data nobody tuned for, in a few lines for the README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

RESULTS = Path(__file__).parent / "results"
OURS = "max-matching"

Figures = dict[str, dict[str, float]]
"""From the set to the figure of each method; larger is better."""


def unseen_table(bags: dict[str, Any]) -> str:
    """One line per figure: the mean rank of ours, of the next method, and where ours is behind."""
    candidates = json.loads((RESULTS / "unseen_candidates.json").read_text(encoding="utf-8"))
    clicks = json.loads((RESULTS / "unseen_clicks.json").read_text(encoding="utf-8"))
    lines = [
        "| | sets | methods | mean rank of a plain fit | next | first or level | furthest behind |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ("instance AUROC", "bag AUROC", "bag accuracy"):
        lines.append(_line(f"bags: {name}", _of_bags(bags, name)))
    lines.append(_line("candidates: accuracy", _of_candidates(candidates)))
    lines.append(_line("clicks: NDCG@10, whole catalogue", _of_clicks(clicks)))
    return "\n".join(lines)


def _of_bags(result: dict[str, Any], figure: str) -> Figures:
    figures: Figures = {}
    for row in result["rows"]:
        if figure in row:
            figures.setdefault(row["set"], {})[row["method"]] = row[figure]
    return figures


def _of_candidates(result: dict[str, Any]) -> Figures:
    return {name: means for each in result["summaries"] for name, means in each["means"].items()}


def _of_clicks(result: dict[str, Any]) -> Figures:
    figures: Figures = {}
    for row in result["rows"]:
        figures.setdefault(row["log"], {})[row["method"]] = row["test"]["NDCG@10"]
    return figures


def _line(title: str, figures: Figures) -> str:
    """Rank the methods that were run on every set; compare ours with all that were run on each."""
    with_ours = {
        name: values for name, values in figures.items() if OURS in values and len(values) > 1
    }
    methods = sorted(set.intersection(*(set(values) for values in with_ours.values())))
    ranks = np.mean(
        [rankdata([-values[each] for each in methods]) for values in with_ours.values()], axis=0
    )
    of_method = dict(zip(methods, ranks, strict=True))
    ours = of_method.pop(OURS)
    runner_up = min(of_method, key=lambda each: of_method[each])
    behind = {
        name: max(value for method, value in values.items() if method != OURS) - values[OURS]
        for name, values in with_ours.items()
    }
    n_first = sum(gap <= 0 for gap in behind.values())
    worst = max(behind, key=lambda each: behind[each])
    lost = f"{worst}, {behind[worst]:.3f}" if behind[worst] > 0 else "nowhere"
    next_one = f"{of_method[runner_up]:.2f} ({runner_up})"
    won = f"{n_first} of {len(with_ours)}"
    cells = [title, len(with_ours), len(methods), f"**{ours:.2f}**", next_one, won, lost]
    return "| " + " | ".join(map(str, cells)) + " |"
