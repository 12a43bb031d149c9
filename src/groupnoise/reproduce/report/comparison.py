"""The page of a comparison: one interval per method, and the figures beside it."""

from __future__ import annotations

import math
from typing import Any

from groupnoise.pages.charts import Scale, Tick, round_values
from groupnoise.pages.render import render_page
from groupnoise.reproduce.compare import ComparisonOfMethods

WIDTH, LEFT, ROW = 640, 150, 26


def comparison_page(result: ComparisonOfMethods, command: str) -> str:
    """Return the page as text.

    `command`: what fits the winner.
    """
    ranked = [each for each in result.methods if each.failed is None]
    intervals = [result.interval(each) for each in ranked]
    ends = [
        end for each in intervals for end in (each.low, each.mean, each.high) if not math.isnan(end)
    ]
    scale = Scale(min(ends), max(ends), LEFT, WIDTH - 20)
    rows: list[dict[str, Any]] = []
    for number, (method, interval) in enumerate(zip(ranked, intervals, strict=True)):
        behind = result.behind(method)
        rows.append(
            {
                "name": method.name,
                "y": ROW * number + ROW // 2,
                "x": scale(interval.mean),
                "low": None if math.isnan(interval.low) else scale(interval.low),
                "high": None if math.isnan(interval.high) else scale(interval.high),
                "interval": interval,
                "behind": behind,
                "has_interval": not math.isnan(interval.low),
                "is_best": method is result.winner,
                "is_level": result.is_level(method),
                "seconds": method.seconds,
                "trials": [scale(value) for value in method.values(result.metric)],
            }
        )
    return render_page(
        "comparison.html",
        package="groupnoise.reproduce.report",
        result=result,
        heading=result.heading("groups"),
        rows=rows,
        failed=[each for each in result.methods if each.failed is not None],
        ticks=[Tick(scale(v), f"{v:.2f}") for v in round_values(min(ends), max(ends))],
        width=WIDTH,
        left=LEFT,
        height=ROW * len(rows) + 24,
        command=command,
    )
