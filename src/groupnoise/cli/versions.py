"""`groupnoise versions`: the versions of a registry, and which of them is served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

if TYPE_CHECKING:
    from groupnoise.recall.registry import Version

versions_app = typer.Typer(
    help="Versions of a registry: list, promote, rollback and prune.", no_args_is_help=True
)
Place = Annotated[Path, typer.Argument(help="Folder made by `groupnoise export --registry`.")]


@versions_app.command("list")
def list_command(
    registry: Place,
    check: Annotated[
        bool, typer.Option("--check", help="Check every byte, and not only that files are there.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON: all that each version says of itself.")
    ] = False,
) -> None:
    """List the versions, oldest first; the promoted one is marked."""
    from groupnoise.recall.registry import Registry

    found = Registry(registry).versions(every_byte=check)
    if as_json:
        typer.echo(json.dumps([_as_record(version) for version in found], indent=2))
        return
    for version in found:
        mark = "*" if version.is_current else " "
        said = f"damaged: {version.problem}" if version.problem else _summary(version)
        typer.echo(f"{mark} {version.name}  {said}")
    if not found:
        typer.echo(f"{registry} holds no version yet")
    elif not any(version.is_current for version in found):
        typer.echo("none of them is promoted")


@versions_app.command("promote")
def promote_command(
    registry: Place,
    version: Annotated[
        Optional[str],  # noqa: UP045 - typer reads this annotation at run time on 3.10
        typer.Argument(help="A version, or how it begins.", show_default="the newest"),
    ] = None,
) -> None:
    """Check a version and have it served; a running service switches to it by itself."""
    from groupnoise.recall.registry import Registry

    typer.echo(f"promoted {Registry(registry).promote(version)}")


@versions_app.command("rollback")
def rollback_command(registry: Place) -> None:
    """Have the version served that was promoted before; one that is damaged is passed over."""
    from groupnoise.recall.registry import Registry

    version, passed_over = Registry(registry).rollback()
    for sentence in passed_over:
        typer.echo(sentence, err=True)
    typer.echo(f"went back to {version}")


@versions_app.command("prune")
def prune_command(
    registry: Place,
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest to keep.")] = 5,
) -> None:
    """Delete old and damaged versions, but never the promoted one or the one before it."""
    from groupnoise.recall.registry import Registry

    removed = Registry(registry).prune(keep=keep)
    typer.echo(f"deleted {', '.join(removed)}" if removed else "nothing to delete")


def _summary(version: Version) -> str:
    manifest = version.manifest
    training = _part(manifest, "training")
    data = _part(training, "data")
    said = [
        str(manifest.get("created", ""))[:16].replace("T", " "),
        f"{manifest.get('n_items')} items",
        str(training.get("estimator", "")),
        f"{data.get('name')} {str(data.get('fingerprint', ''))[:8]}" if data else "",
    ]
    figures = _part(training, "evaluation").items()
    said += [f"{name} {value:.4f}" for name, value in figures if type(value) is float][:2]
    return "  ".join(part for part in said if part)


def _part(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a part of a manifest, empty where it is none: it may come from anywhere."""
    part = manifest.get(name)
    return part if isinstance(part, dict) else {}


def _as_record(version: Version) -> dict[str, Any]:
    said = {name: version.manifest.get(name) for name in ("created", "n_items", "card", "training")}
    return {
        "version": version.name,
        "promoted": version.is_current,
        "problem": version.problem,
        **said,
    }
