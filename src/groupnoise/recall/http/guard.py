"""ASGI middleware before every route: access, limits, deadlines, security headers and logs."""

from __future__ import annotations

import asyncio
import hmac
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from random import getrandbits
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from groupnoise.exceptions import GroupNoiseError
from groupnoise.recall.http.answers import MAX_QUOTED, Refusal, internal_error, refusal_from_error
from groupnoise.recall.http.monitoring import LOGGER, ServiceMetrics, log_request
from groupnoise.recall.http.settings import ServiceSettings, is_loopback

OPEN_PATHS = frozenset({"/", "/docs", "/page.css", "/page.js", "/search.js", "/healthz", "/readyz"})
"""Served without a token: they reveal nothing about the model."""
LISTS_PATH = "/v1/lists/"
"""Prefix of the routes whose body may be as large as a list."""
UNTIMED_PATHS = frozenset({"/v1/model/reload"})
"""Routes without a deadline once the body was read: loading a large artifact takes time."""
FOREIGN_SITES = frozenset({b"cross-site", b"same-site"})
"""Values of Sec-Fetch-Site for pages of another origin; another port is the same site."""

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
JSON_PROTECTION = (
    b"x-content-type-options",
    b"x-frame-options",
    b"cross-origin-resource-policy",
    b"cache-control",
)
"""Security headers that matter for JSON, beside its own policy."""
_SECURITY_HEADERS = [
    (name.lower().encode(), value.encode()) for name, value in SECURITY_HEADERS.items()
]

_JSON_HEADERS = [
    (b"content-type", b"application/json"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    *(each for each in _SECURITY_HEADERS if each[0] in JSON_PROTECTION),
]

RawHeaders = dict[bytes, bytes]
"""Request headers by their names in lower case."""

DirectHandler = Callable[[bytes, str, bool], Awaitable[tuple[bytes, str]]]
"""Maps a body, its content type and whether several clients are active to an answer in JSON and
the version of the model."""


class Guard:
    """ASGI middleware that admits, bounds, labels and records requests.

    `app`: the wrapped application.
    `settings`: token and limits.
    `metrics`: where requests are counted.
    `direct`: handlers that bypass the framework, whose layers cost more than a small answer.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ServiceSettings,
        metrics: ServiceMetrics,
        direct: Mapping[tuple[str, str], DirectHandler] | None = None,
    ) -> None:
        self._app = app
        self._settings = settings
        self._metrics = metrics
        self._direct = dict(direct or {})
        self._n_running = 0
        self._last_client: Any = None
        self._deadlines = _Deadlines(settings.limits.seconds)
        metrics.n_in_flight = lambda: self._n_running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass on a lifespan event."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        # The first of repeated headers counts.
        headers = dict(reversed(scope["headers"]))
        answer = _Answer(send, _request_id(headers))
        scope.setdefault("state", {})["request_id"] = answer.request_id
        self._n_running += 1
        try:
            await self._admit_and_run(scope, headers, receive, answer)
        finally:
            self._n_running -= 1
            self._record(scope, answer)

    async def _admit_and_run(
        self, scope: Scope, headers: RawHeaders, receive: Receive, answer: _Answer
    ) -> None:
        seconds = self._settings.limits.seconds
        task = self._deadlines.begin()
        try:
            self._admit(scope, headers)
            path = scope["path"]
            body = await self._read_body(path, headers, receive)
            if body is None:
                return
            encoding = headers.get(b"content-encoding", b"identity").decode("latin-1")
            if body and encoding.lower() != "identity":
                message = f"the body is {encoding[:MAX_QUOTED]}; send it without Content-Encoding."
                raise Refusal(422, "invalid_request", message)
            if path in UNTIMED_PATHS:
                self._deadlines.clear(task)
            direct = self._direct.get((scope["method"], path))
            if direct is None:
                await self._app(scope, _replay(body, receive), answer.send)
            else:
                answer.route = path
                content_type = headers.get(b"content-type", b"").decode("latin-1")
                client = scope.get("client")
                is_busy, self._last_client = client != self._last_client, client
                answered = await direct(body, content_type, is_busy)
                content, scope["state"]["version"] = answered
                await answer.send_json(content)
        except asyncio.CancelledError:
            if not self._deadlines.has_expired(task):
                raise
            message = f"the request took longer than the {seconds:g} seconds allowed."
            late = Refusal(408, "too_slow", message, limit=seconds)
            await answer.refuse(scope, receive, late)
        except Refusal as refusal:
            await answer.refuse(scope, receive, refusal)
        except GroupNoiseError as error:
            await answer.refuse(scope, receive, refusal_from_error(error))
        except Exception:
            LOGGER.exception("failure", extra={"fields": {"request_id": answer.request_id}})
            await answer.refuse(scope, receive, internal_error())
        finally:
            self._deadlines.clear(task)

    def _admit(self, scope: Scope, headers: RawHeaders) -> None:
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
            scheme, _, given = headers.get(b"authorization", b"").partition(b" ")
            is_right = hmac.compare_digest(given.strip(), token.encode())
            if scheme.lower() != b"bearer" or not is_right:
                message = "this service needs `Authorization: Bearer <token>`."
                raise Refusal(401, "token_needed", message)

    def _check_origin(self, headers: RawHeaders, path: str) -> None:
        """Refuse requests from web pages of other sites."""
        host = headers.get(b"host", b"")
        if self._settings.token is None and not _is_loopback_host(host):
            message = "without a token this service answers to the name of this machine only"
            given_host = host.decode("latin-1")[:MAX_QUOTED]
            message += (
                f"; the header Host says {given_host!r}." if host else "; send the header Host."
            )
            raise Refusal(403, "foreign_host", message)
        origin = headers.get(b"origin")
        is_foreign = origin is not None and _network_location(origin) != host
        # Browsers send no Origin with an image or a link; links to the page itself are allowed.
        site = headers.get(b"sec-fetch-site")
        if is_foreign or (site in FOREIGN_SITES and path not in OPEN_PATHS):
            raise Refusal(403, "foreign_origin", "requests from pages of other sites are refused.")

    async def _read_body(self, path: str, headers: RawHeaders, receive: Receive) -> bytes | None:
        """Return the whole body, or None if the client disconnected first."""
        limits = self._settings.limits
        limit = limits.list_bytes if path.startswith(LISTS_PATH) else limits.body_bytes
        declared = headers.get(b"content-length", b"")
        size = int(declared) if declared.isdigit() else 0
        parts: list[bytes] = []
        more = size <= limit
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size = sum(map(len, parts))
            more = size <= limit and message.get("more_body", False)
        if size > limit:
            what = f"the body is larger than {limit} bytes."
            raise Refusal(413, "body_too_large", what, limit=limit)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _record(self, scope: Scope, answer: _Answer) -> None:
        seconds = time.perf_counter() - answer.started
        status = answer.status or 499  # the client disconnected
        route = answer.route or getattr(scope.get("route"), "path", "unmatched")
        version = scope["state"].get("version", "")  # empty if no model was involved
        self._metrics.observe_request(route, status, seconds, version)
        log_request(
            request_id=answer.request_id,
            method=scope["method"],
            path=scope["path"],
            status=status,
            version=version,
            seconds=seconds,
        )


class _Answer:
    """The response to one request: adds headers and records the status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.route = ""
        self.status: int | None = None
        self.started = time.perf_counter()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message["headers"]}
            missing = [header for header in _SECURITY_HEADERS if header[0] not in given]
            id_header = (b"x-request-id", self.request_id.encode())
            message["headers"] = [*message["headers"], id_header, *missing]
        await self._send(message)

    async def send_json(self, body: bytes) -> None:
        """Send an answer in JSON with status 200."""
        self.status = 200
        headers = [
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", self.request_id.encode()),
            *_JSON_HEADERS,
        ]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    async def refuse(self, scope: Scope, receive: Receive, refusal: Refusal) -> None:
        """Send a refusal, unless an answer was begun."""
        if self.status is None:
            response: Response = refusal.response(self.request_id)
            await response(scope, receive, self.send)


