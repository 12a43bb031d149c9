"""The report of a reproduction: one page and one Markdown file from the same tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from groupnoise._files import write_text
from groupnoise.experiments._facts import RunFacts
from groupnoise.experiments._recipes import Recipe
from groupnoise.experiments._reproduce import Reproduction
from groupnoise.experiments._run import TrialResult
from groupnoise.experiments.report._charts import CurveChart, curve_chart
from groupnoise.experiments.report._page import render_page
from groupnoise.experiments.report._tables import ResultTable, metric_values, result_table

OURS = "ours"


@dataclass(frozen=True)
class DatasetSection:
    """What the report shows of one data set."""

    name: str
    table: ResultTable
    chart: CurveChart | None
    verdict: str
    published: dict[str, dict[str, float]]
    seconds: dict[str, float]
    chosen: dict[str, list[str]]


def write_reproduction(
    folder: Path, recipe: Recipe, outcome: Reproduction, facts: RunFacts
) -> tuple[Path, Path]:
    """Write `report.html` and `report.md`, and return their paths."""
    sections = [
        _section(recipe, name, [r for r in outcome.results if r.dataset == name])
        for name in dict.fromkeys(result.dataset for result in outcome.results)
    ]
    labels = {method: method for method in recipe.tables}
    page = render_page(
        "reproduction.html",
        recipe=recipe,
        sections=sections,
        missing=outcome.missing,
        labels=labels,
        ours=OURS,
        facts=facts,
    )
    html, markdown = folder / "report.html", folder / "report.md"
    write_text(html, page)
    write_text(markdown, _markdown(recipe, sections, outcome, facts))
    return html, markdown


def _section(recipe: Recipe, name: str, results: Sequence[TrialResult]) -> DatasetSection:
    methods = list(dict.fromkeys(result.method for result in results))
    curves = {m: [r.curve for r in results if r.method == m and r.curve] for m in methods}
    return DatasetSection(
        name=name,
        table=result_table(results),
        chart=curve_chart({method: found for method, found in curves.items() if found}),
        verdict=verdict(results),
        published=recipe.published.get(name, {}),
        seconds={m: _mean([r.seconds for r in results if r.method == m]) for m in methods},
        chosen={m: [_words(r) for r in results if r.method == m] for m in methods},
    )


def verdict(results: Sequence[TrialResult]) -> str:
    """Say how ours stands against the best rival, with a paired test over the trials."""
    metric = next(iter(results[0].metrics))
    means = {
        method: metric_values(results, method, metric).mean()
        for method in dict.fromkeys(result.method for result in results)
    }
    rivals = {method: mean for method, mean in means.items() if method != OURS}
    if OURS not in means or not rivals:
        return ""
    rival = max(rivals, key=lambda method: rivals[method])
    mine = {r.seed: r.metrics[metric] for r in results if r.method == OURS}
    theirs = {r.seed: r.metrics[metric] for r in results if r.method == rival}
    seeds = sorted(mine.keys() & theirs.keys())
    gap = np.array([mine[seed] - theirs[seed] for seed in seeds])
    lead = float(gap.mean())
    words = f"ours is {'ahead of' if lead > 0 else 'behind'} {rival} by {abs(lead):.3f} in {metric}"
    if len(gap) < 2 or not gap.std():
        return words + "."
    from scipy.stats import ttest_1samp

    return f"{words} (paired t-test over {len(gap)} trials: p = {ttest_1samp(gap, 0).pvalue:.3f})."


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _words(result: TrialResult) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in result.chosen_settings.items())
    return f"seed {result.seed}: {settings}" if settings else f"seed {result.seed}"


def _markdown(
    recipe: Recipe, sections: list[DatasetSection], outcome: Reproduction, facts: RunFacts
) -> str:
    lines = [f"# {recipe.name}", "", f"`{facts.command}`, {facts.day}, {facts.machine}.", ""]
    for section in sections:
        metrics = section.table.metrics
        lines += [f"## {section.name}", "", "| method | " + " | ".join(metrics) + " | seconds |"]
        lines.append("|---|" + "---|" * (len(metrics) + 1))
        for row in section.table.rows:
            cells = [
                "" if figure is None else f"{figure.mean:.3f} ± {figure.deviation:.3f}"
                for figure in row.figures
            ]
            cells.append(f"{section.seconds[row.method]:.1f}")
            lines.append(f"| {row.method} | " + " | ".join(cells) + " |")
        for method, figures in section.published.items():
            cells = [f"{figures[m]:.3f}" if m in figures else "" for m in metrics]
            lines.append(f"| *published: {method}* | " + " | ".join(cells) + " | |")
        lines += ["", section.verdict, ""]
    if outcome.missing:
        lines += ["## Left out", ""]
        lines += [f"- {name}: {reason}" for name, reason in outcome.missing.items()]
    return "\n".join(lines) + "\n"
