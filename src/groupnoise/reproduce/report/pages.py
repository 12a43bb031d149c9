"""The pages of the demonstration and of a comparison: their words, and what is drawn."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from groupnoise.pages import CurveChart, Scale, Tick, curve_chart, render_page, round_values
from groupnoise.reproduce.comparison import ComparisonOfMethods
from groupnoise.reproduce.demo import OURS, Demo, Gallery
from groupnoise.reproduce.provenance import RunFacts
from groupnoise.reproduce.report import Comparison, ResultTable, compare, result_table
from groupnoise.reproduce.run import TrialResult

METHOD_LABELS = {
    "pairwise": "Pairwise",
    "matching": "Matching",
    "maximizing": "Maximizing",
    "max_matching_paper": "Max-Matching, hard",
    "max_matching": "Max-Matching",
    "supervised": "Supervised",
}
METHOD_WORDS = {
    "pairwise": "trusts every object of a group alike.",
    "matching": "trusts every object, weighed by how well it fits the rest of its group.",
    "maximizing": "trusts only the object that matches the target best.",
    "max_matching_paper": "weighs as Matching does and trusts only the best object, "
    "as printed in the paper.",
    "max_matching": "weighs as Matching does and trusts every object by its share of the match.",
    "supervised": "is shown the truth: what could be reached, not a baseline.",
}
SETTING_TITLES = {"mil": "Bags of digits", "pll": "Candidate labels", "rs": "A simulated shop"}
SETTING_WORDS = {
    "mil": "A bag holds 8 to 14 handwritten digits. One of them is of the class written on the "
    "bag, 0 to 5; the rest are a background of 6 to 9. Trained on bags alone, a model must name "
    "single digits it has never seen.",
    "pll": "Every handwritten digit carries three to five candidate labels, one of them right; the "
    "wrong ones are mostly look-alikes, such as 3 for 8. The model must name digits it has never "
    "seen.",
    "rs": "Visitors of a shop follow two interests in turns, and three clicks in ten are stray. "
    "From five clicks, the model must rank the next one among 100 items that were not clicked.",
}
WATCHED = {"mil": "accuracy", "pll": "accuracy", "rs": "NDCG@10"}
"""What is measured on the validation part after every epoch."""
RIVALS = ("pairwise", "maximizing")
UPPER_BOUNDS = ("supervised",)
CHOSEN_RIGHT = "chosen right"
WIDTH, LEFT, ROW = 640, 150, 26
LEAST_SPAN = 0.05
"""What the axis of a comparison spans at least, so that nothing is not drawn large."""


@dataclass(frozen=True)
class DemoSection:
    """What the page shows of one setting."""

    setting: str
    title: str
    words: str
    watched: str
    table: ResultTable
    comparisons: list[Comparison]
    chart: CurveChart | None
    gallery: Gallery[Any]
    chosen_rates: dict[str, str]


def demo_page(demo: Demo, facts: RunFacts, *, quick: bool = False) -> str:
    """Return the page of a demonstration as text."""
    settings = dict.fromkeys(result.setting for result in demo.results)
    return render_page(
        "demo.html",
        package="groupnoise.reproduce.report",
        sections=[_section(setting, demo) for setting in settings],
        methods=METHOD_LABELS,
        method_words=METHOD_WORDS,
        chosen_right=CHOSEN_RIGHT,
        ours=OURS,
        upper_bounds=UPPER_BOUNDS,
        facts=facts,
        quick=quick,
    )


def _section(setting: str, demo: Demo) -> DemoSection:
    results = [result for result in demo.results if result.setting == setting]
    table = result_table(results, UPPER_BOUNDS)
    return DemoSection(
        setting=setting,
        title=SETTING_TITLES[setting],
        words=SETTING_WORDS[setting],
        watched=WATCHED[setting],
        table=table,
        comparisons=[
            comparison
            for metric in table.metrics
            if metric != CHOSEN_RIGHT
            for comparison in compare(results, OURS, RIVALS, metric)
        ],
        chart=curve_chart(
            {row.method: [r.curve for r in results if r.method == row.method] for row in table.rows}
        ),
        gallery=demo.galleries[setting],
        chosen_rates={row.method: _chosen_rates(results, row.method) for row in table.rows},
    )


def _chosen_rates(results: list[TrialResult], method: str) -> str:
    """Tell which learning rates validation chose, and in how many trials."""
    rates = Counter(r.chosen_settings["learning_rate"] for r in results if r.method == method)
    return ", ".join(f"{rate:g} ({rates[rate]}×)" for rate in sorted(rates, reverse=True))


def comparison_page(result: ComparisonOfMethods, command: str) -> str:
    """Return the page as text."""
    ranked = result.ranked
    intervals = [result.interval(each) for each in ranked]
    ends = [
        end for each in intervals for end in (each.low, each.mean, each.high) if not math.isnan(end)
    ]
    lowest = min(min(ends), max(ends) - LEAST_SPAN)  # methods that are level stand so
    scale = Scale(lowest, max(ends), LEFT, WIDTH - 20)
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
                "is_first": method is result.leader,
                "n_splits": len(method.splits),
                "is_level": result.is_level(method),
                "is_too_few": result.is_too_few(method),
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
        ticks=[Tick(scale(v), f"{v:.2f}") for v in round_values(lowest, max(ends))],
        width=WIDTH,
        left=LEFT,
        height=ROW * len(rows) + 24,
        command=command,
    )
