"""`groupnoise versions`, `items`, `push` and `pull`: managing artifacts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.cli.options import (
    DataOptions,
    argument,
    describe_options,
    echo_err,
    option,
    with_table_options,
)
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, GroupNoiseError

if TYPE_CHECKING:
    from groupnoise.recall.registry import Version

versions_app = typer.Typer(help="Manage the versions of a registry.", no_args_is_help=True)
RegistryFolder = Annotated[
    Path, typer.Argument(help="Folder made by `groupnoise export --registry`.")
]


@versions_app.command("list")
@describe_options(
    check="Verify checksums, not only that the files exist.",
    as_json=option("Print JSON with all details of each version.", "--json"),
)
def list_command(registry: RegistryFolder, check: bool = False, as_json: bool = False) -> None:
    """List the versions, oldest first; the promoted one is marked."""
    from groupnoise.recall.registry import Registry

    found = Registry(registry).versions(every_byte=check)
    if as_json:
        typer.echo(json.dumps([_as_record(version) for version in found], indent=2))
        return
    for version in found:
        mark = "*" if version.is_current else " "
        summary = f"damaged: {version.problem}" if version.problem else _summary(version)
        typer.echo(f"{mark} {version.name}  {summary}")
    if not found:
        typer.echo(f"{registry} holds no version yet")
    elif not any(version.is_current for version in found):
        typer.echo("none of them is promoted")


@versions_app.command("promote")
@describe_options(
    version=argument("A version, or its first characters.", show_default="the newest")
)
def promote_command(registry: RegistryFolder, version: str | None = None) -> None:
    """Verify a version and put it into service; running services switch to it."""
    from groupnoise.recall.artifact import open_artifact
    from groupnoise.recall.registry import Registry

    opened = Registry(registry)
    before, promoted = opened.current, opened.promote(version)
    if before is not None:
        with suppress(GroupNoiseError):  # what was promoted before may be gone
            old, new = (open_artifact(registry / name).items for name in (before, promoted))
            if foreign := new.foreign_items_message(old):
                echo_err(f"warning: {promoted} follows {before}: {foreign}; is this their shop?")
    typer.echo(f"promoted {promoted}")


@versions_app.command("rollback")
def rollback_command(registry: RegistryFolder) -> None:
    """Put the previously promoted version back into service, skipping damaged ones."""
    from groupnoise.recall.registry import Registry

    version, passed_over = Registry(registry).rollback()
    for sentence in passed_over:
        echo_err(sentence)
    typer.echo(f"went back to {version}")


@versions_app.command("prune")
@describe_options(keep=option("Number of newest versions to keep.", min=1))
def prune_command(registry: RegistryFolder, keep: int = 5) -> None:
    """Delete old and damaged versions, but never the promoted one or the one before it."""
    from groupnoise.recall.registry import Registry

    removed = Registry(registry).prune(keep=keep)
    typer.echo(f"deleted {', '.join(removed)}" if removed else "nothing to delete")


def _summary(version: Version) -> str:
    manifest = version.manifest
    training = _part(manifest, "training")
    data = _part(training, "data")
    parts = [
        str(manifest.get("created", ""))[:16].replace("T", " "),
        f"{manifest.get('n_items')} items",
        str(training.get("estimator", "")),
        f"{data.get('name')} {str(data.get('fingerprint', ''))[:8]}" if data else "",
    ]
    evaluation = _part(training, "evaluation")
    metrics = [(name, value) for name, value in evaluation.items() if type(value) is float]
    parts += [f"{name} {value:.4f}" for name, value in metrics[:2]]
    if n_learned := evaluation.get("trained_on"):
        parts.append(f"flattered: it learned {n_learned} of the histories scored")
    return "  ".join(part for part in parts if part)


def _part(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a part of a manifest, empty if it is not an object."""
    part = manifest.get(name)
    return part if isinstance(part, dict) else {}


def _as_record(version: Version) -> dict[str, Any]:
    about = ("created", "n_items", "card", "training")
    return {
        "version": version.name,
        "promoted": version.is_current,
        "problem": version.problem,
        **{name: version.manifest.get(name) for name in about},
    }


@describe_options(
    artifact=argument("An artifact, or a registry."),
    repository=argument("Repository such as owner/name; created if needed."),
    public="Create a new repository as a public one.",
)
def push(artifact: Path, repository: str, public: bool = False) -> None:
    """Upload an artifact with a model card to a Hugging Face repository (HF_TOKEN)."""
    from groupnoise.recall.hub import push as send

    typer.echo(f"sent: {send(artifact, repository, is_private=not public)}")


