"""What commands take as DATA and MODEL: names, folders and files, told apart here alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.exceptions import DataError

if TYPE_CHECKING:
    from groupnoise.io.named import Dataset
    from groupnoise.io.registry import DatasetEntry

SETTINGS = ("mil", "pll", "rs")


def find_data(
    name: str, setting: str | None, data_dir: Path | None, **options: Any
) -> tuple[Dataset, DatasetEntry | None]:
    """Load a file, a converted folder or a named set; only the last has an entry.

    Options are those of the reader of files.
    """
    from groupnoise.io.data_folder import open_groups
    from groupnoise.io.datasets import Windows
    from groupnoise.io.named import load_dataset
    from groupnoise.io.registry import find_dataset, list_datasets

    if setting is not None:
        if not Path(name).exists() and any(entry.name == name for entry in list_datasets()):
            raise DataError(f"{name} is a set known by name; leave out --setting, which it has.")
        return _read_file(name, setting, options), None
    if Path(name).is_file():
        raise DataError(f"{name} is a file; say what it holds with --setting mil, pll or rs.")
    if not Path(name).is_dir():
        return load_dataset(name, data_dir=data_dir), find_dataset(name)
    stored = open_groups(name)
    if isinstance(stored, Windows):
        raise DataError(
            f"{name} holds windows; give the click log they were cut from, with --out-of-core DIR "
            "if its windows do not fit in memory."
        )
    return stored, None


def find_model_and_data(
    model: Path,
    name: str,
    setting: str | None,
    data_dir: Path | None,
    *,
    needs_labels: bool = True,
) -> tuple[Any, Dataset]:
    """Load a model and data for it, whose features are matched by name where both have names."""
    from groupnoise.core.checks import check_choice
    from groupnoise.io.datasets import select_features
    from groupnoise.io.models import load_model

    fitted = load_model(model)
    if setting is not None:
        check_choice("--setting", setting, SETTINGS)
        _check_setting(fitted, setting, model)
    has_names = hasattr(fitted, "feature_names_in_")
    options: dict[str, Any] = {} if setting == "rs" else {"labels_needed": needs_labels}
    if has_names:
        options["feature_names"] = fitted.feature_names_in_.tolist()
    dataset, _ = find_data(name, setting, data_dir, **options)
    _check_setting(fitted, setting_of(dataset), model)
    if has_names:
        dataset = select_features(dataset, options["feature_names"])
        # The names have served: rows go on as plain arrays, whose lack of them would be warned of.
        del fitted.feature_names_in_
    return fitted, dataset


def _check_setting(fitted: Any, setting: str, model: Path) -> None:
    """Refuse data of another setting than the model was trained for."""
    if hasattr(fitted, "recommend"):
        own = "rs"
    else:
        own = "mil" if hasattr(fitted, "predict_bags") else "pll"
    if own != setting:
        raise DataError(f"{model} was trained on {own} data, but {setting} data was given.")


def _read_file(path: str, setting: str, options: dict[str, Any]) -> Dataset:
    """Read a user's own file; what was guessed goes to the error stream."""
    from groupnoise.bags.files import read_bags
    from groupnoise.candidates.files import read_candidates
    from groupnoise.clicks.log import read_clicks
    from groupnoise.core.checks import check_choice

    check_choice("--setting", setting, SETTINGS)
    readers: dict[str, Callable[..., Dataset]] = {
        "mil": read_bags,
        "pll": read_candidates,
        "rs": read_clicks,
    }
    return readers[setting](path, report=partial(typer.echo, err=True), **options)


def setting_of(dataset: Dataset) -> str:
    """Return "mil", "pll" or "rs" for a loaded data set."""
    kinds = {"BagDataset": "mil", "PartialLabelDataset": "pll", "ClickDataset": "rs"}
    return kinds[type(dataset).__name__]
