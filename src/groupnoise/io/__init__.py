"""From files to data sets and back: tables, columns, data folders, model folders, named sets."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.io.data_folder import is_data_folder, open_groups, write_groups
    from groupnoise.io.datasets import (
        BagDataset,
        ClickDataset,
        PartialLabelDataset,
        Windows,
        WindowSplit,
        select_features,
        single_label,
        split_rows,
        subset_bags,
        subset_rows,
    )
    from groupnoise.io.describe_page import description_page, format_fact, write_description
    from groupnoise.io.description import Description, Histogram, describe
    from groupnoise.io.download import fetch_dataset
    from groupnoise.io.models import load_model
    from groupnoise.io.named import Dataset, load_dataset
    from groupnoise.io.registry import (
        DataFile,
        DatasetEntry,
        check_dataset,
        data_directories,
        find_dataset,
        list_datasets,
        locate_dataset,
        locate_file,
    )
    from groupnoise.io.tables import read_table

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BagDataset": "groupnoise.io.datasets",
        "ClickDataset": "groupnoise.io.datasets",
        "DataFile": "groupnoise.io.registry",
        "Dataset": "groupnoise.io.named",
        "DatasetEntry": "groupnoise.io.registry",
        "Description": "groupnoise.io.description",
        "Histogram": "groupnoise.io.description",
        "PartialLabelDataset": "groupnoise.io.datasets",
        "WindowSplit": "groupnoise.io.datasets",
        "Windows": "groupnoise.io.datasets",
        "check_dataset": "groupnoise.io.registry",
        "data_directories": "groupnoise.io.registry",
        "describe": "groupnoise.io.description",
        "description_page": "groupnoise.io.describe_page",
        "fetch_dataset": "groupnoise.io.download",
        "find_dataset": "groupnoise.io.registry",
        "format_fact": "groupnoise.io.describe_page",
        "is_data_folder": "groupnoise.io.data_folder",
        "list_datasets": "groupnoise.io.registry",
        "load_dataset": "groupnoise.io.named",
        "load_model": "groupnoise.io.models",
        "locate_dataset": "groupnoise.io.registry",
        "locate_file": "groupnoise.io.registry",
        "open_groups": "groupnoise.io.data_folder",
        "read_table": "groupnoise.io.tables",
        "select_features": "groupnoise.io.datasets",
        "single_label": "groupnoise.io.datasets",
        "split_rows": "groupnoise.io.datasets",
        "subset_bags": "groupnoise.io.datasets",
        "subset_rows": "groupnoise.io.datasets",
        "write_description": "groupnoise.io.describe_page",
        "write_groups": "groupnoise.io.data_folder",
    },
)

__all__ = [
    "BagDataset",
    "ClickDataset",
    "DataFile",
    "Dataset",
    "DatasetEntry",
    "Description",
    "Histogram",
    "PartialLabelDataset",
    "WindowSplit",
    "Windows",
    "check_dataset",
    "data_directories",
    "describe",
    "description_page",
    "fetch_dataset",
    "find_dataset",
    "format_fact",
    "is_data_folder",
    "list_datasets",
    "load_dataset",
    "load_model",
    "locate_dataset",
    "locate_file",
    "open_groups",
    "read_table",
    "select_features",
    "single_label",
    "split_rows",
    "subset_bags",
    "subset_rows",
    "write_description",
    "write_groups",
]
