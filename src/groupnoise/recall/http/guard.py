"""What stands before every route: who may ask, how much, how long, and a record of each answer."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groupnoise.recall.http.errors import Refusal, internal_error
from groupnoise.recall.http.monitoring import LOGGER, ServiceMetrics, log
from groupnoise.recall.http.settings import ServiceSettings, is_loopback

OPEN_PATHS = frozenset({"/", "/page.css", "/page.js", "/search.js", "/healthz", "/readyz"})
"""Served without a token: they say nothing about the model."""
UNTIMED_PATHS = frozenset({"/v1/model/reload"})
"""Reading and checking a large artifact takes as long as it takes; reading a body does not."""
FOREIGN_SITES = frozenset({"cross-site", "same-site"})
"""What browsers call pages of another origin; another port of this machine is the same site."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware that admits, bounds, labels and records requests.

    Parameters
    ----------
    app : ASGI application
        What answers admitted requests.
    settings : ServiceSettings
        Token and limits.
    metrics : ServiceMetrics
        Where requests are counted.
    """

    def __init__(self, app: ASGIApp, *, settings: ServiceSettings, metrics: ServiceMetrics) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._n_running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass a lifespan event on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, _request_id(Headers(scope=scope)))
        scope.setdefault("state", {})["request_id"] = answer.request_id
        self._n_running += 1
        self._metrics.in_flight.inc()
        try:
            await self._admit_and_run(scope, receive, answer)
        finally:
            self._n_running -= 1
            self._metrics.in_flight.dec()
            self._record(scope, answer)

    async def _admit_and_run(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        seconds = self._settings.limits.seconds
        try:
            self._admit(scope)
            body = await asyncio.wait_for(self._read_body(scope, receive), seconds)
            if body is None:
                return
            left = answer.started + seconds - time.perf_counter()
            running = self._app(scope, _replay(body, receive), answer.send)
            await asyncio.wait_for(running, None if scope["path"] in UNTIMED_PATHS else left)
        except Refusal as refusal:
            await answer.instead(scope, receive, refusal)
        except (asyncio.TimeoutError, TimeoutError):
            message = f"the request took longer than the {seconds:g} seconds allowed."
            late = Refusal(408, "too_slow", message, limit=seconds)
            await answer.instead(scope, receive, late)
        except Exception:
            LOGGER.exception("failure", extra={"fields": {"request_id": answer.request_id}})
            await answer.instead(scope, receive, internal_error())

    def _admit(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        path = scope["path"]
        self._check_origin(headers, path)
        if path in OPEN_PATHS:
            return
        limit = self._settings.limits.concurrency
        if self._n_running > limit:
            message = f"more than {limit} requests are being answered; try again shortly."
            raise Refusal(429, "too_many_requests", message, limit=limit)
        token = self._settings.token
        if token is not None:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            is_right = hmac.compare_digest(given.strip().encode(), token.encode())
            if scheme.lower() != "bearer" or not is_right:
                message = "this service needs `Authorization: Bearer <token>`."
                raise Refusal(401, "token_needed", message)

    def _check_origin(self, headers: Headers, path: str) -> None:
        """Keep web pages of other sites from using a service that trusts this machine."""
        host = headers.get("host", "")
        if self._settings.token is None and not is_loopback(_host_name(f"//{host}")):
            message = "without a token this service answers to the name of this machine only."
            raise Refusal(403, "foreign_host", message)
        origin = headers.get("origin")
        is_foreign = origin is not None and _network_location(origin) != host
        # Browsers send no Origin with an image or a link. A link to the page itself is welcome.
        site = headers.get("sec-fetch-site")
        if is_foreign or (site in FOREIGN_SITES and path not in OPEN_PATHS):
            raise Refusal(403, "foreign_origin", "requests from pages of other sites are refused.")

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes | None:
        """Return the whole body, None where the client went away before sending it."""
        limit = self._settings.limits.body_bytes
        too_large = Refusal(
            413, "body_too_large", f"the body is larger than {limit} bytes.", limit=limit
        )
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise too_large
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise too_large
            more = message.get("more_body", False)
        return b"".join(parts)

    def _record(self, scope: Scope, answer: _Answer) -> None:
        seconds = time.perf_counter() - answer.started
        status = answer.status or 499  # the client went away
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.observe_request(route, status, seconds)
        log(
            "request",
            level=logging.ERROR if status == 500 else logging.INFO,
            request_id=answer.request_id,
            method=scope["method"],
            path=scope["path"],
            status=status,
            milliseconds=round(1000 * seconds, 2),
        )


class _Answer:
    """The response to one request: adds headers, remembers the status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status: int | None = None
        self.started = time.perf_counter()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-ID"] = self.request_id
            for name, value in SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def instead(self, scope: Scope, receive: Receive, refusal: Refusal) -> None:
        """Send a refusal, unless an answer has begun already."""
        if self.status is None:
            response: Response = refusal.response(self.request_id)
            await response(scope, receive, self.send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that gives the body again, then whatever follows it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if re.fullmatch(r"[\w.-]{1,64}", given, re.ASCII) else secrets.token_hex(8)


def _host_name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _network_location(address: str) -> str:
    try:
        return urlsplit(address).netloc
    except ValueError:
        return ""
