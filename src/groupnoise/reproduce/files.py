"""Files of reproductions: recipes, recorded trials, and checks that rerun some of them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from groupnoise.core.checks import closest_name
from groupnoise.core.words import counted
from groupnoise.exceptions import ConfigError, DataError
from groupnoise.io.files import parse_toml
from groupnoise.io.setting import find_setting
from groupnoise.reproduce.jobs import Job
from groupnoise.reproduce.methods import find_method, parameters_of
from groupnoise.reproduce.recipes import CLICK_PROTOCOLS, CRITERIA, Reading, Recipe, Row
from groupnoise.reproduce.run import PREPARATION, TrialResult
from groupnoise.reproduce.running import Plan, run_jobs

Measured = TypeVar("Measured")

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
        known = _parameters_in(recipe, row)
        for dataset in recipe.all_datasets:
            if row.decides and recipe.settings(name, dataset):
                raise ConfigError(f"{path}: the row {name} is a plain fit and takes no parameters.")
            _check_known(f"{path}: [{name}]", recipe.settings(name, dataset), known)
    for name, reading in recipe.readings.items():
        where = f"{path}: [reading.{name}]"
        _check_known(f"{where} of", [reading.of], recipe.rows)
        _check_known(f"{where} datasets", reading.datasets, recipe.all_datasets)
        _check_known(where, reading.parameters, _parameters_in(recipe, recipe.rows[reading.of]))
    for dataset, tables in recipe.by_dataset.items():
        _check_known(f"{path}: [dataset]", [dataset], recipe.all_datasets)
        _check_known(f"{path}: [dataset.{dataset}]", tables, recipe.rows)
    for dataset, tables in recipe.published.items():
        _check_known(f"{path}: [published]", [dataset], recipe.all_datasets)
        _check_known(f"{path}: [published.{dataset}]", tables, recipe.row_names)
    _check_known(f"{path}: [stand_ins]", recipe.stand_ins, recipe.datasets)


def _parameters_in(recipe: Recipe, row: Row) -> list[str]:
    prepared = PREPARATION if find_setting(recipe.setting).has_features else ()
    return [*parameters_of(find_method(row.method, recipe.setting)), *prepared]


def _require(where: str, table: dict[str, Any], keys: Iterable[str]) -> None:
    for key in keys:
        if key not in table:
            raise ConfigError(f"{where} lacks the key {key!r}.")


def _check_known(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    names = list(known)
    for key in given:
        if key in names:
            continue
        near = closest_name(key, names)
        hint = f"did you mean {near!r}?" if near else f"known: {', '.join(names)}."
        raise ConfigError(f"{where}: unknown key {key!r}; {hint}")


TOLERANCE = 0.005
"""Largest difference of a metric: other processors sum in another order."""
FINAL = "_final"
"""Suffix of the result files of the final seeds."""
ORIGIN = ("code", "commit", "dirty", "processor", "cores", "threads", "load", "ended")
"""Provenance recorded in a line; package versions are recorded once in the file."""


@dataclass(frozen=True)
class Repeated:
    """A metric of a recorded trial and of its rerun."""

    dataset: str
    method: str
    criterion: str
    metric: str
    seed: int
    kept: float
    again: float
    same_code: bool

    @property
    def agrees(self) -> bool:
        """Whether the two differ by no more than the tolerance."""
        return abs(self.kept - self.again) <= TOLERANCE

    def __str__(self) -> str:
        code = "" if self.same_code else ", kept by other code"
        chosen = f", chosen by {self.criterion}" if self.criterion else ""
        return (
            f"{self.dataset}, {self.method}, seed {self.seed}{chosen}: "
            f"{self.metric} kept {self.kept:.4f}, again {self.again:.4f}{code}"
        )


def check_trials(
    plan: Plan,
    kept: Sequence[TrialResult],
    n_trials: int,
    *,
    n_jobs: int | None = None,
    on_trial: Callable[[list[Repeated]], None] | None = None,
) -> list[Repeated]:
    """Rerun some of the recorded trials of a plan."""
    newest = {_trial_key(each): each for each in kept}
    places = {place[:3] for place in newest}
    known = [job for job in plan.jobs if (job.view.label, job.seed, job.row) in places]
    if not known:
        raise DataError(
            f"no trial of {plan.recipe.name} with these seeds, methods and data sets is kept; "
            "run it first without --check."
        )
    generator = np.random.default_rng()
    drawn = generator.choice(len(known), size=min(n_trials, len(known)), replace=False)
    figures: list[Repeated] = []

    def compare(pair: tuple[str, list[TrialResult]]) -> None:
        both = [(newest[_trial_key(r)], r) for r in pair[1] if _trial_key(r) in newest]
        found = [each for before, again in both for each in repeated_figures(before, again)]
        figures.extend(found)
        if on_trial is not None:
            on_trial(found)

    jobs = [partial(Job.run, known[number]) for number in drawn]
    run_jobs(jobs, n_jobs=n_jobs, on_result=compare)
    return figures


def _trial_key(result: TrialResult) -> tuple[str, int, str, str]:
    return result.dataset, result.seed, result.method, result.criterion


def repeated_figures(before: Any, again: Any, place: str | None = None) -> list[Repeated]:
    """Pair the common metrics of two results; `place` replaces the name of the data set."""
    return [
        Repeated(
            dataset=again.dataset if place is None else place,
            method=again.method,
            criterion=getattr(again, "criterion", ""),
            metric=metric,
            seed=again.seed,
            kept=before.metrics[metric],
            again=value,
            same_code=before.provenance.get("code") == again.provenance.get("code"),
        )
        for metric, value in again.metrics.items()
        if metric in before.metrics
    ]


def rerun_trial(
    before: Any,
    sets: Sequence[Any],
    run: Callable[..., tuple[list[Any], dict[str, str]]],
    *,
    place: str | None = None,
    **options: Any,
) -> list[Repeated]:
    """Rerun a recorded trial of a benchmark, and return its metrics beside those of the record.

    `run`: runs methods on some of `sets`. `options`: passed to it.
    """
    chosen = [each for each in sets if each.name == before.dataset]
    found, missing = run(chosen, [before.seed], methods=[before.method], n_jobs=1, **options)
    if not found:
        raise DataError(next(iter(missing.values()), f"no set is called {before.dataset!r}."))
    return repeated_figures(before, found[0], place)


def read_kept_trials(path: Path) -> list[dict[str, Any]]:
    """Return recorded trials: `rows` of a result file, or the lines of a log."""
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".jsonl":
            return [dict(json.loads(line)) for line in text.splitlines()]
        return [dict(row) for row in json.loads(text)["rows"]]
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; run it first without --check.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} holds no trials ({type(error).__name__}: {error}).") from None


def parse_row(of: Callable[..., Measured], row: dict[str, Any]) -> Measured:
    """Return a recorded row as a trial."""
    try:
        return of(**row)
    except TypeError as error:
        words = str(error).rpartition(")")[2].strip()
        raise DataError(
            f"what is kept there are trials of something else ({words}); take the trials.jsonl of "
            "a run, or the result file that names this command."
        ) from None


def trial_line(result: TrialResult) -> str:
    """Return a trial as one line: its name, metrics, settings, cost and provenance."""
    figures = " ".join(f"{name}={value:.6f}" for name, value in result.metrics.items())
    epochs = f"{counted(result.n_epochs, 'epochs')}, " if result.n_epochs else ""
    made = [f"{name} {result.provenance[name]}" for name in ORIGIN if name in result.provenance]
    return (
        f"{result.dataset} | {result.method} | {result.criterion} | seed {result.seed} | {figures} "
        f"| validation={result.validation:.4f} | {result.chosen_settings} "
        f"| {result.n_fits} fits, {epochs}{result.processor_seconds:.1f} s"
        f"{' | ' if made else ''}{'; '.join(made)}"
    )


def read_trial_line(setting: str, line: str) -> TrialResult:
    """Return a trial as `trial_line` wrote it."""
    dataset, method, criterion, seed, figures, validation, settings, cost, *origin = line.split(
        " | "
    )
    metrics = {
        name.strip(): float(value)
        for name, value in re.findall(r"([^=]+)=([-\d.]+)(?: |$)", figures)
    }
    numbers = [float(each) for each in re.findall(r"[\d.]+", cost)]
    return TrialResult(
        setting=setting,
        dataset=dataset,
        method=method,
        seed=int(seed.removeprefix("seed ")),
        metrics=metrics,
        validation=float(validation.removeprefix("validation=")),
        chosen_settings=ast.literal_eval(settings),
        curve=[],
        seconds=numbers[-1],
        processor_seconds=numbers[-1],
        criterion=criterion,
        n_fits=int(numbers[0]),
        n_epochs=int(numbers[1]) if "epochs" in cost else 0,
        provenance=_read_origin(origin[0]) if origin else {},
    )


def _read_origin(text: str) -> dict[str, Any]:
    """Parse the provenance of a trial; older lines hold the code and the time alone."""
    earlier = re.fullmatch(r"code (\w+), (\S+)", text)
    if earlier:
        return {"code": earlier[1], "ended": earlier[2]}
    pairs = dict(part.split(" ", 1) for part in text.split("; "))
    return {name: _parse_value(name, value) for name, value in pairs.items()}


def _parse_value(name: str, value: str) -> Any:
    if value in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[value]
    if name in ("cores", "threads"):
        return int(value)
    return float(value) if name == "load" else value


def read_result_file(path: Path, name: str) -> tuple[Recipe, list[TrialResult]]:
    """Return the recipe that a result file was made by, and its trials.

    Returns `recipe`: as recorded; `results`: without those of an earlier recipe. `path`: what
    `benchmarks/keep_reproduction.py` wrote.
    """
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        text, lines, outdated = content["recipe"], content["trials"], content["outdated"]
        recipe = parse_recipe("\n".join(text), path.with_name(f"{name}.toml"))
        if content["name"].removesuffix(FINAL) != f"reproduce_{name}":
            raise DataError(f"{path} holds {content['name']}, not reproduce_{name}.")
        trials = [read_trial_line(recipe.setting, line) for line in lines]
    except (OSError, ValueError, KeyError, TypeError, IndexError, SyntaxError) as error:
        raise DataError(
            f"{path} is not a result file of reproduce ({type(error).__name__}: {error}); take one "
            "of benchmarks/results/reproduce_*.json."
        ) from None
    return recipe, [each for each in trials if f"{each.dataset} | {each.method}" not in outdated]
