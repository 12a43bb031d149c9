"""Every refusal as one JSON shape: a code for programs, a sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from groupnoise.exceptions import GroupNoiseError, UnknownTargetError


class Refusal(Exception):
    """A request that will not be answered.

    `status`: the HTTP status.
    `code`: a stable word for programs.
    `message`: one sentence that says what to change.
    `limit`: the limit that was exceeded.
    """

    def __init__(self, status: int, code: str, message: str, *, limit: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.limit = limit

    def response(self, request_id: str) -> JSONResponse:
        """Return the refusal as the one shape all errors share."""
        headers = {"Retry-After": "1"} if self.status == 429 else {}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.limit is not None:
            error["limit"] = self.limit
        error["request_id"] = request_id
        return JSONResponse({"error": error}, status_code=self.status, headers=headers)


def internal_error() -> Refusal:
    """Return what a client is told of a failure: where to look, and nothing of what it was."""
    message = "the service failed on this request; its log says more under the request id."
    return Refusal(500, "internal_error", message)


def refusal_of(error: GroupNoiseError) -> Refusal:
    """Return what a client is told where the library refused what it asked."""
    if isinstance(error, UnknownTargetError):
        return Refusal(404, "unknown_item", str(error))
    return Refusal(422, "invalid_request", str(error))


def sentence_of(error: Mapping[str, Any]) -> str:
    """Return one validation error as a sentence that begins with where it is."""
    where = ".".join(str(part) for part in error["loc"]) or "the body"
    return f"{where}: {error['msg']}."


def install_error_handlers(app: FastAPI) -> None:
    """Make the app answer every kind of error in the shape of :class:`Refusal`."""

    @app.exception_handler(Refusal)
    async def on_refusal(request: Request, error: Refusal) -> JSONResponse:
        return error.response(request.state.request_id)

    @app.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        refusal = Refusal(422, "invalid_request", sentence_of(error.errors()[0]))
        return refusal.response(request.state.request_id)

    @app.exception_handler(GroupNoiseError)
    async def on_library_error(request: Request, error: GroupNoiseError) -> JSONResponse:
        return refusal_of(error).response(request.state.request_id)

    @app.exception_handler(Exception)
    async def on_failure(request: Request, error: Exception) -> JSONResponse:
        # The error goes on to the guard, which logs it.
        return internal_error().response(request.state.request_id)

    @app.exception_handler(HTTPException)
    async def on_http(request: Request, error: HTTPException) -> JSONResponse:
        codes = {404: "not_found", 405: "method_not_allowed"}
        refusal = Refusal(
            error.status_code, codes.get(error.status_code, "refused"), str(error.detail)
        )
        response = refusal.response(request.state.request_id)
        response.headers.update(error.headers or {})
        return response
