"""Running the service: a socket, bounded heads, stalled connections, signals."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import uvicorn

from groupnoise.exceptions import GroupNoiseError
from groupnoise.recall.http.app import guarded_app
from groupnoise.recall.http.monitoring import configure_logs, log
from groupnoise.recall.http.service import RecallService
from groupnoise.recall.http.settings import ServiceSettings

MAX_HEAD_BYTES = 65_536
BACKLOG = 2048
TICKS_PER_SWEEP = 5  # uvicorn ticks ten times a second
LINGER_SECONDS = 1.0
"""How long a connection may stay silent, after the service stopped accepting, to ask once more."""
PAUSE_SECONDS = 0.02
SO_ATTACH_FILTER = 26
DROP_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
"""Berkeley packet filter: load the flags of TCP; if SYN is set drop the packet, else let it pass.

Only SYN, since a client whose last packet of the handshake is lost believes it is connected.
"""
CLOSE_HEADER = (b"connection", b"close")
HEAD, INTERIM = b"HTTP/1.", b"HTTP/1.1 1"
"""How answers begin, and those of them that the client waits for before it goes on."""


def http_protocol() -> type[asyncio.Protocol] | Literal["h11"]:
    """Return the protocol to serve with: httptools where it is installed, bounded; else h11."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class BoundedHeadProtocol(HttpToolsProtocol):
        """Refuses a head that goes on beyond the bound.

        Whole reads are counted, from the one after the head began, because only the parser knows
        where in a read that was.
        """

        _is_in_head = True
        _n_head_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Take a new client, whose answers are sent whole."""
            super().connection_made(WholeAnswers(transport))  # type: ignore[arg-type]

        def on_response_complete(self) -> None:
            """Send an answer that has no body."""
            self.transport.flush()  # type: ignore[attr-defined]
            super().on_response_complete()

        def data_received(self, data: bytes) -> None:
            """Parse what arrived, and end the connection where the head has grown too large."""
            self._n_head_bytes += len(data)
            super().data_received(data)
            is_too_large = self._is_in_head and self._n_head_bytes > MAX_HEAD_BYTES
            if is_too_large and not self.transport.is_closing():
                self.send_400_response(f"The request head is larger than {MAX_HEAD_BYTES} bytes.")

        def on_message_begin(self) -> None:
            """Count anew: one connection carries many requests."""
            super().on_message_begin()
            self._is_in_head, self._n_head_bytes = True, 0

        def on_headers_complete(self) -> None:
            """Stop counting: the guard bounds the body."""
            self._is_in_head = False
            super().on_headers_complete()

    return BoundedHeadProtocol


class WholeAnswers:
    """A transport that keeps the head of an answer until its body comes: one packet, not two.

    That saves the kernel, and the client, a tenth of the work of a small answer.

    `transport`: of the connection.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send data, or keep it if it is the head of an answer."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(HEAD) and not data.startswith(INTERIM):
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Send a head that no body followed."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Send what is kept, and end the connection."""
        self.flush()
        self._transport.close()


@dataclass(frozen=True)
class _Wait:
    """Since when the service has been waiting for a client, and with how many bytes for it."""

    since: float
    n_unsent: int


class StalledConnections:
    """Remembers since when each client has kept the service waiting, and closes those that go on.

    `seconds`: how long a connection may go without a whole request head, or without reading any of
        an answer that is ready.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[Any, _Wait] = {}

    def close_stalled(self, connections: Iterable[Any], now: float) -> int:
        """Close what has stalled by the time `now`, and return how many that were.

        `now`: a clock that only goes forward, in seconds.
        """
        waits = {}
        n_closed = 0
        for connection in list(connections):
            n_unsent = connection.transport.get_write_buffer_size()
            if n_unsent == 0 and _has_request(connection):
                continue  # the client waits for the service
            wait = self._waits.get(connection)
            if wait is None or wait.n_unsent != n_unsent:
                wait = _Wait(now, n_unsent)  # a client that reads, however slowly, is served
            if now - wait.since > self._seconds:
                if n_unsent:
                    # What the system holds of an answer that nobody reads goes too.
                    own = connection.transport.get_extra_info("socket")
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                # Not close(), which waits until the client has read everything.
                connection.transport.abort()
                n_closed += 1
            else:
                waits[connection] = wait
        self._waits = waits
        return n_closed


def _has_request(connection: Any) -> bool:
    cycle = getattr(connection, "cycle", None)
    return cycle is not None and not cycle.response_complete


def serve(settings: ServiceSettings, *, on_ready: Callable[[str], None] | None = None) -> None:
    """Answer requests until SIGTERM or SIGINT; SIGHUP reloads the artifacts.

    Parameters
    ----------
    settings : ServiceSettings
        What to serve and where.
    on_ready : callable, optional
        Called with the address once the models are loaded and the socket listens.
    """
    configure_logs()
    # A reload signal that comes before the service listens for it must not end the process.
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _check_resolves(settings.host)
    if settings.processes > 1:
        from groupnoise.recall.http.processes import supervise

        listening, address = bind(settings.host, settings.port)
        listening.listen(BACKLOG)
        supervise(settings, listening, address, on_ready)
        return
    server = make_server(RecallService(settings), on_ready)
    listening, server.address = bind(settings.host, settings.port)
    run_until_stopped(server, listening)


def run_until_stopped(server: uvicorn.Server, listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, which have done their work when everything is answered.

    `server`: it would raise the signal again after its end, so that nothing behind it could run.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        if not server.should_exit:
            server.handle_exit(number, frame)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        server.run(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def make_server(
    service: RecallService,
    on_ready: Callable[[str], None] | None = None,
    *,
    shares_socket: bool = False,
) -> RecallServer:
    """Return the server of a service, ready to be run."""
    config = uvicorn.Config(
        guarded_app(service),
        http=http_protocol(),
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(service.settings.grace_seconds),
    )
    return RecallServer(config, service, on_ready, shares_socket)


def bind(host: str, port: int) -> tuple[socket.socket, str]:
    """Take a port, a free one for 0, and return it with its address; nobody is answered yet."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        said = getattr(error, "strerror", None) or error
        raise GroupNoiseError(
            f"port {port} on {host} cannot be listened on ({said}); give another one with --port, "
            "or 0 for a free one."
        ) from None
    name, number = bound.getsockname()[:2]
    return bound, f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"


