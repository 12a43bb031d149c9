"""Pages that show results: tables, learning curves and pictures, with everything inline."""

from groupnoise.experiments.report._demo_page import (
    METHOD_LABELS,
    SETTING_TITLES,
    demo_page,
    write_demo_page,
)
from groupnoise.experiments.report._page import render_page
from groupnoise.experiments.report._reproduction_page import (
    reproduction_rows,
    write_reproduction,
)
from groupnoise.experiments.report._tables import Comparison, compare
from groupnoise.experiments.report._verdicts import gap_closed, mean_ranks, verdict

__all__ = [
    "METHOD_LABELS",
    "SETTING_TITLES",
    "Comparison",
    "compare",
    "demo_page",
    "gap_closed",
    "mean_ranks",
    "render_page",
    "reproduction_rows",
    "verdict",
    "write_demo_page",
    "write_reproduction",
]
