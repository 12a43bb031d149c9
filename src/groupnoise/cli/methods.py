"""`groupnoise methods`: every method that can be fitted, by name."""

from __future__ import annotations

import json
from typing import Annotated

import typer


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
