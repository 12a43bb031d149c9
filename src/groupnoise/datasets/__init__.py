"""From raw data to groups: readers, named sets, generators, windows and splits."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.datasets._amil import load_amil
    from groupnoise.datasets._candidates import add_candidates, replace_candidates
    from groupnoise.datasets._click_filters import keep_core, merge_repeats
    from groupnoise.datasets._click_splits import split_clicks
    from groupnoise.datasets._containers import (
        BagDataset,
        ClickDataset,
        PartialLabelDataset,
        Windows,
        WindowSplit,
        single_label,
    )
    from groupnoise.datasets._describe import Description, describe
    from groupnoise.datasets._describe_page import (
        description_page,
        format_fact,
        write_description,
    )
    from groupnoise.datasets._digits import load_digit_bags, load_digit_candidates
    from groupnoise.datasets._download import fetch_dataset
    from groupnoise.datasets._histograms import Histogram
    from groupnoise.datasets._label_noise import add_false_labels, flip_labels
    from groupnoise.datasets._letter_words import draw_letter_words, words_of
    from groupnoise.datasets._locations import (
        check_dataset,
        data_directories,
        locate_dataset,
        locate_file,
    )
    from groupnoise.datasets._named import Dataset, load_dataset
    from groupnoise.datasets._on_disk import clicks_on_disk, windows_on_disk
    from groupnoise.datasets._registry import DataFile, DatasetEntry, find_dataset, list_datasets
    from groupnoise.datasets._shop import make_shop
    from groupnoise.datasets._sival_like import make_sival_like
    from groupnoise.datasets._splits_rows import split_rows
    from groupnoise.datasets._store import is_data_folder, open_groups, write_groups
    from groupnoise.datasets._stray_clicks import add_stray_clicks
    from groupnoise.datasets._stream_clicks import convert_clicks
    from groupnoise.datasets._stream_windows import write_windows
    from groupnoise.datasets._subsets import select_features, subset_bags, subset_rows
    from groupnoise.datasets._windows import cut_windows
    from groupnoise.datasets._witnesses import set_witness_rate
    from groupnoise.datasets.readers import read_bags, read_candidates, read_clicks, read_table

_HERE = "groupnoise.datasets"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BagDataset": f"{_HERE}._containers",
        "ClickDataset": f"{_HERE}._containers",
        "DataFile": f"{_HERE}._registry",
        "Dataset": f"{_HERE}._named",
        "DatasetEntry": f"{_HERE}._registry",
        "Description": f"{_HERE}._describe",
        "Histogram": f"{_HERE}._histograms",
        "PartialLabelDataset": f"{_HERE}._containers",
        "WindowSplit": f"{_HERE}._containers",
        "Windows": f"{_HERE}._containers",
        "add_candidates": f"{_HERE}._candidates",
        "add_false_labels": f"{_HERE}._label_noise",
        "add_stray_clicks": f"{_HERE}._stray_clicks",
        "check_dataset": f"{_HERE}._locations",
        "clicks_on_disk": f"{_HERE}._on_disk",
        "convert_clicks": f"{_HERE}._stream_clicks",
        "cut_windows": f"{_HERE}._windows",
        "data_directories": f"{_HERE}._locations",
        "describe": f"{_HERE}._describe",
        "description_page": f"{_HERE}._describe_page",
        "draw_letter_words": f"{_HERE}._letter_words",
        "fetch_dataset": f"{_HERE}._download",
        "find_dataset": f"{_HERE}._registry",
        "flip_labels": f"{_HERE}._label_noise",
        "format_fact": f"{_HERE}._describe_page",
        "is_data_folder": f"{_HERE}._store",
        "keep_core": f"{_HERE}._click_filters",
        "list_datasets": f"{_HERE}._registry",
        "load_amil": f"{_HERE}._amil",
        "load_dataset": f"{_HERE}._named",
        "load_digit_bags": f"{_HERE}._digits",
        "load_digit_candidates": f"{_HERE}._digits",
        "locate_dataset": f"{_HERE}._locations",
        "locate_file": f"{_HERE}._locations",
        "make_shop": f"{_HERE}._shop",
        "make_sival_like": f"{_HERE}._sival_like",
        "merge_repeats": f"{_HERE}._click_filters",
        "open_groups": f"{_HERE}._store",
        "read_bags": f"{_HERE}.readers",
        "read_candidates": f"{_HERE}.readers",
        "read_clicks": f"{_HERE}.readers",
        "read_table": f"{_HERE}.readers",
        "replace_candidates": f"{_HERE}._candidates",
        "select_features": f"{_HERE}._subsets",
        "set_witness_rate": f"{_HERE}._witnesses",
        "single_label": f"{_HERE}._containers",
        "split_clicks": f"{_HERE}._click_splits",
        "split_rows": f"{_HERE}._splits_rows",
        "subset_bags": f"{_HERE}._subsets",
        "subset_rows": f"{_HERE}._subsets",
        "windows_on_disk": f"{_HERE}._on_disk",
        "words_of": f"{_HERE}._letter_words",
        "write_description": f"{_HERE}._describe_page",
        "write_groups": f"{_HERE}._store",
        "write_windows": f"{_HERE}._stream_windows",
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
    "add_candidates",
    "add_false_labels",
    "add_stray_clicks",
    "check_dataset",
    "clicks_on_disk",
    "convert_clicks",
    "cut_windows",
    "data_directories",
    "describe",
    "description_page",
    "draw_letter_words",
    "fetch_dataset",
    "find_dataset",
    "flip_labels",
    "format_fact",
    "is_data_folder",
    "keep_core",
    "list_datasets",
    "load_amil",
    "load_dataset",
    "load_digit_bags",
    "load_digit_candidates",
    "locate_dataset",
    "locate_file",
    "make_shop",
    "make_sival_like",
    "merge_repeats",
    "open_groups",
    "read_bags",
    "read_candidates",
    "read_clicks",
    "read_table",
    "replace_candidates",
    "select_features",
    "set_witness_rate",
    "single_label",
    "split_clicks",
    "split_rows",
    "subset_bags",
    "subset_rows",
    "windows_on_disk",
    "words_of",
    "write_description",
    "write_groups",
    "write_windows",
]
