"""Pages that show results: tables, learning curves and pictures, with everything inline."""

from groupnoise.experiments.report._demo_page import (
    METHOD_LABELS,
    SETTING_TITLES,
    demo_page,
    write_demo_page,
)
from groupnoise.experiments.report._reproduction_page import verdict, write_reproduction
from groupnoise.experiments.report._tables import Comparison, compare

__all__ = [
    "METHOD_LABELS",
    "SETTING_TITLES",
    "Comparison",
    "compare",
    "demo_page",
    "verdict",
    "write_demo_page",
    "write_reproduction",
]
