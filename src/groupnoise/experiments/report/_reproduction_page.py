"""The report of a reproduction: one page and one Markdown file from the same sections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from groupnoise._files import write_text
from groupnoise.experiments._facts import RunFacts
from groupnoise.experiments._reproduce import Reproduction
from groupnoise.experiments._run import summarise
from groupnoise.experiments.report._page import render_page
from groupnoise.experiments.report._reproduction_text import CRITERION_WORDS, reproduction_text
from groupnoise.experiments.report._sections import make_sections, not_rivals, under
from groupnoise.experiments.report._verdicts import OURS, gap_closed, mean_ranks

ALL_SETS = "all sets"


def write_reproduction(folder: Path, outcome: Reproduction, facts: RunFacts) -> tuple[Path, Path]:
    """Write `report.html` and `report.md`, and return their paths.

    Parameters
    ----------
    folder : Path
        Where to write them.
    outcome : Reproduction
        What came out of a plan.
    facts : RunFacts
        How it came about.
    """
    plan, sections, ranks = outcome.plan, make_sections(outcome), _ranks(outcome)
    page = render_page(
        "reproduction.html",
        recipe=plan.recipe,
        sections=sections,
        ranks=ranks,
        missing=plan.missing,
        labels={row: row for row in plan.recipe.row_names},
        ours=OURS,
        criteria=CRITERION_WORDS,
        quick=any(job.quick for job in plan.jobs),
        facts=facts,
    )
    html, markdown = folder / "report.html", folder / "report.md"
    write_text(html, page)
    write_text(markdown, reproduction_text(plan.recipe, sections, ranks, plan.missing, facts))
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
        common = {
            "setting": plan.recipe.setting,
            "trials": len(plan.seeds),
            "criterion": criterion,
        }
        chosen = under(outcome.results, criterion)
        for method, ranks in mean_ranks(chosen, not_rivals(plan.recipe)).items():
            row = {"dataset": ALL_SETS, "method": method, "metric": "mean rank", **common}
            rows.append({**row, "mean": float(np.mean(ranks)), "std": float(np.std(ranks, ddof=1))})
        for view in plan.views:
            here = [result for result in chosen if result.dataset == view.label]
            for start, share in gap_closed(here).items():
                metric = f"gap from {start} to supervised closed"
                row = {"dataset": view.label, "method": OURS, "metric": metric, **common}
                rows.append({**row, "mean": share, "std": 0.0})
    return rows


def _ranks(outcome: Reproduction) -> dict[str, dict[str, float]]:
    """Return for each criterion the mean rank of every method, best first."""
    recipe = outcome.plan.recipe
    found = {
        criterion: mean_ranks(under(outcome.results, criterion), not_rivals(recipe))
        for criterion in recipe.criteria
    }
    return {
        criterion: {method: float(np.mean(ranks)) for method, ranks in table.items()}
        for criterion, table in found.items()
        if table
    }
