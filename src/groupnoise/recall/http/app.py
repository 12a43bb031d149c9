"""The routes of the recall service."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Path as PathField, Query
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from groupnoise import __version__
from groupnoise.exceptions import DataError, GroupNoiseError, OutputError
from groupnoise.recall.http.answers import Refusal, add_page, install_error_handlers, search_items
from groupnoise.recall.http.feedback import FeedbackAnswer, FeedbackRequest
from groupnoise.recall.http.guard import LISTS_PATH, Guard
from groupnoise.recall.http.guide import example_clicks, routes_page
from groupnoise.recall.http.requests import (
    ErrorAnswer,
    ItemsAnswer,
    RecallAnswer,
    RecallRequest,
    ReloadAnswer,
    ServiceDescription,
    SimilarAnswer,
    check_limit,
    parse_json,
)
from groupnoise.recall.http.service import RecallService
from groupnoise.recall.http.settings import ServiceSettings
from groupnoise.recall.items import ItemId
from groupnoise.recall.lists import ItemList, item_list
from groupnoise.recall.registry import Registry, promotion_stamp

WATCH_SECONDS = 1.0
"""Interval between checks for a newly promoted version."""

_ID_LIST_SCHEMA = {
    "application/json": {
        "schema": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}
    }
}
ListName = Annotated[str, PathField(description="Letters, digits, - and _.")]
PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/search.js": ("search.js", "text/javascript; charset=utf-8"),
}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer} for status in (401, 403, 404, 408, 413, 422, 429, 503)
}


class ListDescription(BaseModel):
    """A named list."""

    name: str
    n_items: int
    n_known: Annotated[int, Field(description="How many of them the model knows.")]
    error: Annotated[
        str | None, Field(description="Why its file cannot be read; what was read before stays.")
    ] = None


class ListsAnswer(BaseModel):
    """All named lists."""

    lists: list[ListDescription]


def create_app(settings: ServiceSettings) -> ASGIApp:
    """Load the artifacts and return the service as an ASGI application.

    Parameters
    ----------
    settings : ServiceSettings
        Artifacts, token and limits.

    Returns
    -------
    ASGI application
        To be run by uvicorn or any other ASGI server.
    """
    return guarded_app(RecallService(settings))


def guarded_app(service: RecallService) -> ASGIApp:
    """Return the app of a service, wrapped in its guard."""
    app = FastAPI(
        title="groupnoise recall",
        version=__version__,
        description="Items a click history leads to, by Max-Matching.",
        lifespan=_make_lifespan(service),
        redirect_slashes=False,  # a redirected body is lost on most clients
        docs_url=None,  # both load scripts from other hosts; /docs is defined below
        redoc_url=None,
    )
    install_error_handlers(app)
    _add_recall_routes(app, service)
    _add_feedback_route(app, service)
    _add_model_routes(app, service)
    _add_operation_routes(app, service)
    _add_list_routes(app, service)
    _add_page(app, service)
    direct = {("POST", "/v1/recall"): service.recall}
    return Guard(app, settings=service.settings, metrics=service.metrics, direct=direct)


def _add_recall_routes(app: FastAPI, service: RecallService) -> None:
    @app.post(
        "/v1/recall",
        response_model=RecallAnswer,
        responses=_REFUSALS,
        openapi_extra={"requestBody": _body_schema(RecallRequest)},
    )
    async def recall(request: Request) -> Response:
        """Return the best items for each history."""
        # The guard answers this route directly; this one is for the schema.
        content_type = request.headers.get("content-type", "")
        answer, request.state.version = await service.recall(await request.body(), content_type)
        return Response(answer, media_type="application/json")

    @app.get("/v1/similar/{item:path}", response_model=SimilarAnswer, responses=_REFUSALS)
    async def similar(
        request: Request,
        item: Annotated[str, PathField(description="An item id.")],
        top: Annotated[int, Query(ge=1, description="How many.")] = 10,
    ) -> Response:
        """Return the items that best follow one item."""
        answer = await service.similar(item, top)
        request.state.version = answer["version"]
        return JSONResponse(answer)

    @app.get("/v1/items", response_model=ItemsAnswer, responses=_REFUSALS)
    async def items(
        q: Annotated[str, Query(description="Words of a title; empty for popular items.")] = "",
        limit: Annotated[int, Query(ge=1, description="How many, at most.")] = 10,
    ) -> Response:
        """Find items by title."""
        check_limit(service.limits, "top", limit, f"limit is {limit}")
        check_limit(service.limits, "query_length", len(q), f"the query holds {len(q)} characters")
        return JSONResponse(
            {"items": await asyncio.to_thread(search_items, service.model(), q, limit)}
        )


def _add_feedback_route(app: FastAPI, service: RecallService) -> None:
    @app.post(
        "/v1/feedback",
        response_model=FeedbackAnswer,
        responses=_REFUSALS,
        openapi_extra={"requestBody": _body_schema(FeedbackRequest)},
    )
    async def feedback(request: Request) -> Response:
        """Keep which items of an answer were shown and clicked."""
        content_type = request.headers.get("content-type", "")
        kept = service.keep_feedback(await request.body(), content_type)
        answer, request.state.version = kept
        return JSONResponse(answer)


def _body_schema(schema: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a body that the route parses itself."""
    return {
        "required": True,
        "content": {"application/json": {"schema": schema.model_json_schema()}},
    }


def _add_model_routes(app: FastAPI, service: RecallService) -> None:
    @app.get("/v1/model", response_model=ServiceDescription, responses=_REFUSALS)
    async def model() -> Response:
        """Return the models in use, their cards, and the limits of the service."""
        return JSONResponse(service.describe())

    @app.post(
        "/v1/model/reload",
        response_model=ReloadAnswer,
        responses={**_REFUSALS, 409: {"model": ErrorAnswer}},
    )
    async def reload() -> Response:
        """Verify the artifacts now on disk, warm them and switch to them."""
        return JSONResponse(await service.reload())