@describe_options(
    repository=argument("Repository such as owner/name."),
    output=argument("Artifact folder to write."),
    revision=option("A branch, a tag or a commit.", show_default="(main)"),
)
def pull(repository: str, output: Path, revision: str | None = None) -> None:
    """Download an artifact from a Hugging Face repository and verify it."""
    from groupnoise.io.files import check_writable_folder
    from groupnoise.recall.hub import pull as fetch

    check_writable_folder(output)
    version = fetch(repository, output, revision=revision)
    typer.echo(f"version {version} in {output}")


items_app = typer.Typer(
    help="List, add or remove items of an artifact.",
    no_args_is_help=True,
)
CELL_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
"""Escapes of tabs and line breaks in cells of a tab-separated table."""
Artifact = Annotated[
    Path,
    typer.Argument(
        help="Artifact folder that `groupnoise export` wrote; of a registry a copy of the promoted "
        "version is changed, and promoted."
    ),
]
Shown = Annotated[Path, typer.Argument(help="An artifact, or a registry: its promoted version.")]


@items_app.command("list")
@describe_options(top=option("Only the most popular ones.", min=1))
def list_items(artifact: Shown, top: int | None = None) -> None:
    r"""Print id, clicks, title and categories of every item, tab-separated.

    Tabs, line breaks and backslashes inside a cell are written \t, \n, \r and \\.
    """
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
        typer.echo("\t".join(str(cell).translate(CELL_ESCAPES) for cell in cells))


@items_app.command("add")
@with_table_options
@describe_options(
    items=argument("Table of the new items, with the columns `fit --items` read."),
    item="Column of item ids; guessed by default.",
    title="Column of titles; as in `export`, or guessed.",
    category="Column of categories; as in `export`, or guessed.",
)
def add(
    artifact: Artifact,
    items: Path,
    options: DataOptions,
    item: str | None = None,
    title: str | None = None,
    category: str | None = None,
) -> None:
    """Add items without clicks, placed by their features; the next reload serves them."""
    from groupnoise.recall.item_changes import add_items

    with _editable_artifact(artifact) as folder:
        n_before = _count(folder)
        version = add_items(
            folder,
            items,
            item=item,
            title=title,
            category=category,
            report=echo_err,
            **options.form,
        )
    _echo_change(artifact, version, n_before)


@items_app.command("remove")
@describe_options(
    ids=argument("Ids of the items."), file=option("File of ids instead, one per line.", "-f")
)
def remove(artifact: Artifact, ids: list[str] | None = None, file: Path | None = None) -> None:
    """Remove items: they are never recommended, and unknown in histories."""
    from groupnoise.recall.item_changes import remove_items
    from groupnoise.recall.lists import read_ids

    asked = [*(ids or []), *(read_ids(file) if file is not None else [])]
    if not asked:
        raise DataError("name the items to remove, or a file of them with --file.")
    with _editable_artifact(artifact) as folder:
        n_before = _count(folder)
        version = remove_items(folder, asked)
    _echo_change(artifact, version, n_before)


@contextmanager
def _editable_artifact(artifact: Path) -> Iterator[Path]:
    """Yield the artifact to edit: itself, or a copy that its registry then promotes."""
    from groupnoise.io.files import convert_write_errors
    from groupnoise.io.folders.array_folder import read_manifest
    from groupnoise.recall.registry import Registry, is_registry, served_folder

    if not is_registry(artifact):
        yield artifact
        return
    registry, promoted = Registry(artifact), served_folder(artifact)
    with registry.adding() as folder:
        with convert_write_errors(artifact):
            for path in promoted.iterdir():
                shutil.copyfile(path, folder / path.name)
        try:
            yield folder
        except DataError as error:
            # Name the folder that the user gave, not the temporary copy.
            raise DataError(str(error).replace(str(folder), str(promoted))) from None
        version = str(read_manifest(folder)["version"])
    registry.promote(version)


def _count(artifact: Path) -> int:
    from groupnoise.recall.artifact import open_artifact

    return len(open_artifact(artifact).items)


def _echo_change(artifact: Path, version: str, n_before: int) -> None:
    n_items = _count(artifact)
    done = "added" if n_items > n_before else "removed"
    typer.echo(
        f"{done} {counted(abs(n_items - n_before), 'items')}: {counted(n_items, 'items')}, version "
        f"{version}, in {artifact}"
    )
