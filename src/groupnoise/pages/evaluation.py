"""What a model is worth as one page: figures, classes, and the risk-coverage curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from groupnoise.pages.charts import curve_chart
from groupnoise.pages.render import HERE, render_page

TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Coverages that are marked on the axis."""


class Figures(Protocol):
    """What is shown of an evaluation beside its other attributes."""

    @property
    def per_class(self) -> Mapping[str, Mapping[str, float]]:
        """Figures of single classes."""
        ...

    @property
    def curves(self) -> Mapping[str, Mapping[str, list[float]]]:
        """Risk-coverage curves."""
        ...


def evaluation_page(evaluation: Figures, *, title: str, about: str) -> str:
    """Return an evaluation as the text of an HTML page that loads nothing from elsewhere.

    `evaluation`: what `Setting.evaluate` returned. `about`: on what: a sentence.
    """
    charts = []
    for name, curve in evaluation.curves.items():
        coverage = curve["coverage"]
        chart = curve_chart(
            {"max_matching": [curve["risk"]]},
            positions=coverage,
            ticks=[each for each in TICKS if coverage[0] <= each <= coverage[-1]],
            x_title=f"share of {name} answered, the surest first",
        )
        if chart is not None:
            charts.append((name, chart))
    figures = dict.fromkeys(name for found in evaluation.per_class.values() for name in found)
    return render_page(
        "evaluation.html",
        package=HERE,
        evaluation=evaluation,
        title=title,
        about=about,
        charts=charts,
        figures=list(figures),
    )