def _add_operation_routes(app: FastAPI, service: RecallService) -> None:
    @app.get("/healthz")
    async def healthz() -> dict[str, str | int]:
        """Say that the process is alive, and how many files of lists it could not read, if any."""
        n_unreadable = len(service.lists.unreadable())
        return {"status": "alive"} | ({"unreadable_lists": n_unreadable} if n_unreadable else {})

    @app.get("/readyz", responses={503: {"description": "Shutting down."}})
    async def readyz() -> Response:
        """Say whether new requests should be sent here."""
        if service.is_ready:
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "shutting down"}, status_code=503)

    @app.get("/metrics", response_class=Response, responses=_REFUSALS)
    async def metrics() -> Response:
        """Return counters and latencies in the Prometheus text format."""
        return Response(await service.exposition(), media_type="text/plain; version=0.0.4")


def _add_page(app: FastAPI, service: RecallService) -> None:
    needs_token = service.settings.token is not None

    async def routes(request: Request) -> Response:
        # Without a token nothing about the model is shown.
        clicks: list[ItemId] = ["ID", "ID"]
        if not needs_token:
            clicks = example_clicks(service.model().items)
        address = str(request.base_url).rstrip("/")
        page = routes_page(app.openapi(), address, clicks, needs_token=needs_token)
        return Response(page, media_type="text/html; charset=utf-8")

    app.add_route("/docs", routes, include_in_schema=False)
    add_page(app, Path(__file__).parents[1] / "page", PAGE_FILES)


def _make_lifespan(service: RecallService) -> Any:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        is_server = threading.current_thread() is threading.main_thread()
        reloads: set[asyncio.Task[None]] = set()

        async def reload_on_signal() -> None:
            try:
                await service.reload()
            except Refusal:
                return  # already logged; the old model stays

        def on_hangup() -> None:
            task = loop.create_task(reload_on_signal())
            reloads.add(task)  # the loop keeps weak references only
            task.add_done_callback(reloads.discard)

        if is_server and hasattr(signal, "SIGHUP"):
            loop.add_signal_handler(signal.SIGHUP, on_hangup)
        if service.peers is None:
            watching = follow_promotions(service)
        else:
            watching = service.peers.listen(service)
        following = loop.create_task(watching)
        yield
        following.cancel()
        service.close()

    return lifespan


async def follow_promotions(service: RecallService) -> None:
    """Reload whenever another version is promoted, for as long as the service runs.

    A version that is refused is not tried again until another is promoted.
    """
    folder = service.settings.artifact
    stamp, seen = promotion_stamp(folder), None
    while stamp is not None:
        with suppress(OSError, GroupNoiseError, Refusal):  # already logged
            if stamp != seen:
                seen = stamp
                if Registry(folder).current != service.model().version:
                    await service.reload()
        await asyncio.sleep(WATCH_SECONDS)
        stamp = promotion_stamp(folder) or stamp


def _add_list_routes(app: FastAPI, service: RecallService) -> None:
    """Add the routes that show, replace and delete named lists."""
    replacing = asyncio.Lock()

    @app.get("/v1/lists", response_model=ListsAnswer, responses=_REFUSALS)
    async def lists() -> Response:
        """Return the named lists, how long each is and how much of it the model knows."""
        return JSONResponse({"lists": await asyncio.to_thread(_describe_lists, service)})

    @app.put(
        LISTS_PATH + "{name}",
        response_model=ListDescription,
        responses=_REFUSALS,
        openapi_extra={"requestBody": {"required": True, "content": _ID_LIST_SCHEMA}},
    )
    async def replace(name: ListName, request: Request) -> Response:
        """Replace a list by the JSON list of item ids in the body, or add it."""
        body = await request.body()
        async with replacing:  # one large list in memory at a time
            return JSONResponse(await asyncio.to_thread(_replace_list, service, name, body))

    @app.delete(LISTS_PATH + "{name}", response_model=ListDescription, responses=_REFUSALS)
    async def delete(name: ListName) -> Response:
        """Forget a list."""
        if name not in service.lists.names():
            service.named_list(name)  # refuses an unknown name; an unreadable file can be deleted
        service.lists.delete(name)
        return JSONResponse({"name": name, "n_items": 0, "n_known": 0})


def _describe_lists(service: RecallService) -> list[dict[str, Any]]:
    found = []
    for name in service.lists.names():
        each = None
        with suppress(DataError):  # reported as unreadable below
            each = service.lists.get(name)
        why = service.lists.unreadable().get(name)
        if each is not None or why is not None:
            description = _describe_list(service, each or item_list(name, []))
            found.append(description | ({} if why is None else {"error": why}))
    return found


def _replace_list(service: RecallService, name: str, body: bytes) -> dict[str, Any]:
    ids = parse_json(body)
    if not isinstance(ids, list) or not all(type(one) in (int, str) for one in ids):
        raise Refusal(422, "invalid_request", "the body must be a JSON list of item ids.")
    replacement = item_list(name, ids)
    try:
        service.lists.put(replacement)
    except OutputError as error:
        why = f"{name}.txt cannot be written ({error.strerror}); the list is as it was."
        raise Refusal(503, "list_not_written", why) from None
    return _describe_list(service, replacement)


def _describe_list(service: RecallService, each: ItemList) -> dict[str, Any]:
    n_known = len(each.positions(service.model().items))
    return {"name": each.name, "n_items": len(each.ids), "n_known": n_known}
