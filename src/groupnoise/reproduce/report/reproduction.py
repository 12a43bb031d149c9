"""The report of a reproduction as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from groupnoise.io.files import write_text
from groupnoise.pages import Scale, Tick, markdown_table, render_page
from groupnoise.reproduce.provenance import RunFacts
from groupnoise.reproduce.recipes import Recipe
from groupnoise.reproduce.report.pages import Section, excluded_from_tests, make_sections, under
from groupnoise.reproduce.report.tables import (
    OURS,
    ResultTable,
    critical_difference,
    gap_closed,
    mean_ranks,
    rank_tests,
)
from groupnoise.reproduce.run import summarise
from groupnoise.reproduce.running import Reproduction

TITLE = 70
"""Longest title in a list of examples, in characters."""
CRITERION_WORDS = {
    "oracle": "true labels of the validation part",
    "covering_rate": "covering rate, without labels",
    "approximated_accuracy": "approximated accuracy, without labels",
    "validation": "the validation part",
}
"""Descriptions of the selection criteria."""
COSTS = ("method", "seconds a trial", "fits a trial", "epochs a trial", "values chosen (trials)")
ALL_SETS = "all sets"
WIDTH, LEFT, RIGHT = 720, 190, 190
AXIS, ROW, BAR = 30, 18, 8
"""Height of the axis, of a name, and of a bar."""


def reproduction_text(
    recipe: Recipe,
    sections: Sequence[Section],
    ranks: Mapping[str, Mapping[str, float]],
    missing: Mapping[str, str],
    facts: RunFacts,
    tests: Mapping[str, Mapping[str, float]],
) -> str:
    """Return the report."""
    seeds = ", ".join(map(str, facts.seeds))
    lines = [f"# {recipe.name}", "", f"`{facts.command}`, {facts.day}, {facts.machine}.", ""]
    lines += [f"Seeds {seeds}; settings chosen by {CRITERION_WORDS[recipe.criteria[0]]}.", ""]
    lines += [f"- {note}" for note in recipe.notes]
    for section in sections:
        lines += ["", f"## {section.name}", ""]
        lines.append(_table(section.table, section.published))
        lines += ["", *(f"- {sentence}" for sentence in section.sentences)]
        for criterion, table in section.other_tables.items():
            chosen = f"Settings chosen by {CRITERION_WORDS[criterion]}:"
            lines += ["", chosen, "", _table(table, {})]
        for method, examples in section.examples.items():
            lines += ["", f"### {method}", ""]
            for example in examples:
                answers = "; ".join(shorten(each["title"], TITLE) for each in example["answers"])
                lines.append(f"- **{example['clicked']}**: {answers}")
        facts_of = (
            [f.method, f"{f.seconds:.1f}", f.n_fits, f.n_epochs or "", f.chosen]
            for f in section.facts
        )
        lines += ["", markdown_table(COSTS, facts_of)]
    for criterion, means in ranks.items():
        words = ", ".join(f"{method} {rank:.2f}" for method, rank in means.items())
        chosen = CRITERION_WORDS[criterion]
        lines += ["", f"Mean rank over the sets (settings chosen by {chosen}): {words}."]
        if tests.get(criterion):
            p_values = ", ".join(f"{name} p = {p:.3f}" for name, p in tests[criterion].items())
            lines += [f"Ours against each over the sets (Wilcoxon, Holm): {p_values}."]
    if missing:
        lines += ["", "## Left out", ""]
        lines += [f"- {name}: {reason}" for name, reason in missing.items()]
    return "\n".join(lines) + "\n"


def _table(table: ResultTable, published: Mapping[str, Mapping[str, float]]) -> str:
    """Return mean and standard deviation of every method, the printed figure behind each."""
    lines = []
    for row in table.rows:
        cells = []
        for metric, figure in zip(table.metrics, row.figures, strict=True):
            cell = "" if figure is None else f"{figure.mean:.3f} ± {figure.deviation:.3f}"
            printed = published.get(row.method, {}).get(metric)
            cells.append(cell if printed is None else f"{cell} (paper: {printed:.3f})")
        name = f"**{row.method}**" if row.method == "ours" else row.method
        lines.append([name, *cells])
    return markdown_table(["method", *table.metrics], lines)


def write_reproduction(folder: Path, outcome: Reproduction, facts: RunFacts) -> tuple[Path, Path]:
    """Write `report.html` and `report.md`, and return their paths."""
    plan, sections, tables = outcome.plan, make_sections(outcome), rank_tables(outcome)
    ranks = {
        criterion: {method: float(np.mean(each)) for method, each in table.items()}
        for criterion, table in tables.items()
    }
    pictures, tests = rank_pictures(outcome), signed_ranks(outcome)
    page = render_page(
        "reproduction.html",
        package="groupnoise.reproduce.report",
        recipe=plan.recipe,
        sections=sections,
        ranks=ranks,
        rank_pictures=pictures,
        rank_tests=tests,
        missing=plan.missing,
        labels={row: row for row in plan.recipe.row_names},
        ours=OURS,
        criteria=CRITERION_WORDS,
        quick=any(job.quick for job in plan.jobs),
        facts=facts,
    )
    html, markdown = folder / "report.html", folder / "report.md"
    write_text(html, page)
    write_text(
        markdown, reproduction_text(plan.recipe, sections, ranks, plan.missing, facts, tests)
    )
    return html, markdown


def reproduction_rows(outcome: Reproduction) -> list[dict[str, Any]]:
    """Return every figure of a reproduction as a row.

    A row has dataset, method, metric, mean, std, trials and criterion. Beside the metrics of the
    trials there are the mean rank over the data sets, and how much of the gap between Pairwise
    and the supervised row is closed.
    """
    plan = outcome.plan
    rows = summarise(outcome.results)
    for criterion in plan.recipe.criteria:
        common = {"setting": plan.recipe.setting, "trials": len(plan.seeds), "criterion": criterion}
        chosen = under(outcome.results, criterion)
        for method, ranks in mean_ranks(chosen, excluded_from_tests(plan.recipe)).items():
            row = {"dataset": ALL_SETS, "method": method, "metric": "mean rank", **common}
            rows.append({**row, "mean": float(np.mean(ranks)), "std": float(np.std(ranks, ddof=1))})
        for view in plan.views:
            here = [result for result in chosen if result.dataset == view.label]
            for start, share in gap_closed(here).items():
                metric = f"gap from {start} to supervised closed"
                row = {"dataset": view.label, "method": OURS, "metric": metric, **common}
                rows.append({**row, "mean": share, "std": 0.0})
    return rows


def rank_tables(outcome: Reproduction) -> dict[str, dict[str, list[float]]]:
    """Return for each criterion the rank of every method on each data set, best first."""
    recipe = outcome.plan.recipe
    found = {
        criterion: mean_ranks(under(outcome.results, criterion), excluded_from_tests(recipe))
        for criterion in recipe.criteria
    }
    return {criterion: table for criterion, table in found.items() if table}


def rank_pictures(outcome: Reproduction) -> dict[str, RankPicture]:
    """Return for each criterion the critical-difference diagram, if data sets suffice."""
    if not _sets_are_apart(outcome):
        return {}
    found = {key: rank_picture(table) for key, table in rank_tables(outcome).items()}
    return {criterion: picture for criterion, picture in found.items() if picture is not None}


def signed_ranks(outcome: Reproduction) -> dict[str, dict[str, float]]:
    """Return for each criterion the adjusted p-values of ours against each baseline."""
    if not _sets_are_apart(outcome):
        return {}
    recipe = outcome.plan.recipe
    return {
        criterion: rank_tests(under(outcome.results, criterion), excluded_from_tests(recipe))
        for criterion in recipe.criteria
    }


def _sets_are_apart(outcome: Reproduction) -> bool:
    """Whether every data set has one view.

    Noise levels, or class pairs, of one data set are not independent samples for a test.
    """
    datasets = [view.dataset for view in outcome.plan.views]
    return len(set(datasets)) == len(datasets)


@dataclass(frozen=True)
class Mark:
    """A method: the line from its mean rank to its name."""

    method: str
    rank: float
    line: str
    x: float
    y: float
    anchor: str


@dataclass(frozen=True)
class Bar:
    """A clique of methods that do not differ significantly."""

    low: float
    high: float
    y: float


@dataclass(frozen=True)
class RankPicture:
    """The layout of a critical-difference diagram."""

    distance: float
    ticks: list[Tick]
    marks: list[Mark]
    bars: list[Bar]
    height: int
    width: int = WIDTH
    left: int = LEFT
    right: int = WIDTH - RIGHT
    axis: int = AXIS


def rank_picture(ranks: Mapping[str, Sequence[float]]) -> RankPicture | None:
    """Lay out the diagram; None with too few methods or data sets for the test."""
    found = critical_difference(ranks)
    if found is None:
        return None
    n_methods = len(found.ranks)
    scale = Scale(1, n_methods, LEFT, WIDTH - RIGHT)
    bars = [
        Bar(
            scale(found.ranks[clique[0]]) - 3,
            scale(found.ranks[clique[-1]]) + 3,
            AXIS + BAR * (number + 1),
        )
        for number, clique in enumerate(found.cliques)
    ]
    top = AXIS + BAR * (len(bars) + 2)
    n_left = (n_methods + 1) // 2
    marks = []
    for number, (method, rank) in enumerate(found.ranks.items()):
        # The better half is named on the left, the other on the right, nearest the axis first.
        on_left = number < n_left
        level = number if on_left else n_methods - 1 - number
        x, y = (LEFT - 8 if on_left else WIDTH - RIGHT + 8), top + ROW * level
        line = f"{scale(rank)},{AXIS} {scale(rank)},{y} {x},{y}"
        marks.append(
            Mark(method, rank, line, x - 4 if on_left else x + 4, y, "end" if on_left else "start")
        )
    ticks = [Tick(scale(rank), str(rank)) for rank in range(1, n_methods + 1)]
    return RankPicture(found.distance, ticks, marks, bars, top + ROW * n_left)
