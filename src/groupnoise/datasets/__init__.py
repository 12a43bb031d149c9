"""From raw data to groups: readers, named sets, generators, windows and splits."""

from groupnoise.datasets._containers import (
    BagDataset,
    ClickDataset,
    PartialLabelDataset,
    Windows,
    WindowSplit,
    single_label,
)

__all__ = [
    "BagDataset",
    "ClickDataset",
    "PartialLabelDataset",
    "WindowSplit",
    "Windows",
    "single_label",
]
