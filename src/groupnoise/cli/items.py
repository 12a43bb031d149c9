"""`groupnoise items`: what an artifact answers with, changed without training."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from groupnoise.cli.options import DataOptions, reads_table
from groupnoise.exceptions import DataError

items_app = typer.Typer(
    help="List the items of an artifact, add new ones by their features, take some out.",
    no_args_is_help=True,
)
Artifact = Annotated[
    Path,
    typer.Argument(
        help="Artifact folder that `groupnoise export` wrote; of a registry a copy of the promoted "
        "version is changed, and promoted."
    ),
]


@items_app.command("list")
def list_items(
    artifact: Artifact,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only so many, the most popular first.")
    ] = None,
) -> None:
    """Print id, clicks, title and categories of every item, tab-separated."""
    import numpy as np

    from groupnoise.recall.artifact import open_artifact

    table = open_artifact(artifact).items
    positions = np.arange(len(table)) if top is None else table.popular_order[:top]
    typer.echo("item\tclicks\ttitle\tcategories")
    for position in positions.tolist():
        cells = (
            table.id_of(position),
            f"{table.popularity[position]:g}",
            table.title_of(position) or "",
            table.category_of(position) or "",
        )
        typer.echo("\t".join(map(str, cells)))


@items_app.command("add")
@reads_table
def add(
    artifact: Artifact,
    items: Annotated[
        Path, typer.Argument(help="Table of the new items, with the columns `fit --items` read.")
    ],
    options: DataOptions,
    item: Annotated[
        str | None, typer.Option(help="Column of item ids; guessed if not given.")
    ] = None,
) -> None:
    """Add items that nobody clicked yet, placed by their features; the next reload serves them."""
    from groupnoise.recall.item_changes import add_items

    with _changing(artifact) as folder:
        version = add_items(
            folder, items, item=item, report=partial(typer.echo, err=True), **options.form
        )
    _say(artifact, version)


@items_app.command("remove")
def remove(
    artifact: Artifact,
    ids: Annotated[list[str] | None, typer.Argument(help="Ids of the items.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="File of ids instead, one in each line.")
    ] = None,
) -> None:
    """Take items out: they are never answered, and unknown in histories."""
    from groupnoise.clicks.item_table import read_ids
    from groupnoise.recall.item_changes import remove_items

    asked = [*(ids or []), *(read_ids(file) if file is not None else [])]
    if not asked:
        raise DataError("name the items to remove, or a file of them with --file.")
    with _changing(artifact) as folder:
        version = remove_items(folder, asked)
    _say(artifact, version)


@contextmanager
def _changing(artifact: Path) -> Iterator[Path]:
    """Yield what to change: an artifact itself, or a copy that its registry then promotes."""
    from groupnoise.io.array_folder import read_manifest
    from groupnoise.io.files import explaining_writes
    from groupnoise.recall.registry import Registry, is_registry, served_folder

    if not is_registry(artifact):
        yield artifact
        return
    registry, promoted = Registry(artifact), served_folder(artifact)
    with registry.adding() as folder:
        with explaining_writes(artifact):
            for path in promoted.iterdir():
                shutil.copyfile(path, folder / path.name)
        yield folder
        version = str(read_manifest(folder)["version"])
    registry.promote(version)


def _say(artifact: Path, version: str) -> None:
    from groupnoise.recall.artifact import open_artifact

    typer.echo(f"{len(open_artifact(artifact).items)} items, version {version}, in {artifact}")
