"""`groupnoise serve`: answer recall requests over HTTP, with a page to look at."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from groupnoise.exceptions import ParameterError


def serve(
    artifact: Annotated[
        Path | None, typer.Argument(help="Folder written by `groupnoise export`.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(help="A second artifact, shown beside the first.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Train on the simulated shop and serve that.")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(envvar="GROUPNOISE_TOKEN", help="Needed to listen beyond this machine."),
    ] = None,
    least_recall: Annotated[
        float, typer.Option(help="Refuse an artifact whose faiss index finds less than this.")
    ] = 0.0,
    max_seconds: Annotated[float, typer.Option(help="Longest a request may take.")] = 10.0,
    max_concurrency: Annotated[int, typer.Option(help="Most requests at a time.")] = 1024,
    max_histories: Annotated[int, typer.Option(help="Most histories in a request.")] = 256,
    max_history_length: Annotated[int, typer.Option(help="Most clicks in a history.")] = 200,
    max_top: Annotated[int, typer.Option(help="Most items per history.")] = 500,
    max_explain: Annotated[
        int, typer.Option(help="Most clicks times items in an explained answer.")
    ] = 1_000_000,
    max_body_bytes: Annotated[int, typer.Option(help="Largest request body.")] = 1_000_000,
) -> None:
    """Serve a recall model; reload it with SIGHUP or POST /v1/model/reload."""
    from groupnoise._checks import require

    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package, extra="serve")
    if demo == (artifact is not None):
        raise ParameterError("give an artifact folder, or --demo for the simulated shop.")

    from groupnoise.serving.http import Limits, ServiceSettings
    from groupnoise.serving.http import serve as run

    limits = Limits(
        seconds=max_seconds,
        concurrency=max_concurrency,
        histories=max_histories,
        history_length=max_history_length,
        top=max_top,
        explain=max_explain,
        body_bytes=max_body_bytes,
    )

    def start(main: Path, second: Path | None) -> None:
        settings = ServiceSettings(
            artifact=main,
            compare=second,
            host=host,
            port=port,
            token=token,
            least_recall=least_recall,
            limits=limits,
        )
        run(settings, on_ready=lambda address: typer.echo(f"listening on {address}"))

    if artifact is not None:
        start(artifact, compare)
        return
    from groupnoise.cli._demo_shop import write_demo

    # The server ends on SIGTERM by raising the signal again, which would skip the cleaning up.
    signal.signal(signal.SIGTERM, _exit_on_signal)
    with tempfile.TemporaryDirectory(prefix="groupnoise-demo-") as folder:
        typer.echo("training on the simulated shop ...")
        start(*write_demo(Path(folder)))


def _exit_on_signal(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)
