"""The routes of named lists: what is in stock or blocked, replaced by a request."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import FastAPI, Path
from pydantic import BaseModel, Field
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from groupnoise.recall.http.errors import Refusal
from groupnoise.recall.http.guard import LISTS_PATH
from groupnoise.recall.http.service import RecallService
from groupnoise.recall.lists import ItemList, item_list

_IDS = {
    "application/json": {
        "schema": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}}
    }
}
ListName = Annotated[str, Path(description="Letters, digits, - and _.")]


class ListDescription(BaseModel):
    """A named list."""

    name: str
    n_items: int
    n_known: Annotated[int, Field(description="How many of them the model knows.")]


class ListsAnswer(BaseModel):
    """All named lists."""

    lists: list[ListDescription]


def add_list_routes(app: FastAPI, service: RecallService, refusals: Any) -> None:
    """Add the routes that show, replace and delete named lists."""
    replacing = asyncio.Lock()

    @app.get("/v1/lists", response_model=ListsAnswer, responses=refusals)
    async def lists() -> Response:
        """Return the named lists, how long each is and how much of it the model knows."""
        return JSONResponse({"lists": await asyncio.to_thread(_describe_all, service)})

    @app.put(
        LISTS_PATH + "{name}",
        response_model=ListDescription,
        responses=refusals,
        openapi_extra={"requestBody": {"required": True, "content": _IDS}},
    )
    async def replace(name: ListName, request: Request) -> Response:
        """Replace a list by the JSON list of item ids in the body, or add it."""
        body = await request.body()
        async with replacing:  # one large list in memory at a time
            return JSONResponse(await asyncio.to_thread(_replace, service, name, body))

    @app.delete(LISTS_PATH + "{name}", response_model=ListDescription, responses=refusals)
    async def delete(name: ListName) -> Response:
        """Forget a list."""
        service.named_list(name)  # refused where there is none
        service.lists.delete(name)
        return JSONResponse({"name": name, "n_items": 0, "n_known": 0})


def _describe_all(service: RecallService) -> list[dict[str, Any]]:
    found = [service.lists.get(name) for name in service.lists.names()]
    return [_description(service, each) for each in found if each is not None]


def _replace(service: RecallService, name: str, body: bytes) -> dict[str, Any]:
    try:
        ids = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(422, "invalid_request", f"the body is not JSON: {error}.") from None
    if not isinstance(ids, list) or not all(type(one) in (int, str) for one in ids):
        raise Refusal(422, "invalid_request", "the body must be a JSON list of item ids.")
    replacement = item_list(name, ids)
    service.lists.put(replacement)
    return _description(service, replacement)


def _description(service: RecallService, each: ItemList) -> dict[str, Any]:
    n_known = len(each.positions(service.model().items))
    return {"name": each.name, "n_items": len(each.ids), "n_known": n_known}
