"""The server: socket, limits on request heads and stalled connections, signals, shutdown."""

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
"""How long idle connections stay open on shutdown, for a request under way."""
POLL_SECONDS = 0.02
SO_ATTACH_FILTER = 26
DROP_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
"""Berkeley packet filter: load the flags of TCP; if SYN is set drop the packet, else let it pass.

Only SYN, since a client whose last packet of the handshake is lost believes it is connected.
"""
CLOSE_HEADER = (b"connection", b"close")
HEAD, INTERIM = b"HTTP/1.", b"HTTP/1.1 1"
"""First bytes of responses, and of interim responses, which are sent at once."""


def http_protocol() -> type[asyncio.Protocol] | Literal["h11"]:
    """Return the HTTP protocol: httptools with bounded heads if installed, otherwise h11."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"

    class BoundedHeadProtocol(HttpToolsProtocol):
        """Refuses request heads longer than `MAX_HEAD_BYTES`.

        Whole reads are counted, from the one after the head began, since only the parser knows
        where in a read the head begins.
        """

        _is_in_head = True
        _n_head_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Wrap the transport of a new connection."""
            super().connection_made(CoalescingTransport(transport))  # type: ignore[arg-type]

        def on_response_complete(self) -> None:
            """Flush an answer without a body."""
            self.transport.flush()  # type: ignore[attr-defined]
            super().on_response_complete()

        def data_received(self, data: bytes) -> None:
            """Parse the data, and close the connection if the head is too large."""
            self._n_head_bytes += len(data)
            super().data_received(data)
            is_too_large = self._is_in_head and self._n_head_bytes > MAX_HEAD_BYTES
            if is_too_large and not self.transport.is_closing():
                self.send_400_response(f"The request head is larger than {MAX_HEAD_BYTES} bytes.")

        def on_message_begin(self) -> None:
            """Reset the count for the next request of the connection."""
            super().on_message_begin()
            self._is_in_head, self._n_head_bytes = True, 0

        def on_headers_complete(self) -> None:
            """Stop counting; the guard limits the body."""
            self._is_in_head = False
            super().on_headers_complete()

    return BoundedHeadProtocol


class CoalescingTransport:
    """A transport that sends the head and body of an answer in one packet.

    It saves a tenth of the time of a small answer.

    `transport`: of the connection.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write data, or hold it back if it is the head of an answer."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(HEAD) and not data.startswith(INTERIM):
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Write a head that was held back."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Flush, and close the connection."""
        self.flush()
        self._transport.close()


@dataclass(frozen=True)
class _Wait:
    """When the service began to wait for a client, and the bytes then unsent."""

    since: float
    n_unsent: int


class StalledConnections:
    """Closes connections whose clients keep the service waiting.

    `seconds`: how long a client may take for a request head, or not read any of its answer.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[Any, _Wait] = {}

    def close_stalled(self, connections: Iterable[Any], now: float) -> int:
        """Close the stalled connections at monotonic time `now`; return their number."""
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
                    # Discard the part of the answer in the socket buffer too.
                    client_socket = connection.transport.get_extra_info("socket")
                    client_socket.setsockopt(
                        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                    )
                # close() would wait until the client has read everything.
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
    # A reload signal before the service handles it must not end the process.
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _check_host(settings.host)
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
    """Serve until SIGTERM or SIGINT, and return after all requests are answered.

    `server`: uvicorn would raise the signal again at its end and so end the process.
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
    """Return the server of a service."""
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
    """Return a socket bound to a port, a free one for 0, and its address."""
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except (OSError, OverflowError) as error:
        bound.close()
        reason = getattr(error, "strerror", None) or error
        raise GroupNoiseError(
            f"port {port} on {host} cannot be listened on ({reason}); give another one with "
            "--port, or 0 for a free one."
        ) from None
    name, number = bound.getsockname()[:2]
    return bound, f"http://[{name}]:{number}" if ":" in name else f"http://{name}:{number}"


def _check_host(host: str) -> None:
    """Refuse a host name that does not resolve, before models are loaded."""
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        raise GroupNoiseError(f"the host {host!r} cannot be resolved to an address.") from None


class BoundedServer(uvicorn.Server):
    """A server that closes stalled connections.

    `seconds`: as in `StalledConnections`.
    """

    def __init__(self, config: uvicorn.Config, seconds: float) -> None:
        super().__init__(config)
        self._stalled = StalledConnections(seconds)

    async def on_tick(self, counter: int) -> bool:
        """Close stalled connections every few ticks; return whether to stop."""
        if counter % TICKS_PER_SWEEP == 0:
            n_closed = self._stalled.close_stalled(self.server_state.connections, time.monotonic())
            if n_closed:
                log("closed_stalled", connections=n_closed)
        return await super().on_tick(counter)


class RecallServer(BoundedServer):
    """The server of a recall service: logs when it is ready, and drains connections on shutdown."""

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
        """Accept connections, and report that the server is ready."""
        await super().startup(sockets=sockets)
        gc.freeze()  # without a collection, which takes long and would free little here
        if self.started and not self._shares_socket:
            log("ready", address=self.address, version=self._service.model().version)
            if self._on_ready is not None:
                self._on_ready(self.address)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain the connections, then stop."""
        await drain_connections(self, sockets or [], is_shared=self._shares_socket)
        await super().shutdown(sockets)

    def stop_service(self) -> None:
        """Stop with all other processes, and accept the connections that still wait."""
        self._shares_socket = False
        self.handle_exit(signal.SIGTERM, None)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop being ready, and begin the shutdown."""
        self._service.is_ready = False
        log("stopping", signal=signal.Signals(sig).name)
        super().handle_exit(sig, frame)


def drop_new_connections(listening: Iterable[socket.socket]) -> None:
    """Let the kernel drop new connection attempts, which clients repeat a second later.

    Closing a listening socket resets the connections that wait to be accepted. Once no new ones
    arrive, all of them can be accepted before the socket is closed.
    """
    if not sys.platform.startswith("linux"):
        return
    steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in DROP_SYN))
    program = struct.pack("HL", len(DROP_SYN), ctypes.addressof(steps))
    for each in listening:
        with suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


async def drain_connections(
    server: Any, sockets: Iterable[socket.socket], *, is_shared: bool = False
) -> None:
    """Stop accepting, and answer open connections until they are closed or idle.

    `server`: each of its answers now closes its connection. `is_shared`: other processes accept
    the connections that wait.
    """
    state = server.server_state
    listening = list(sockets)
    if not is_shared:
        drop_new_connections(listening)
    loop = asyncio.get_running_loop()
    end = loop.time() + (server.config.timeout_graceful_shutdown or LINGER_SECONDS)
    await asyncio.sleep(POLL_SECONDS)
    while (
        not is_shared
        and _has_pending_connection(listening)
        and loop.time() < end
        and not server.force_exit
    ):
        await asyncio.sleep(POLL_SECONDS)  # the loop accepts them
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
                each.keep_alive = False  # also sends `Connection: close`
        if running:
            silent_since = loop.time()
        elif loop.time() - silent_since > LINGER_SECONDS:
            return
        await asyncio.sleep(POLL_SECONDS)


def _has_pending_connection(listening: list[socket.socket]) -> bool:
    """Return whether a connection waits to be accepted."""
    poll = select.poll() if hasattr(select, "poll") else None
    if poll is None:
        return False
    for each in listening:
        poll.register(each, select.POLLIN)
    return bool(poll.poll(0))
