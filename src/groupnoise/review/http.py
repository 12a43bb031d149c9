"""The desk over HTTP: a page, the next row, answers, undo and export."""

from __future__ import annotations

import asyncio
import csv
import io
import socket
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from groupnoise import __version__
from groupnoise.exceptions import DataError
from groupnoise.recall.http.answers import Refusal, add_page, install_error_handlers
from groupnoise.recall.http.guard import Guard
from groupnoise.recall.http.monitoring import ServiceMetrics
from groupnoise.recall.http.server import BoundedServer, http_protocol, run_until_stopped
from groupnoise.recall.http.settings import Limits, ServiceSettings
from groupnoise.review.desk import Desk, TakenError

PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
MAX_BODY = 16_384
MAX_NAME = 100
MAX_NOTE = 2000

Who = Annotated[str, Query(min_length=1, max_length=MAX_NAME)]
Was = Annotated[str | None, Query(max_length=MAX_NAME)]


class Given(BaseModel):
    """An answer as the page sends it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    row: int = Field(ge=0)
    who: str = Field(min_length=1, max_length=MAX_NAME)
    label: str | None = Field(max_length=1000)
    note: str = Field(default="", max_length=MAX_NOTE)


class Person(BaseModel):
    """Who asks."""

    model_config = ConfigDict(extra="forbid", strict=True)

    who: str = Field(min_length=1, max_length=MAX_NAME)


def review_app(desk: Desk, settings: ServiceSettings) -> ASGIApp:
    """Return the desk as an ASGI application behind the guard of the recall service."""
    app = FastAPI(title="groupnoise review", version=__version__, docs_url=None, redoc_url=None)
    install_error_handlers(app)
    _add_routes(app, desk)
    add_page(app, Path(__file__).parent / "page", PAGE_FILES)
    return Guard(app, settings=settings, metrics=ServiceMetrics())


def _add_routes(app: FastAPI, desk: Desk) -> None:
    @app.get("/v1/next")
    async def next_row(who: Who, was: Was = None) -> Response:
        row = await asyncio.to_thread(desk.next_row, who, was)
        return JSONResponse({"next": row, "progress": desk.progress()})

    @app.post("/v1/answer")
    async def answer(given: Given) -> Response:
        try:
            # In a thread: the answer is confirmed only once the disk has it.
            await asyncio.to_thread(desk.answer, given.row, given.who, given.label, given.note)
        except TakenError as error:
            raise Refusal(409, "taken", str(error)) from None
        return JSONResponse({"kept": True, "progress": desk.progress()})

    @app.post("/v1/undo")
    async def undo(person: Person) -> Response:
        row = await asyncio.to_thread(desk.undo, person.who)
        shown = None if row is None else desk.show(row)
        return JSONResponse({"next": shown, "progress": desk.progress()})

    @app.post("/v1/learn")
    async def learn(person: Person) -> Response:
        return JSONResponse({"begun": desk.learn(), "progress": desk.progress()})

    @app.get("/v1/picture/{row}/{position}")
    async def picture(row: int, position: int) -> Response:
        try:
            found = await asyncio.to_thread(desk.picture, row, position)
        except DataError as error:
            raise Refusal(404, "no_picture", str(error)) from None
        return Response(found.content, media_type=found.media_type)

    @app.get("/v1/progress")
    async def progress() -> Response:
        return JSONResponse(desk.progress())

    @app.get("/v1/export")
    async def export() -> Response:
        text = await asyncio.to_thread(lambda: _as_csv(desk.export()))
        headers = {"Content-Disposition": 'attachment; filename="labels.csv"'}
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)


def _as_csv(columns: dict[str, list[Any]]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return stream.getvalue()


def check_access(host: str, port: int, token: str | None) -> ServiceSettings:
    """Return the service settings; listening beyond this machine needs a token."""
    return ServiceSettings(
        artifact=Path(), host=host, port=port, token=token, limits=Limits(body_bytes=MAX_BODY)
    )


def serve_desk(desk: Desk, settings: ServiceSettings, bound: socket.socket) -> None:
    """Show the desk on a socket until SIGTERM or SIGINT."""
    run_until_stopped(desk_server(desk, settings), bound)


def desk_server(desk: Desk, settings: ServiceSettings) -> uvicorn.Server:
    """Return a server of the desk, with the bounds of the recall service."""
    config = uvicorn.Config(
        review_app(desk, settings), http=http_protocol(), log_config=None,
        access_log=False, server_header=False, timeout_graceful_shutdown=5,
    )  # fmt: skip
    return BoundedServer(config, settings.limits.seconds)
