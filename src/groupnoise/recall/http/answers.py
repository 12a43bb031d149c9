"""The JSON of answers and errors."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from groupnoise.core.checks import did_you_mean
from groupnoise.exceptions import GroupNoiseError, UnknownTargetError
from groupnoise.recall.items import CATEGORY
from groupnoise.recall.model import RecallModel
from groupnoise.recall.recalled import OneRecalled, Reasons, Recalled

MAX_ATTRIBUTE_VALUES = 1000
"""Values of an attribute that a model description lists."""
MAX_INVALID_FIELDS = 5
MAX_QUOTED = 40
"""Characters of a client's text that an error message repeats."""
FAULTS = {
    "missing": "it is missing",
    "extra_forbidden": "a request has no field of this name",
    "json_invalid": "it is no JSON from this character on",
}
EXAMPLES = {"filter": ', such as {"brand": ["Acme", "Bolt"]}'}
MUST_BE = "must be "
EXPECTED_TYPES = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "literal_error": "{expected}",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "too_short": "a list of {min_length} or more",
    "too_long": "a list of {max_length} at most",
}
"""The expected type of a field, by the type of the pydantic error."""
REQUEST_ID, VERSION = r"^[\w.-]{1,64}$", "^[0-9a-f]{0,12}$"
EXPECTED_PATTERNS = {
    REQUEST_ID: "1 to 64 letters, digits, dots, _ and -",
    VERSION: "a version as answers name it, such as 3f9a0c1d2e4b",
}
"""Descriptions of the patterns that fields must match."""
MAX_CACHED_ITEMS = 50_000
"""Items whose JSON is cached: about ten megabytes."""


def as_json(value: Any) -> bytes:
    """Return a value as JSON; raise ValueError if JSON or UTF-8 cannot represent it."""
    return _to_json(value).encode()


_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def answer_json(model: RecallModel, name: str, recalled: Recalled) -> bytes:
    """Return the answer to a request without explanations as JSON; see `RecallAnswer`."""
    results = []
    for number, unknown in enumerate(recalled.unknown):
        positions, scores = recalled.row(number)
        parts = _items_json(model, positions.tolist(), scores.tolist())
        clicks = _clicks_behind(model, recalled, number)
        if clicks is not None:
            parts = [
                f'{part[:-1]},"click":{_to_json(click)}}}'
                for part, click in zip(parts, clicks, strict=True)
            ]
        results.append(_result_json(parts, bool(recalled.from_popularity[number]), unknown))
    return f"{_answer_prefix(name, model.version)}{','.join(results)}]}}".encode()


def single_answer_json(model: RecallModel, recalled: OneRecalled) -> bytes:
    """Return the answer of the main model to one history as JSON; see `RecallAnswer`."""
    parts = _items_json(model, recalled.positions, recalled.scores)
    result = _result_json(parts, recalled.from_popularity, recalled.unknown)
    return f"{_answer_prefix('main', model.version)}{result}]}}".encode()


def _items_json(model: RecallModel, positions: list[int], scores: list[float]) -> list[str]:
    """Return ranked items as JSON; all but their scores is cached."""
    item_json, parts = model.items.item_json, []
    for position, score in zip(positions, scores, strict=True):
        begin, end = item_json.get(position) or _cache_item_json(model, position)
        # Nine digits represent single precision exactly and are faster to write than seventeen.
        parts.append(f"{begin}{score:.9g}{end}")
    return parts


def _result_json(parts: list[str], from_popularity: bool, unknown: list[Any]) -> str:
    source = "popularity" if from_popularity else "history"
    rest = _to_json(unknown) if unknown else "[]"
    return f'{{"items":[{",".join(parts)}],"source":"{source}","unknown":{rest}}}'


@lru_cache(maxsize=16)
def _answer_prefix(name: str, version: str) -> str:
    return f'{{"model":"{name}","version":{_to_json(version)},"results":['


