"""Recipes: what an experiment compares, on which data, under which protocol; strict TOML."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from groupnoise.exceptions import ConfigError
from groupnoise.experiments._methods import (
    MethodEntry,
    find_method,
    import_class,
    parameters_of,
)
from groupnoise.experiments._run import Method

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OUR_ROWS = ("paper", "ours")
TOP_KEYS = (
    "setting",
    "datasets",
    "protocol",
    *OUR_ROWS,
    "variant",
    "rival",
    "dataset",
    "published",
)
PROTOCOL_KEYS = {
    "mil": ("fractions", "trials"),
    "pll": ("fractions", "trials", "criterion"),
    "rs": ("name", "size", "min_size", "full", "trials"),
}
QUICK_EPOCHS = 2


@dataclass(frozen=True)
class Recipe:
    """One experiment, read from a file.

    Attributes
    ----------
    name : str
        The name of the file.
    setting : {"mil", "pll", "rs"}
        What kind of data it is about.
    datasets : tuple of str
        Names from `groupnoise data list`.
    protocol : dict
        How data is cut and judged, and how many trials there are.
    tables : dict
        For each method its settings; a list is a grid.
    rivals : frozenset of str
        Which of them are not Max-Matching under other settings.
    by_dataset : dict
        Settings of a method that differ on one data set.
    published : dict
        Figures to print beside ours: dataset, then method, then metric.
    """

    name: str
    setting: str
    datasets: tuple[str, ...]
    protocol: dict[str, Any]
    tables: dict[str, dict[str, Any]]
    rivals: frozenset[str]
    by_dataset: dict[str, dict[str, dict[str, Any]]]
    published: dict[str, dict[str, dict[str, float]]]

    def method(self, name: str, dataset: str, *, quick: bool = False) -> Method:
        """Return a method with its grid for one data set.

        Parameters
        ----------
        name : str
            "paper", "ours", a variant or a rival of the recipe.
        dataset : str
            The data set it will be run on.
        quick : bool
            Take the first value of every list and few epochs: does it run?
        """
        entry = find_method(name if name in self.rivals else "max-matching", self.setting)
        known = parameters_of(entry)
        settings = {**self.tables[name], **self.by_dataset.get(dataset, {}).get(name, {})}
        for key in settings:
            _refuse_unknown(f"{self.name}: [{name}]", key, known)
        grid = {key: v if isinstance(v, list) else [v] for key, v in settings.items()}
        if quick:
            grid = {key: values[:1] for key, values in grid.items()}
            small = {"max_epochs": QUICK_EPOCHS, "n_members": 1}
            grid |= {key: [value] for key, value in small.items() if key in known}
        return Method(name, _Maker(entry, "random_state" in known), grid)


@dataclass(frozen=True)
class _Maker:
    """Builds the estimator of a method; a class, so that processes can be handed one."""

    entry: MethodEntry
    is_random: bool

    def __call__(self, *, random_state: int, **settings: Any) -> Any:
        if self.is_random:
            settings["random_state"] = random_state
        return import_class(self.entry)(**settings)


def read_recipe(path: Path | str) -> Recipe:
    """Read a recipe; an unknown key or a missing one is an error that says where."""
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; give the name or path of a recipe.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not readable as TOML: {error}.") from None
    for key in content:
        _refuse_unknown(str(path), key, TOP_KEYS)
    for key in ("setting", "datasets", "protocol"):
        if key not in content:
            raise ConfigError(f"{path} lacks the key {key!r}.")
    setting = content["setting"]
    if setting not in PROTOCOL_KEYS:
        raise ConfigError(f"{path}: setting must be mil, pll or rs; got {setting!r}.")
    for key in content["protocol"]:
        _refuse_unknown(f"{path}: [protocol]", key, PROTOCOL_KEYS[setting])
    tables = {name: content[name] for name in OUR_ROWS if name in content}
    tables |= content.get("variant", {}) | content.get("rival", {})
    recipe = Recipe(
        name=path.stem,
        setting=setting,
        datasets=tuple(content["datasets"]),
        protocol=content["protocol"],
        tables=tables,
        rivals=frozenset(content.get("rival", {})),
        by_dataset=content.get("dataset", {}),
        published=content.get("published", {}),
    )
    for name in tables:
        for dataset in recipe.datasets:
            recipe.method(name, dataset)  # a misspelt parameter is found now, not in an hour
    return recipe


def _refuse_unknown(where: str, key: str, known: Mapping[str, Any] | tuple[str, ...]) -> None:
    if key in known:
        return
    near = get_close_matches(key, list(known), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
    raise ConfigError(f"{where}: unknown key {key!r}; {hint}")
