"""Contents of the HTML pages: the demonstration, a comparison, a reproduction."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from groupnoise.pages import CurveChart, Scale, Tick, curve_chart, render_page, round_values
from groupnoise.reproduce.comparison import ComparisonOfMethods
from groupnoise.reproduce.demo import OURS, Demo
from groupnoise.reproduce.provenance import RunFacts
from groupnoise.reproduce.recipes import DatasetView, Recipe
from groupnoise.reproduce.report.tables import (
    ResultTable,
    compare,
    gap_closed,
    main_metric,
    result_table,
    verdict,
)
from groupnoise.reproduce.run import TrialResult
from groupnoise.reproduce.running import Plan, Reproduction

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
"""Validation metric after every epoch."""
COMPARED = ("pairwise", "maximizing")
UPPER_BOUNDS = ("supervised",)
CHOSEN_RIGHT = "chosen right"
WIDTH, LEFT, ROW = 640, 150, 26
MIN_SPAN = 0.05
"""Smallest range of the axis of a comparison, so that tiny differences look tiny."""


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


def _section(setting: str, demo: Demo) -> dict[str, Any]:
    results = [result for result in demo.results if result.setting == setting]
    table = result_table(results, UPPER_BOUNDS)
    return {
        "setting": setting,
        "title": SETTING_TITLES[setting],
        "words": SETTING_WORDS[setting],
        "watched": WATCHED[setting],
        "table": table,
        "comparisons": [
            comparison
            for metric in table.metrics
            if metric != CHOSEN_RIGHT
            for comparison in compare(results, OURS, COMPARED, metric)
        ],
        "chart": curve_chart(
            {row.method: [r.curve for r in results if r.method == row.method] for row in table.rows}
        ),
        "gallery": demo.galleries[setting],
        "chosen_rates": {row.method: _chosen_rates(results, row.method) for row in table.rows},
    }


def _chosen_rates(results: list[TrialResult], method: str) -> str:
    rates = Counter(r.chosen_settings["learning_rate"] for r in results if r.method == method)
    return ", ".join(f"{rate:g} ({rates[rate]}×)" for rate in sorted(rates, reverse=True))


def comparison_page(result: ComparisonOfMethods, command: str) -> str:
    """Return the page as text."""
    ranked = result.ranked
    intervals = [result.interval(each) for each in ranked]
    ends = [
        end for each in intervals for end in (each.low, each.mean, each.high) if not math.isnan(end)
    ]
    lowest = min(min(ends), max(ends) - MIN_SPAN)  # tied methods look tied
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
                "is_tied": result.is_tied(method),
                "is_inconclusive": result.is_inconclusive(method),
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


@dataclass(frozen=True)
class TitledChart:
    """A chart and what it shows."""

    title: str
    chart: CurveChart


@dataclass(frozen=True)
class MethodFacts:
    """The cost of a method and the settings chosen on validation."""

    method: str
    seconds: float
    n_fits: int
    n_epochs: int
    chosen: str


@dataclass(frozen=True)
class Section:
    """The report on one data set."""

    name: str
    table: ResultTable
    sentences: list[str]
    published: dict[str, dict[str, float]]
    charts: list[TitledChart]
    facts: list[MethodFacts]
    other_tables: dict[str, ResultTable] = field(default_factory=dict)
    """The same metrics with settings chosen by another criterion."""
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """For each method, its answers to the same clicked items."""


def make_sections(outcome: Reproduction) -> list[Section]:
    """Return a section per data set, in the order of the plan."""
    plan = outcome.plan
    sections = []
    for dataset in dict.fromkeys(view.dataset for view in plan.views):
        views = [view for view in plan.views if view.dataset == dataset]
        labels = {view.label for view in views}
        results = [result for result in outcome.results if result.dataset in labels]
        if len(views) == 1 and views[0].label == dataset:
            sections.append(_whole_section(plan, dataset, results))
        else:
            sections.append(_views_section(plan, dataset, views, results))
    return sections


def excluded_from_tests(recipe: Recipe) -> tuple[str, ...]:
    """Return the rows left out of tests: upper bounds and readings."""
    return (*recipe.upper_bounds, *recipe.readings)


def test_to_train(recipe: Recipe) -> float:
    """Return the size of test parts over training parts; 0 where trials share one split."""
    fractions = recipe.protocol.get("fractions")
    return float(fractions[2] / fractions[0]) if fractions else 0.0


def under(results: Sequence[TrialResult], criterion: str) -> list[TrialResult]:
    """Return the results whose settings were chosen by a criterion."""
    return [result for result in results if result.criterion == criterion]


def _whole_section(plan: Plan, dataset: str, results: Sequence[TrialResult]) -> Section:
    """Return the section of a data set with one view: metrics are the columns."""
    recipe = plan.recipe
    first, *others = recipe.criteria
    main = under(results, first)
    sentences = [verdict(main, excluded_from_tests(recipe), test_to_train(recipe))]
    for start, share in gap_closed(main).items():
        sentences.append(f"ours closes {share:.0%} of the gap from {start} to supervised.")
    curves: dict[str, list[list[float]]] = {}
    for result in main:
        if result.curve and result.method not in recipe.readings:
            curves.setdefault(result.method, []).append(result.curve)
    chart = curve_chart(curves)
    return Section(
        name=dataset,
        table=result_table(main, recipe.upper_bounds),
        sentences=[sentence for sentence in sentences if sentence],
        published=recipe.published.get(dataset, {}),
        charts=[] if chart is None else [TitledChart("The validation value while learning", chart)],
        facts=_facts(recipe, dataset, main),
        other_tables={
            criterion: result_table(under(results, criterion), recipe.upper_bounds)
            for criterion in others
        },
        examples={
            result.method: result.examples
            for result in main
            if result.examples and result.seed == plan.seeds[0]
        },
    )


def _views_section(
    plan: Plan, dataset: str, views: Sequence[DatasetView], results: Sequence[TrialResult]
) -> Section:
    """Return the section of a data set with several views, which are the columns."""
    recipe = plan.recipe
    main = under(results, recipe.criteria[0])
    metric = main_metric(main)
    as_columns = [
        replace(r, metrics={r.dataset.removeprefix(f"{dataset} "): r.metrics[metric]}) for r in main
    ]
    sentences = []
    for view in views:
        here = [result for result in main if result.dataset == view.label]
        words = verdict(here, excluded_from_tests(recipe), test_to_train(recipe))
        sentences += [f"{view.label.removeprefix(f'{dataset} ')}: {words}"] if words else []
    charts = _noise_charts if recipe.noise is not None else _pair_charts
    return Section(
        name=dataset,
        table=result_table(as_columns, recipe.upper_bounds),
        sentences=sentences,
        published={},
        charts=charts(views, main, metric),
        facts=_facts(recipe, dataset, main),
    )


def _noise_charts(
    views: Sequence[DatasetView], results: Sequence[TrialResult], metric: str
) -> list[TitledChart]:
    """Return accuracy over epsilon, and over tau, where each takes several values."""
    noise = [view.noise for view in views if view.noise is not None]
    charts = []
    for axis, title in ((0, "epsilon"), (1, "tau")):
        others = Counter(pair[1 - axis] for pair in noise)
        fixed, n_levels = others.most_common(1)[0]
        if n_levels < 2:
            continue
        along = sorted(
            (view for view in views if view.noise is not None and view.noise[1 - axis] == fixed),
            key=lambda view: view.noise[axis] if view.noise is not None else 0,
        )
        values = _by_seed(along, results, metric)
        positions = [view.noise[axis] for view in along if view.noise is not None]
        chart = curve_chart(values, positions=positions, x_title=title)
        if chart is not None:
            held = f"{('tau', 'epsilon')[axis]} = {fixed:g}"
            charts.append(TitledChart(f"Test {metric} over {title}, {held}", chart))
    return charts


def _by_seed(
    views: Sequence[DatasetView], results: Sequence[TrialResult], metric: str
) -> dict[str, list[list[float]]]:
    found = {(r.method, r.seed, r.dataset): r.metrics[metric] for r in results}
    curves: dict[str, list[list[float]]] = {}
    for method, seed in dict.fromkeys((result.method, result.seed) for result in results):
        curves.setdefault(method, []).append([found[method, seed, view.label] for view in views])
    return curves


def _pair_charts(
    views: Sequence[DatasetView], results: Sequence[TrialResult], metric: str
) -> list[TitledChart]:
    """Return the test curves of every pair; a method without epochs has a level line."""
    charts = []
    for view in views:
        here = [result for result in results if result.dataset == view.label]
        n_epochs = max((len(result.test_curve) for result in here), default=0)
        curves: dict[str, list[list[float]]] = {}
        for result in here:
            level = [result.metrics[metric]] * n_epochs
            curves.setdefault(result.method, []).append(result.test_curve or level)
        chart = curve_chart(curves)
        if chart is not None:
            charts.append(TitledChart(f"Test {metric} while learning, {view.label}", chart))
    return charts


def _facts(recipe: Recipe, dataset: str, results: Sequence[TrialResult]) -> list[MethodFacts]:
    facts = []
    for method in dict.fromkeys(result.method for result in results):
        own = [result for result in results if result.method == method]
        facts.append(
            MethodFacts(
                method,
                float(np.mean([result.seconds for result in own])),
                own[0].n_fits,
                round(float(np.mean([result.n_epochs for result in own]))),
                _chosen(recipe, dataset, method, own),
            )
        )
    return facts


def _chosen(recipe: Recipe, dataset: str, method: str, results: Sequence[TrialResult]) -> str:
    row = recipe.readings[method].of if method in recipe.readings else method
    words = []
    for key, values in recipe.settings(row, dataset).items():
        if isinstance(values, list) and len(values) > 1:
            counts = Counter(str(result.chosen_settings.get(key)) for result in results)
            words.append(f"{key}: " + ", ".join(f"{v} ({n})" for v, n in counts.most_common()))
    return "; ".join(words)
