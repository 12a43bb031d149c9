"""`groupnoise methods`, and the method that a command names with its parameters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.cli.sources import Found

NAMES_A_LABEL = ("background_label", "negative_label")
"""Parameters whose value is a label of the data, which is text whatever it looks like."""
NOT_BY_PARAM = {
    "random_state": "--seed decides all randomness",
    "on_epoch": "it is a function, for use from Python",
}
"""Parameters of estimators that no word sets, and why."""
AUTO_METHOD = "auto"
COMPARISON_SECONDS = 600.0


def methods(
    setting: Annotated[
        str | None, typer.Option(help="Only methods of this setting: mil, pll or rs.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """List every method that `groupnoise fit` can train, with its parameters."""
    from groupnoise.cli.options import SETTINGS
    from groupnoise.core.checks import check_choice
    from groupnoise.reproduce.methods import METHODS, parameters_of

    if setting is not None:
        check_choice("--setting", setting, SETTINGS)
    chosen = [method for method in METHODS if setting in (None, method.setting)]
    if as_json:
        rows = [
            {
                "name": method.name,
                "setting": method.setting,
                "paper": method.source,
                "parameters": {k: repr(v) for k, v in parameters_of(method).items()},
            }
            for method in chosen
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "setting", "paper", "parameters")
    for method in chosen:
        names = (f"{key}={value!r}" for key, value in parameters_of(method).items())
        table.add_row(method.name, method.setting, method.source, ", ".join(names))
    Console().print(table)


def chosen_method(
    found: Found, training: Any, budget: str | None, seed: int, quiet: bool
) -> tuple[str, Any]:
    """Return the method that groups held out of the training part prefer, and its estimator."""
    from groupnoise.decisions.portfolio import parse_budget
    from groupnoise.reproduce.compare import make_estimator
    from groupnoise.reproduce.methods import choose_method

    seconds = COMPARISON_SECONDS if budget is None else parse_budget(budget)
    choice = choose_method(
        found.setting, training, budget=seconds, seed=seed, on_fit=None if quiet else say_fit
    )
    typer.echo(choice.sentence)
    for note in choice.comparison.notes:
        typer.echo(note)
    estimator = make_estimator(choice.method, seed)
    if budget is not None and "budget" in estimator.get_params():
        estimator.set_params(budget=budget)
    return choice.method.name, estimator


def say_fit(method: str, split: int, value: float | None) -> None:
    """Say what a fit of a comparison came to, on the error stream."""
    figure = "failed" if value is None else f"{value:.4f}"
    typer.echo(f"split {split + 1}: {method} {figure}", err=True)


def make_estimator(
    method: str, pairs: list[str], paper: bool, seed: int, found: Found | None
) -> Any:
    """Return the estimator of a method with the parameters given as `name=value` words."""
    from groupnoise.reproduce.methods import find_method, import_class, parameters_of

    entry = find_method(method, "rs" if found is None else found.setting.name)
    estimator_class = import_class(entry)
    known = parameters_of(entry)
    labels = [] if found is None else found.setting.class_names(found.dataset)
    settings = read_parameters(pairs, known, method=method, fixed=entry.fixed, labels=labels)
    if "random_state" in known:
        settings["random_state"] = seed
    if paper and not hasattr(estimator_class, "paper"):
        raise ParameterError(f"--paper goes with max-matching; {method} has no such preset.")
    return (estimator_class.paper if paper else estimator_class)(**entry.fixed, **settings)


def check_names(method: str, pairs: list[str], setting: str | None) -> None:
    """Refuse a method or a parameter that no setting has, before data is read.

    `pairs`: as `name=value`. `setting`: the only one to look at, if the user said it.
    """
    from groupnoise.core.checks import did_you_mean
    from groupnoise.reproduce.methods import METHODS, parameters_of

    entries = [each for each in METHODS if each.name == method]
    if not entries:
        near = did_you_mean(method, {each.name for each in METHODS})
        raise ParameterError(
            f"no method is called {method!r}{near}; `groupnoise methods` lists them."
        )
    asked = [each for each in entries if setting in (None, each.setting)]
    if pairs and asked:
        known = {name: value for each in asked for name, value in parameters_of(each).items()}
        read_parameters(pairs, known, method=method)


def read_parameters(
    pairs: list[str],
    known: Mapping[str, Any],
    *,
    method: str = "max-matching",
    fixed: Mapping[str, Any] | None = None,
    labels: Sequence[str] = (),
) -> dict[str, Any]:
    """Turn `name=value` words into parameters, refusing names the method does not have.

    `method`: its name, for errors. `fixed`: parameters that make the method what it is. `labels`:
    the classes of the data, one of which a parameter may name.
    """
    from groupnoise.core.checks import near_name

    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ParameterError(f"--param takes name=value; got {pair!r}.")
        if name in NOT_BY_PARAM:
            raise ParameterError(f"--param {name!r} cannot be given here: {NOT_BY_PARAM[name]}.")
        if fixed and name in fixed:
            raise ParameterError(
                f"--param {name!r} is what makes {method} (it is {fixed[name]!r}); set it with "
                "--method max-matching."
            )
        if name not in known:
            near = near_name(name, known)
            there = f"known: {', '.join(known)}" if known else "it has none"
            hint = f"did you mean {near!r}?" if near else f"{there}."
            raise ParameterError(f"--param {name!r} is no parameter of {method}; {hint}")
        settings[name] = _read_value(name, text, labels)
    return settings


def _read_value(name: str, text: str, labels: Sequence[str]) -> Any:
    """Return the value of a parameter: a label as the data spells it, JSON, or a plain word."""
    from groupnoise.core.checks import did_you_mean

    try:
        # As messages and docs write it, which are Python's, unless a label is called so.
        value = None if text == "None" and text not in labels else json.loads(text)
    except json.JSONDecodeError:
        value = text  # plain words need no quotes
    if name not in NAMES_A_LABEL or not labels or value in (None, "auto"):
        return value
    for spelling in (text, str(value)):
        if spelling in labels:
            return spelling
    shown = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
    raise ParameterError(
        f"--param {name}={text} names no label of the data{did_you_mean(text, labels)}; there are "
        f"{shown}."
    )