def _clicks_behind(model: RecallModel, recalled: Recalled, number: int) -> list[Any] | None:
    """Return the ids of the clicks that led to the items of one history; None without interests.

    An item that popularity ranked has none.
    """
    clicks = recalled.clicks_behind(number)
    if clicks is None:
        return None
    return [None if click < 0 else model.items.id_of(click) for click in clicks.tolist()]


def _cache_item_json(model: RecallModel, position: int) -> tuple[str, str]:
    items = model.items
    if len(items.item_json) >= MAX_CACHED_ITEMS:
        items.item_json.clear()
    title, category = _to_json(items.title_of(position)), _to_json(items.category_of(position))
    text = (
        f'{{"item":{_to_json(items.id_of(position))},"score":',
        f',"title":{title},"category":{category}}}',
    )
    items.item_json[position] = text
    return text


def explained_result(
    model: RecallModel, recalled: Recalled, number: int, reasons: Reasons
) -> dict[str, Any]:
    """Return the explained answer to one history; see `RecallResult`."""
    items = ranked_items(model, recalled, number)
    result: dict[str, Any] = {
        "items": items,
        "source": "popularity" if recalled.from_popularity[number] else "history",
        "unknown": recalled.unknown[number],
    }
    for column, item in enumerate(items):
        match = reasons.matched(column)
        item["matched"] = match and {"item": match[0].item, "responsibility": round(match[1], 4)}
        item["shares"] = reasons.shares[:, column].round(4).tolist()
    positions = model.items.positions_of([click.item for click in reasons.clicks])
    result["clicks"] = [
        {
            "item": click.item,
            "title": model.items.title_of(position),
            "category": model.items.category_of(position),
            "weight": click.weight,
            "is_noise": click.is_noise,
        }
        for click, position in zip(reasons.clicks, positions.tolist(), strict=True)
    ]
    return result


def ranked_items(model: RecallModel, recalled: Recalled, number: int) -> list[dict[str, Any]]:
    """Return the recalled items of one history; see `RankedItem`."""
    positions, scores = recalled.row(number)
    clicks = _clicks_behind(model, recalled, number)
    return [
        {
            "item": item,
            "score": score,
            "title": model.items.title_of(position),
            "category": model.items.category_of(position),
            **({} if clicks is None else {"click": clicks[rank]}),
        }
        for rank, (item, score, position) in enumerate(
            zip(model.items.ids_of(positions), scores.tolist(), positions.tolist(), strict=True)
        )
    ]


def search_items(model: RecallModel, query: str, limit: int) -> list[dict[str, Any]]:
    """Return the items whose title matches, or the most popular for an empty query."""
    items = model.items
    positions = items.search(query, limit) if query.strip() else items.popular_order[:limit]
    return [
        {
            "item": items.id_of(position),
            "title": items.title_of(position),
            "category": items.category_of(position),
            "popularity": float(items.popularity[position]),
        }
        for position in positions.tolist()
    ]


def describe_model(model: RecallModel) -> dict[str, Any]:
    """Return the description of a model; see `ModelDescription`."""
    return {
        "version": model.version,
        "kind": model.manifest.get("kind"),
        "n_items": len(model.items),
        "dimension": model.manifest.get("dimension"),
        "clicks_used": model.clicks_used(),
        "created": model.manifest.get("created"),
        "categories": sorted(model.items.attributes.get(CATEGORY, {})),
        "attributes": {
            name: sorted(values)[:MAX_ATTRIBUTE_VALUES]
            for name, values in model.items.attributes.items()
        },
        "index": model.manifest.get("index"),
        "card": model.card,
    }


