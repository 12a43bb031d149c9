"""`groupnoise evaluate`: a model folder and data in, figures of merit out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from groupnoise.cli.options import DataOptions, reads_data
from groupnoise.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from groupnoise.cli.sources import Found
    from groupnoise.io.setting import Evaluation
    from groupnoise.io.training_record import TrainingRecord

PARTS = ("held-out", "all")
MAX_CLASSES = 20
"""Classes whose own figures are printed; `--json` has them all."""


@reads_data
def evaluate(
    model: Annotated[Path, typer.Argument(help="Folder written by `groupnoise fit`.")],
    data: Annotated[str, typer.Argument(help="As in `groupnoise fit`.")],
    options: DataOptions,
    on: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this annotation at run time on 3.10
        typer.Option(
            help="Of the data that the model was trained on, score held-out groups or all.",
            show_default="held-out",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the sampled negatives (rs).")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Measure a model: on the data of its training only what was held out, on other data all.

    Bags are scored by bag and, where the truth is known, by instance; rows by their candidates
    and their truth; histories by their last click.
    """
    from groupnoise.cli.sources import find_model_and_data
    from groupnoise.core.checks import check_choice
    from groupnoise.io.setting import as_record

    if on is not None:
        check_choice("--on", on, PARTS)
    fitted, found, record = find_model_and_data(model, data, options)
    is_same = record is not None and record.fingerprint == found.setting.fingerprint(found.dataset)
    part = on or ("held-out" if is_same else "all")
    held_out = record.rows if record is not None and is_same else None
    if part == "held-out":
        _check_held_out(record, is_same, model, data)
    rows = held_out if part == "held-out" else None
    result = found.setting.evaluate(fitted, found.dataset, rows, seed=seed)
    trained_on = None
    if held_out is not None:
        trained_on = 0 if rows is not None else result.counts["groups"] - len(held_out)
    elif record is not None:
        trained_on = record.n_trained_among(found.setting, found.dataset)
    if as_json:
        about = {"model": str(model), "data": found.dataset.name, "on": part}
        answer = {**about, "trained_on": trained_on, **as_record(result)}
        typer.echo(json.dumps(answer, indent=2))
        return
    typer.echo(_about_groups(found, result, part, trained_on, record))
    for note in result.notes:
        typer.echo(note)
    _show(result)


def _check_held_out(record: TrainingRecord | None, is_same: bool, model: Path, data: str) -> None:
    """Refuse to score held-out groups where there are none."""
    if record is None or not is_same:
        raise ParameterError(
            f"{data} is not the data that {model} was trained on, so none of it was held out; "
            "leave out --on."
        )
    if not record.held_out:
        raise DataError(
            f"{model} was trained on all of {data}, nothing was held out; give other data, fit "
            "with --validation 0.1, or say --on all."
        )


def _about_groups(
    found: Found,
    result: Evaluation,
    part: str,
    trained_on: int | None,
    record: TrainingRecord | None,
) -> str:
    """Say on how many groups the figures rest, and whether they were trained on."""
    groups = f"{found.dataset.name}: {result.counts['groups']} {found.setting.units}"
    if part == "held-out":
        return f"{groups}, held out of training"
    if trained_on is None or record is None:
        return f"{groups}; the model does not say what it was trained on"
    if trained_on:
        return f"{groups}, {trained_on} of them trained on"
    return f"{groups}, none of them trained on"


def _show(result: Evaluation) -> None:
    if result.majority:
        typer.echo(f"{'':<28}{'model':>8}{result.beside:>12}")
    for name, value in result.metrics.items():
        beside = result.majority.get(name)
        typer.echo(f"{name:<28}{value:>8.4f}" + ("" if beside is None else f"{beside:>12.4f}"))
    if not result.per_class:
        return
    figures = list(dict.fromkeys(name for found in result.per_class.values() for name in found))
    width = max(len(name) for name in result.per_class)
    width = max(5, min(24, width))
    widths = [max(7, len(name) + 2) for name in figures]
    titles = [name.rjust(n) for name, n in zip(figures, widths, strict=True)]
    typer.echo(f"\n{'class':<{width}}" + "".join(titles))
    for number, (label, found) in enumerate(result.per_class.items()):
        if number == MAX_CLASSES:
            typer.echo(f"... and {len(result.per_class) - number} more classes; see --json")
            break
        cells = [_cell(found.get(name)).rjust(n) for name, n in zip(figures, widths, strict=True)]
        typer.echo(f"{label[:width]:<{width}}" + "".join(cells))


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.3f}"
