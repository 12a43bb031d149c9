"""From files to data sets and back: tables, columns, data folders, model folders, named sets."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.io.data_folder import open_groups, write_groups
    from groupnoise.io.datasets import (
        BagDataset,
        ClickDataset,
        PartialLabelDataset,
        single_label,
        split_rows,
        subset_bags,
        subset_rows,
    )
    from groupnoise.io.description import describe
    from groupnoise.io.download import fetch_dataset
    from groupnoise.io.model_files import load_model
    from groupnoise.io.named import load_dataset
    from groupnoise.io.registry import list_datasets

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.io.data_folder": "open_groups write_groups",
        "groupnoise.io.datasets": (
            "BagDataset ClickDataset PartialLabelDataset single_label split_rows subset_bags "
            "subset_rows"
        ),
        "groupnoise.io.description": "describe",
        "groupnoise.io.download": "fetch_dataset",
        "groupnoise.io.model_files": "load_model",
        "groupnoise.io.named": "load_dataset",
        "groupnoise.io.registry": "list_datasets",
    },
)

__all__ = [
    "BagDataset",
    "ClickDataset",
    "PartialLabelDataset",
    "describe",
    "fetch_dataset",
    "list_datasets",
    "load_dataset",
    "load_model",
    "open_groups",
    "single_label",
    "split_rows",
    "subset_bags",
    "subset_rows",
    "write_groups",
]