class Refusal(Exception):
    """A refused request: HTTP status, error code, message and, if one was exceeded, the limit."""

    def __init__(self, status: int, code: str, message: str, *, limit: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.limit = limit

    def response(self, request_id: str) -> JSONResponse:
        """Return the refusal as an HTTP response; see `ErrorAnswer`."""
        headers = {"Retry-After": "1"} if self.status == 429 else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.limit is not None:
            error["limit"] = self.limit
        error["request_id"] = request_id
        return JSONResponse({"error": error}, status_code=self.status, headers=headers)


def internal_error() -> Refusal:
    """Return the refusal for an unexpected exception, without its details."""
    message = "the service failed on this request; its log says more under the request id."
    return Refusal(500, "internal_error", message)


def refusal_from_error(error: GroupNoiseError) -> Refusal:
    """Return the refusal for an error of the library."""
    if isinstance(error, UnknownTargetError):
        return Refusal(404, "unknown_item", str(error))
    return Refusal(422, "invalid_request", str(error))


def validation_message(errors: Iterable[Mapping[str, Any]]) -> str:
    """Return one sentence per invalid field, beginning with its path."""
    expected: dict[str, dict[str, None]] = {}
    for error in errors:
        parts = [str(part)[:MAX_QUOTED] for part in error["loc"]]
        if parts and parts[-1] in ("int", "str"):  # an id, which may be either
            parts.pop()
        expected.setdefault(".".join(parts) or "the body", {})[_expectation(error)] = None
    sentences = []
    for where, descriptions in list(expected.items())[:MAX_INVALID_FIELDS]:
        first, *others = descriptions
        alternatives = [each.removeprefix(MUST_BE) for each in others]
        example = EXAMPLES.get(where, "")
        sentences.append(f"{where}: {' or '.join([first, *alternatives])}{example}.")
    return " ".join(sentences)


def _expectation(error: Mapping[str, Any]) -> str:
    """Return what is expected of a field, or the message of pydantic."""
    kind, bounds = error["type"], error.get("ctx", {})
    if kind == "string_pattern_mismatch":
        return MUST_BE + EXPECTED_PATTERNS[bounds["pattern"]]
    if kind in EXPECTED_TYPES:
        return MUST_BE + EXPECTED_TYPES[kind].format(**bounds)
    if kind in FAULTS:
        return FAULTS[kind]
    message = str(error["msg"])
    return message[:1].lower() + message[1:]


def _list_paths(app: FastAPI) -> str:
    """Return the paths of an app with their methods, as text."""
    return ", ".join(
        f"{' and '.join(map(str.upper, methods))} {path}"
        for path, methods in app.openapi()["paths"].items()
    )


def install_error_handlers(app: FastAPI) -> None:
    """Make the app answer every kind of error as :class:`Refusal` does."""

    @app.exception_handler(Refusal)
    async def on_refusal(request: Request, error: Refusal) -> JSONResponse:
        return error.response(request.state.request_id)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        refusal = Refusal(422, "invalid_request", validation_message(error.errors()))
        return refusal.response(request.state.request_id)

    @app.exception_handler(GroupNoiseError)
    async def on_library_error(request: Request, error: GroupNoiseError) -> JSONResponse:
        return refusal_from_error(error).response(request.state.request_id)

    @app.exception_handler(Exception)
    async def on_failure(request: Request, error: Exception) -> JSONResponse:
        # The error goes on to the guard, which logs it.
        return internal_error().response(request.state.request_id)

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        codes = {404: "not_found", 405: "method_not_allowed"}
        message, path = str(error.detail), request.url.path[:MAX_QUOTED]
        if error.status_code == 404:
            near = did_you_mean(path, app.openapi()["paths"])
            message = f"there is no path {path!r}{near}; there are {_list_paths(app)}. See /docs."
        elif error.status_code == 405:
            allowed = (error.headers or {}).get("Allow", "another method")
            message = f"{path!r} is not asked by {request.method}; use {allowed}."
        refusal = Refusal(error.status_code, codes.get(error.status_code, "refused"), message)
        response = refusal.response(request.state.request_id)
        response.headers.update(error.headers or {})
        return response


def add_page(app: FastAPI, folder: Path, files: Mapping[str, tuple[str, str]]) -> None:
    """Serve static files of a folder: `files` maps each path to a file name and media type."""
    for path, (name, media_type) in files.items():
        answer = _file_route((folder / name).read_bytes(), media_type)
        app.add_route(path, answer, include_in_schema=False)


def _file_route(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def page_file(_: Request) -> Response:
        # Revalidated, since the page changes with the release.
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    return page_file
