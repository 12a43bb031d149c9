"""From raw data to groups: readers, named sets, generators, windows and splits."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.datasets._containers import (
        BagDataset,
        ClickDataset,
        PartialLabelDataset,
        Windows,
        WindowSplit,
        single_label,
    )
    from groupnoise.datasets._digits import load_digit_bags, load_digit_candidates
    from groupnoise.datasets._shop import make_shop
    from groupnoise.datasets._splits_rows import split_rows

_HERE = "groupnoise.datasets"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BagDataset": f"{_HERE}._containers",
        "ClickDataset": f"{_HERE}._containers",
        "PartialLabelDataset": f"{_HERE}._containers",
        "WindowSplit": f"{_HERE}._containers",
        "Windows": f"{_HERE}._containers",
        "load_digit_bags": f"{_HERE}._digits",
        "load_digit_candidates": f"{_HERE}._digits",
        "make_shop": f"{_HERE}._shop",
        "single_label": f"{_HERE}._containers",
        "split_rows": f"{_HERE}._splits_rows",
    },
)

__all__ = [
    "BagDataset",
    "ClickDataset",
    "PartialLabelDataset",
    "WindowSplit",
    "Windows",
    "load_digit_bags",
    "load_digit_candidates",
    "make_shop",
    "single_label",
    "split_rows",
]
