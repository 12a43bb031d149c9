"""`groupnoise push` and `pull`: artifacts in repositories of a Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def push(
    artifact: Annotated[Path, typer.Argument(help="An artifact, or a registry.")],
    repository: Annotated[str, typer.Argument(help="Such as owner/name; made if needed.")],
    public: Annotated[
        bool, typer.Option("--public", help="Make the repository, if it is new, a public one.")
    ] = False,
) -> None:
    """Send an artifact with a model card to a Hugging Face repository; HF_TOKEN is the key."""
    from groupnoise.recall.hub import push as send

    typer.echo(f"sent: {send(artifact, repository, is_private=not public)}")


def pull(
    repository: Annotated[str, typer.Argument(help="Such as owner/name.")],
    output: Annotated[Path, typer.Argument(help="Artifact folder to write.")],
    revision: Annotated[
        str | None, typer.Option(help="A branch, a tag or a commit.", show_default="(main)")
    ] = None,
) -> None:
    """Fetch an artifact from a Hugging Face repository, and check every byte of it."""
    from groupnoise.io.files import check_writable_folder
    from groupnoise.recall.hub import pull as fetch

    check_writable_folder(output)
    version = fetch(repository, output, revision=revision)
    typer.echo(f"version {version} in {output}")
