"""`groupnoise embed`: pictures, texts or recordings in, features per bag out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

# typer reads these annotations at run time, so they must also hold on Python 3.10.
Word = Optional[str]  # noqa: UP045
Number = Optional[float]  # noqa: UP045
Folder = Optional[Path]  # noqa: UP045


def embed(
    folder: Annotated[Path, typer.Argument(help="Pictures, texts or recordings, one per bag.")],
    output: Annotated[Path, typer.Argument(help="Folder of features to write.")],
    kind: Annotated[
        Word, typer.Option(help="pictures, texts or recordings, where FOLDER has several.")
    ] = None,
    size: Annotated[
        Number,
        typer.Option(help="Pixels of a tile or seconds of a segment.", show_default="64, or 1"),
    ] = None,
    stride: Annotated[
        Number, typer.Option(help="From one tile or segment to the next.", show_default="--size")
    ] = None,
    background: Annotated[
        Number,
        typer.Option(
            help="Leave out tiles that vary less, or segments less loud, from 0 to 1.",
            show_default="0.02, or 0.001",
        ),
    ] = None,
    to: Annotated[str, typer.Option(help="Form of the files: npz or h5.")] = "npz",
    like: Annotated[
        Folder, typer.Option(help="Cut and describe as this folder was, for its models.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Cut files into objects and describe each by a built-in descriptor; nothing is downloaded.

    Example: groupnoise embed pictures/ features/ --size 32
    """
    from rich.console import Console
    from rich.progress import Progress

    from groupnoise.bags.embedding.folder import embed_folder
    from groupnoise.io.files import check_not_own_input

    check_not_own_input(output, folder)
    console = Console(stderr=True)
    is_shown = console.is_terminal and not quiet
    with Progress(console=console, disable=not is_shown, transient=True) as bar:
        task = bar.add_task("describing", total=None)
        made = embed_folder(
            folder, output, kind=kind, size=size, stride=stride, background=background, form=to,
            like=like, on_file=lambda done, total: bar.update(task, completed=done, total=total),
        )  # fmt: skip
    left_out = f" ({made.n_dropped} of background left out)" if made.n_dropped else ""
    typer.echo(f"{made.n_bags} {made.kind}, {made.n_objects} objects{left_out} written to {output}")
