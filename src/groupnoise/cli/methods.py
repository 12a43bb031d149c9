"""`groupnoise methods` and `compare`, and parsing of methods and their parameters."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.options import (
    SETTINGS,
    AsJson,
    DataName,
    DataOptions,
    check_output,
    describe_options,
    echo_err,
    option,
    option_name,
    progress_bars,
    with_data_options,
)
from groupnoise.cli.sources import LoadedData, load_data
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.clicks.evaluation.recall_metrics import Interval
    from groupnoise.reproduce.comparison import ComparisonOfMethods

LABEL_PARAMETERS = ("background_label", "negative_label")
"""Parameters whose value is a label of the data, and so text."""
UNSETTABLE = {
    "random_state": "--seed decides all randomness",
    "on_epoch": "it is a function, for use from Python",
}
"""Parameters that cannot be set by --param, and why."""
AUTO_METHOD = "auto"
DEFAULT_SECONDS = 600.0


@describe_options(setting="Only methods of this setting: mil, pll or rs.")
def methods(setting: str | None = None, as_json: AsJson = False) -> None:
    """List every method that `groupnoise fit` can train, with its parameters."""
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


def choose_best_method(
    found: LoadedData, training: Any, budget: str | None, seed: int, quiet: bool
) -> tuple[str, Any]:
    """Return the method that is best on held-out training groups, and its estimator."""
    from groupnoise.decisions.portfolio import parse_budget
    from groupnoise.reproduce.compare import make_estimator
    from groupnoise.reproduce.methods import choose_method

    seconds = DEFAULT_SECONDS if budget is None else parse_budget(budget)
    choice = choose_method(
        found.setting, training, budget=seconds, seed=seed, on_fit=None if quiet else echo_fit
    )
    typer.echo(choice.sentence)
    for note in choice.comparison.notes:
        typer.echo(note)
    estimator = make_estimator(choice.method, seed)
    if budget is not None and "budget" in estimator.get_params():
        estimator.set_params(budget=budget)
    return choice.method.name, estimator


def echo_fit(method: str, split: int, value: float | None) -> None:
    """Print the score of a fit on the error stream."""
    figure = "failed" if value is None else f"{value:.4f}"
    echo_err(f"split {split + 1}: {method} {figure}")


def make_estimator(
    method: str, pairs: list[str], paper: bool, seed: int, found: LoadedData | None
) -> Any:
    """Return the estimator of a method with parameters given as `name=value`."""
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


def check_method(method: str, pairs: list[str], setting: str | None) -> None:
    """Refuse an unknown method or parameter before data is read.

    `pairs`: as `name=value`. `setting`: if the user gave one.
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
    """Parse `name=value` pairs, refusing names that the method does not have."""
    from groupnoise.core.checks import closest_name

    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ParameterError(f"--param takes name=value; got {pair!r}.")
        if name in UNSETTABLE:
            raise ParameterError(f"--param {name!r} cannot be given here: {UNSETTABLE[name]}.")
        if fixed and name in fixed:
            raise ParameterError(
                f"--param {name!r} is what makes {method} (it is {fixed[name]!r}); set it with "
                "--method max-matching."
            )
        if name not in known:
            near = closest_name(name, known)
            there = f"known: {', '.join(known)}" if known else "it has none"
            hint = f"did you mean {near!r}?" if near else f"{there}."
            raise ParameterError(f"--param {name!r} is no parameter of {method}; {hint}")
        settings[name] = _read_value(name, text, labels)
    return settings


def _read_value(name: str, text: str, labels: Sequence[str]) -> Any:
    """Return the value of a parameter: a label of the data, JSON, or a plain word."""
    from groupnoise.core.checks import did_you_mean

    try:
        # None as in Python, unless a label has this name.
        value = None if text == "None" and text not in labels else json.loads(text)
    except json.JSONDecodeError:
        value = text  # plain words need no quotes
    if name not in LABEL_PARAMETERS or not labels or value in (None, "auto"):
        return value
    for spelling in (text, str(value)):
        if spelling in labels:
            return spelling
    shown = ", ".join(labels[:12]) + (", ..." if len(labels) > 12 else "")
    raise ParameterError(
        f"--param {name}={text} names no label of the data{did_you_mean(text, labels)}; there are "
        f"{shown}."
    )