def _check_resolves(host: str) -> None:
    """Refuse a host name no one knows before a model is loaded for it."""
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        raise GroupNoiseError(f"the host {host!r} cannot be resolved to an address.") from None


class BoundedServer(uvicorn.Server):
    """Closes connections whose clients keep it waiting.

    `seconds`: how long they may, as in `StalledConnections`.
    """

    def __init__(self, config: uvicorn.Config, seconds: float) -> None:
        super().__init__(config)
        self._stalled = StalledConnections(seconds)

    async def on_tick(self, counter: int) -> bool:
        """Close what has stalled, now and then; return whether to end."""
        if counter % TICKS_PER_SWEEP == 0:
            n_closed = self._stalled.close_stalled(self.server_state.connections, time.monotonic())
            if n_closed:
                log("closed_stalled", connections=n_closed)
        return await super().on_tick(counter)


class RecallServer(BoundedServer):
    """Says when it is ready, and stops being ready when told to end."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: RecallService,
        on_ready: Callable[[str], None] | None,
        shares_socket: bool,
    ) -> None:
        super().__init__(config, service.limits.seconds)
        self._shares_socket = shares_socket
        self._service = service
        self._on_ready = on_ready
        self.address = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept, and say so."""
        await super().startup(sockets=sockets)
        gc.freeze()  # as after a reload, but no model goes: to look for garbage takes longest here
        if self.started and not self._shares_socket:
            log("ready", address=self.address, version=self._service.model().version)
            if self._on_ready is not None:
                self._on_ready(self.address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer what is open, then end."""
        await answer_what_is_open(self, sockets or [], is_shared=self._shares_socket)
        await super().shutdown(sockets)

    def stop_with_all(self) -> None:
        """End because the whole service ends: nobody is left to accept what waits."""
        self._shares_socket = False
        self.handle_exit(signal.SIGTERM, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End: by a signal, and no longer ready."""
        self._service.is_ready = False
        log("stopping", signal=signal.Signals(sig).name)
        super().handle_exit(sig, frame)


def hold_off_newcomers(listening: Iterable[socket.socket]) -> None:
    """Let the kernel drop further attempts to connect; clients try again a second later.

    Closing a listening socket resets the connections that wait to be accepted. Once no more can
    come, those that wait can all be accepted, and the socket closed.
    """
    if not sys.platform.startswith("linux"):
        return
    steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in DROP_SYN))
    program = struct.pack("HL", len(DROP_SYN), ctypes.addressof(steps))
    for each in listening:
        with suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


async def answer_what_is_open(
    server: Any, sockets: Iterable[socket.socket], *, is_shared: bool = False
) -> None:
    """Stop accepting, and answer every connection until it is closed or stays silent.

    `server`: the server that ends; every answer from now on ends its connection. `is_shared`: other
    processes accept there and go on: what waits is left to them.
    """
    state = server.server_state
    listening = list(sockets)
    if not is_shared:
        hold_off_newcomers(listening)
    loop = asyncio.get_running_loop()
    end = loop.time() + (server.config.timeout_graceful_shutdown or LINGER_SECONDS)
    await asyncio.sleep(PAUSE_SECONDS)
    while (
        not is_shared and _have_waiting(listening) and loop.time() < end and not server.force_exit
    ):
        await asyncio.sleep(PAUSE_SECONDS)  # the loop accepts them
    for each in server.servers:
        each.close()
    for each in listening:
        each.close()
    state.default_headers = [*state.default_headers, CLOSE_HEADER]
    silent_since = loop.time()
    while state.connections and loop.time() < end and not server.force_exit:
        cycles = [getattr(connection, "cycle", None) for connection in list(state.connections)]
        running = [each for each in cycles if each is not None and not each.response_complete]
        for each in running:
            if not each.response_started:
                each.keep_alive = False  # which also tells the client so
        if running:
            silent_since = loop.time()
        elif loop.time() - silent_since > LINGER_SECONDS:
            return
        await asyncio.sleep(PAUSE_SECONDS)


def _have_waiting(listening: list[socket.socket]) -> bool:
    """Return whether a connection waits to be accepted."""
    poll = select.poll() if hasattr(select, "poll") else None
    if poll is None:
        return False
    for each in listening:
        poll.register(each, select.POLLIN)
    return bool(poll.poll(0))