class _Deadlines:
    """Cancels tasks after a time limit; `asyncio.wait_for` would start another task for each.

    All have the same limit, so that tasks expire in the order they began and share one timer.

    `seconds`: the limit.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ends: dict[asyncio.Task[Any], float] = {}
        self._expired: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self) -> asyncio.Task[Any]:
        """Set the deadline of the running task, and return the task."""
        task = asyncio.current_task()
        assert task is not None
        loop = asyncio.get_running_loop()
        self._ends[task] = loop.time() + self._seconds
        if self._timer is None or self._loop is not loop:
            self._loop, self._timer = loop, loop.call_later(self._seconds, self._expire_due)
        return task

    def clear(self, task: asyncio.Task[Any]) -> None:
        """Remove the deadline of a task."""
        self._ends.pop(task, None)
        self._expired.discard(task)

    def has_expired(self, task: asyncio.Task[Any]) -> bool:
        """Return whether a task was cancelled by its deadline, and undo the cancellation if so."""
        if task not in self._expired:
            return False
        self._expired.remove(task)
        if hasattr(task, "uncancel"):  # not before Python 3.11
            task.uncancel()
        return True

    def _expire_due(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        for task, end in list(self._ends.items()):
            if end > loop.time():
                self._timer = loop.call_at(end, self._expire_due)
                return
            del self._ends[task]
            self._expired.add(task)
            task.cancel()


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive function that yields the body again, then what follows it."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


def _request_id(headers: RawHeaders) -> str:
    given = headers.get(b"x-request-id")
    if given is not None and re.fullmatch(rb"[\w.-]{1,64}", given):
        return given.decode()
    return f"{getrandbits(64):016x}"  # an identifier, not a secret


@lru_cache(maxsize=64)
def _is_loopback_host(host: bytes) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host.decode('latin-1')}").hostname or "")
    except ValueError:
        return False


def _network_location(address: bytes) -> bytes:
    try:
        return urlsplit(address).netloc
    except ValueError:
        return b""