@with_data_options
@describe_options(
    methods=option("Names from `groupnoise methods`, separated by commas.", show_default="all"),
    splits=option("Maximum number of splits.", min=1, show_default="5; 1 with --protocol"),
    protocol="rs: split the log by a protocol, with one seed per split: "
    "leave_one_out, authors, time:0.9, time:2016-05-31:successive, cold_users.",
    share="Fraction of groups held out in each split.",
    budget="Time after which no new fit starts: 90s, 10m, 2h, or none.",
    seed=option("Random seed of splits and fits.", min=0),
    page="Also write an HTML page with a plot of the intervals.",
)
def compare(
    data: DataName,
    options: DataOptions,
    methods: str | None = None,
    splits: int | None = None,
    protocol: str | None = None,
    share: float = 0.2,
    budget: str = "10m",
    seed: int = 0,
    page: Path | None = None,
    as_json: AsJson = False,
) -> None:
    """Compare all methods on your data: means, intervals, significance of the lead.

    Methods are ranked by true labels where the data has them, otherwise by bag labels, candidates
    or clicks. Every method is trained at its defaults, with the same feature scaling.

    Example: groupnoise compare bags.csv --setting mil --budget 2m
    """
    from groupnoise.decisions.portfolio import parse_budget
    from groupnoise.io.files import write_text
    from groupnoise.reproduce.compare import compare_methods, methods_to_compare

    seconds = None if budget == "none" else parse_budget(budget, default=DEFAULT_SECONDS)
    check_output(page)
    found = load_data(data, options)
    names = [name.strip() for name in methods.split(",")] if methods else []
    entries = methods_to_compare(found.setting.name, names)
    n_splits = splits or (5 if protocol is None else 1)
    with _progress(len(entries) * n_splits) as advance:
        common: dict[str, Any] = {"n_splits": n_splits, "budget": seconds, "seed": seed}
        common["on_fit"] = advance
        result: ComparisonOfMethods
        if protocol is not None:
            from groupnoise.reproduce.compare import compare_under_protocol

            result = compare_under_protocol(
                found.setting, found.dataset, entries, protocol, **common
            )
        else:
            result = compare_methods(found.setting, found.dataset, entries, share=share, **common)
    command = fit_command(result.leader.name, found, options)
    if page is not None:
        from groupnoise.reproduce.report.pages import comparison_page

        write_text(page, comparison_page(result, command))
    if as_json:
        typer.echo(json.dumps({**result.as_record(), "command": command}, indent=2))
        return
    _show(result, found)
    typer.echo(command)
    if page is not None:
        typer.echo(f"page: {page}")


def fit_command(method: str, found: LoadedData, options: DataOptions) -> str:
    """Return the command that fits a compared method on the same data."""
    from groupnoise.reproduce.methods import compared_parameters, find_method

    words = ["groupnoise", "fit", found.source]
    if options.setting is not None:
        words += ["--setting", options.setting]
    for name, value in options.given.items():
        if isinstance(value, bool):
            words.append("--header" if value else "--no-header")
        else:
            words += [option_name(name).split("/")[0], str(value)]
    if method != "max-matching":
        words += ["--method", method]
        entry = find_method(method, found.setting.name)
        for name, value in compared_parameters(entry).items():
            if name not in entry.fixed:
                words += ["-p", f"{name}={value}"]
    return shlex.join([*words, "-o", "runs/model"])


def _show(result: ComparisonOfMethods, found: LoadedData) -> None:
    typer.echo(result.heading(found.setting.units))
    rows = [("method", "mean", "95 % interval", "behind the first", "splits", "seconds a fit")]
    for method in result.ranked:
        mean, behind = result.interval(method), result.behind(method)
        level = ", level" if _ends(behind) and result.is_tied(method) else ""
        if result.is_inconclusive(method):
            level = ", too few groups to tell"
        gap = f"{behind.mean:.3f} {_ends(behind)}{level}"
        rows.append(
            (
                method.name,
                f"{mean.mean:.3f}",
                _ends(mean),
                "" if method is result.leader else gap,
                str(len(method.splits)),
                f"{method.seconds:.1f}",
            )
        )
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    widths[0] = max(widths[0], *(len(method.name) for method in result.methods))
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        typer.echo("  ".join(cells).rstrip())
    for method in result.methods:
        if method.failed is not None:
            typer.echo(f"{method.name:<{widths[0]}}  {method.failed}")
    for note in result.notes:
        typer.echo(note)
    typer.echo(f"\n{result.verdict()} To fit {result.leader.name}:")


def _ends(interval: Interval) -> str:
    return "" if math.isnan(interval.low) else f"[{interval.low:.3f}, {interval.high:.3f}]"


@contextmanager
def _progress(n_fits: int) -> Iterator[Callable[[str, int, float | None], None]]:
    """Yield a callback for finished fits: a progress bar, or lines without a terminal."""
    bars = progress_bars("count")
    if not bars.console.is_terminal:
        yield echo_fit
        return
    with bars as progress:
        task = progress.add_task("fitting", total=n_fits)

        def advance(method: str, split: int, value: float | None) -> None:
            progress.update(task, advance=1, description=f"split {split + 1}: {method}")

        yield advance
