"""`groupnoise replay`: logged impressions in, the click-through of other recommenders out."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.cli.options import DataOptions, reads_histories
from groupnoise.core.words import counted
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.clicks.replay import ReplayedPolicy

# typer reads these annotations at run time, so they must also hold on Python 3.10.
Column = str | None


@reads_histories
def replay(
    log: Annotated[
        str,
        typer.Argument(
            help="Impressions: one row per item shown, or the folder of `groupnoise serve "
            "--feedback`."
        ),
    ],
    options: DataOptions,
    model: Annotated[
        list[Path] | None,
        typer.Option(help="Folder written by `fit`: what would it earn? May be repeated."),
    ] = None,
    histories: Annotated[
        Column,
        typer.Option(help="Clicks before the impressions, in any form that `fit` reads."),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(help="Column with the chance that another policy gives each row."),
    ] = None,
    user: Annotated[Column, typer.Option(help="Column of who was shown something.")] = None,
    item: Annotated[Column, typer.Option(help="Column of the item shown.")] = None,
    propensity: Annotated[
        Column, typer.Option(help="Column of the chance that the item had to be shown there.")
    ] = None,
    clicked: Annotated[
        Column, typer.Option(help="Column that says 1 where it was clicked.")
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, help="A model shows one of its best so many, drawn evenly.")
    ] = 10,
    clip: Annotated[
        float | None, typer.Option(help="The largest weight of a row: less variance, more bias.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides the intervals.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Estimate what recommenders would earn from impressions that another one made.

    Every row weighs as much as the recommender would rather have shown it than the log did:
    inverse propensity (IPS) and its self-normalised form (SNIPS), with 95 % intervals over users.

    Example: groupnoise replay shown.csv --model runs/a --model runs/b --histories clicks.csv
    """
    from dataclasses import asdict

    from groupnoise.clicks.replay import (
        about_replay,
        logged_by_version,
        read_impressions,
        replay_policy,
    )

    if model and histories is None:
        raise ParameterError("--model needs --histories, the clicks that a model answers by.")
    shown = read_impressions(
        log,
        user=user,
        item=item,
        propensity=propensity,
        clicked=clicked,
        targets=tuple(target or ()),
        report=partial(typer.echo, err=True),
        **options.form,
    )
    by_version = logged_by_version(shown, seed=seed)
    if not model and not target and not by_version:
        raise ParameterError(
            "nothing is to be replayed: give --model with --histories, or --target with the "
            "column of another policy's chances."
        )
    chances = dict(shown.targets)
    notes = []
    if model:
        answered, n_new = _chances_of_models(model, str(histories), options, shown, top)
        chances |= answered
        if n_new:
            notes.append(f"{counted(n_new, 'users')} without a history answered by popularity")
    found = [
        replay_policy(shown, row_chances, name=name, clip=clip, seed=seed)
        for name, row_chances in chances.items()
    ]
    notes += [note for each in found for note in about_replay(each)]
    logged = float(shown.clicked.mean())
    if as_json:
        answer = {
            "rows": len(shown.items),
            "logged click-through": logged,
            "by version": {name: list(each) for name, each in by_version.items()},
            "policies": [asdict(each) for each in found],
            "notes": notes,
        }
        typer.echo(json.dumps(answer, indent=2))
        return
    typer.echo(f"{len(shown.items)} impressions, {logged:.4f} of them clicked; 95 % intervals")
    for name, each in by_version.items():
        typer.echo(f"version {name or '?'}: {each.mean:.4f} [{each.low:.4f}, {each.high:.4f}]")
    if found:
        _show(found, len(shown.items))
    for note in notes:
        typer.echo(note)


def _chances_of_models(
    folders: list[Path], histories: str, options: DataOptions, shown: Any, top: int
) -> tuple[dict[str, Any], int]:
    """Return the chance of every row under each model, and how many users are new."""
    import numpy as np

    from groupnoise.cli.sources import read_histories_for
    from groupnoise.clicks.replay import chances_of_model
    from groupnoise.io.model_files import load_model
    from groupnoise.io.setting import setting_of_model

    read = read_histories_for(folders[0], histories, options)
    items = read.item_ids[read.items]
    # Ids are numbers in one file and text in another; as text they are the same.
    by_user = {
        str(user): items[read.offsets[row] : read.offsets[row + 1]]
        for row, user in enumerate(read.user_ids.tolist())
    }
    users = np.unique(shown.users).tolist()
    known = {user: by_user[str(user)] for user in users if str(user) in by_user}
    found = {}
    for folder in folders:
        fitted = load_model(folder)
        if setting_of_model(fitted).name != "rs":
            raise ParameterError(f"{folder} is no recommender; replay is about shown items.")
        spelt = {user: fitted.catalogue_.as_read(row) for user, row in known.items()}
        found[str(folder)] = chances_of_model(fitted, shown, spelt, top=top)
    return found, len(users) - len(known)


def _show(found: list[ReplayedPolicy], n_rows: int) -> None:
    width = max(6, *(len(each.name) for each in found)) + 2
    heads = ("SNIPS", "IPS", "ahead of the log")
    typer.echo(
        " " * width + "".join(f"{head:<28}" for head in heads) + "mean weight  effective rows"
    )
    for each in found:
        cells = (each.snips, each.ips, each.ahead)
        texts = [f"{cell.mean:.4f} [{cell.low:.4f}, {cell.high:.4f}]" for cell in cells]
        line = f"{each.name:<{width}}" + "".join(f"{text:<28}" for text in texts)
        rows = f"{each.n_effective:.0f} of {n_rows}"
        typer.echo(f"{line}{each.mean_weight.mean:<13.2f}{rows}")
