"""Reading a recipe: strict TOML, so that a misspelt key is found now and not in an hour."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from groupnoise.core.checks import near_name
from groupnoise.exceptions import ConfigError
from groupnoise.io.files import parse_toml
from groupnoise.io.setting import find_setting
from groupnoise.reproduce.methods import find_method, parameters_of
from groupnoise.reproduce.recipes import CLICK_PROTOCOLS, CRITERIA, Reading, Recipe, Row
from groupnoise.reproduce.run import PREPARATION

OUR_ROWS = ("paper", "ours")
NO_RECIPE = "ours-no-recipe"
"""The row of a fit that decides everything itself; the key `no_recipe` asks for it."""
TOP_KEYS = (
    *("setting", "datasets", "stand_ins", "notes", "protocol", *OUR_ROWS, "no_recipe", "variant"),
    *("baseline", "reading", "dataset", "published", "noise", "pairs", "examples"),
)
PROTOCOL_KEYS = {
    "mil": ("fractions", "trials", "follow_test"),
    "pll": ("fractions", "trials", "criteria", "ordered"),
    "rs": ("name", "size", "min_size", "full", "refit", "trials"),
}
NEEDED_KEYS = {"mil": ("trials", "fractions"), "pll": ("trials", "fractions"), "rs": ("trials",)}
PART_KEYS = {
    "noise": ("epsilon", "tau", "fixed"),
    "pairs": ("step",),
    "examples": ("n_items", "top"),
}


def read_recipe(path: Path | str) -> Recipe:
    """Read a recipe; an unknown key or a missing one is an error that says where."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path} does not exist; give the name or path of a recipe.") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not readable as TOML: {error}.") from None
    return parse_recipe(text, path)


def parse_recipe(text: str, path: Path) -> Recipe:
    """Return the recipe of a text; the stem of `path` is its name."""
    try:
        content = parse_toml(text)
    except ValueError as error:
        raise ConfigError(f"{path} is not readable as TOML: {error}.") from None
    _check_known(str(path), content, TOP_KEYS)
    for key in ("setting", "datasets", "protocol"):
        if key not in content:
            raise ConfigError(f"{path} lacks the key {key!r}.")
    if not isinstance(content.get("no_recipe", False), bool):
        raise ConfigError(f"{path}: no_recipe must be true or false.")
    setting = content["setting"]
    if setting not in PROTOCOL_KEYS:
        raise ConfigError(f"{path}: setting must be mil, pll or rs; got {setting!r}.")
    _check_protocol(path, setting, content["protocol"])
    for part, keys in PART_KEYS.items():
        if part in content:
            _check_known(f"{path}: [{part}]", content[part], keys)
            _require(f"{path}: [{part}]", content[part], keys)
    recipe = Recipe(
        name=path.stem,
        setting=setting,
        datasets=tuple(content["datasets"]),
        protocol=content["protocol"],
        rows=_rows(content),
        readings=_readings(path, content),
        stand_ins={name: tuple(names) for name, names in content.get("stand_ins", {}).items()},
        by_dataset=content.get("dataset", {}),
        published=content.get("published", {}),
        noise=content.get("noise"),
        pair_step=content.get("pairs", {}).get("step"),
        examples=content.get("examples"),
        notes=tuple(content.get("notes", ())),
        text=text,
    )
    _check_rows(path, recipe)
    return recipe


def _rows(content: dict[str, Any]) -> dict[str, Row]:
    """Return ours, the variants, the plain fit and the baselines, in this order."""
    ours = {name: content[name] for name in OUR_ROWS if name in content}
    tables = {**ours, **content.get("variant", {})}
    rows = {
        name: Row("max-matching", _plain(table), table.get("like"), table.get("supervised", False))
        for name, table in tables.items()
    }
    if content.get("no_recipe", False):
        rows[NO_RECIPE] = Row("max-matching", decides=True)
    for name, table in content.get("baseline", {}).items():
        method = table.get("method", name)
        rows[name] = Row(method, _plain(table), table.get("like"), table.get("supervised", False))
    return rows


def _plain(table: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a row, without what says how the row is made."""
    return {k: v for k, v in table.items() if k not in ("like", "supervised", "method")}


def _readings(path: Path, content: dict[str, Any]) -> dict[str, Reading]:
    readings = {}
    for name, table in content.get("reading", {}).items():
        _require(f"{path}: [reading.{name}]", table, ("of",))
        parameters = {key: v for key, v in table.items() if key not in ("of", "datasets")}
        readings[name] = Reading(table["of"], parameters, tuple(table.get("datasets", ())))
    return readings


def _check_protocol(path: Path, setting: str, protocol: dict[str, Any]) -> None:
    where = f"{path}: [protocol]"
    _check_known(where, protocol, PROTOCOL_KEYS[setting])
    _require(where, protocol, NEEDED_KEYS[setting])
    for criterion in protocol.get("criteria", ()):
        _check_known(f"{where} criteria", [criterion], CRITERIA)
    if "name" in protocol:
        _check_known(f"{where} name", [protocol["name"]], CLICK_PROTOCOLS)


def _check_rows(path: Path, recipe: Recipe) -> None:
    """Refuse rows, data sets and parameters that the recipe or the estimators do not know."""
    for name, row in recipe.rows.items():
        if row.like is not None:
            _check_known(f"{path}: [{name}] like", [row.like], recipe.rows)
        known = list(parameters_of(find_method(row.method, recipe.setting)))
        if find_setting(recipe.setting).has_features:
            known += PREPARATION
        for dataset in recipe.all_datasets:
            if row.decides and recipe.settings(name, dataset):
                raise ConfigError(f"{path}: the row {name} is a plain fit and takes no parameters.")
            _check_known(f"{path}: [{name}]", recipe.settings(name, dataset), known)
    for name, reading in recipe.readings.items():
        where = f"{path}: [reading.{name}]"
        _check_known(f"{where} of", [reading.of], recipe.rows)
        _check_known(f"{where} datasets", reading.datasets, recipe.all_datasets)
        known = list(parameters_of(find_method(recipe.rows[reading.of].method, recipe.setting)))
        if find_setting(recipe.setting).has_features:
            known += PREPARATION
        _check_known(where, reading.parameters, known)
    for dataset, tables in recipe.by_dataset.items():
        _check_known(f"{path}: [dataset]", [dataset], recipe.all_datasets)
        _check_known(f"{path}: [dataset.{dataset}]", tables, recipe.rows)
    for dataset, tables in recipe.published.items():
        _check_known(f"{path}: [published]", [dataset], recipe.all_datasets)
        _check_known(f"{path}: [published.{dataset}]", tables, recipe.row_names)
    _check_known(f"{path}: [stand_ins]", recipe.stand_ins, recipe.datasets)


def _require(where: str, table: dict[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        if key not in table:
            raise ConfigError(f"{where} lacks the key {key!r}.")


def _check_known(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    for key in given:
        if key in names:
            continue
        near = near_name(key, names)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(names)}."
        raise ConfigError(f"{where}: unknown key {key!r}; {hint}")
