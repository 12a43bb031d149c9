"""Running the service: a socket, structured logs, signals, and an orderly end."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from groupnoise.exceptions import GroupNoiseError
from groupnoise.serving.http._app import guarded_app
from groupnoise.serving.http._logs import configure_logs, log
from groupnoise.serving.http._protocol import http_protocol
from groupnoise.serving.http._service import RecallService
from groupnoise.serving.http._settings import ServiceSettings
from groupnoise.serving.http._stalled import StalledConnections

TICKS_PER_SWEEP = 5  # uvicorn ticks ten times a second


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
    service = RecallService(settings)
    config = uvicorn.Config(
        guarded_app(service),
        host=settings.host,
        port=settings.port,
        http=http_protocol(),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(settings.grace_seconds),
    )
    server = _Server(config, service, on_ready)
    try:
        listening = config.bind_socket()
    except SystemExit:
        raise GroupNoiseError(
            f"port {settings.port} on {settings.host} cannot be listened on; is it in use?"
        ) from None
    host, port = listening.getsockname()[:2]
    server.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    server.run(sockets=[listening])


def _check_resolves(host: str) -> None:
    """Refuse a host name no one knows before a model is loaded for it."""
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        raise GroupNoiseError(f"the host {host!r} cannot be resolved to an address.") from None


class _Server(uvicorn.Server):
    """Says when it is ready, and stops being ready when told to end."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: RecallService,
        on_ready: Callable[[str], None] | None,
    ) -> None:
        super().__init__(config)
        self._service = service
        self._on_ready = on_ready
        self._stalled = StalledConnections(service.limits.seconds)
        self.address = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            log("ready", address=self.address, version=self._service.model().version)
            if self._on_ready is not None:
                self._on_ready(self.address)

    async def on_tick(self, counter: int) -> bool:
        if counter % TICKS_PER_SWEEP == 0:
            n_closed = self._stalled.close_stalled(self.server_state.connections, time.monotonic())
            if n_closed:
                log("closed_stalled", connections=n_closed)
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.is_ready = False
        log("stopping", signal=signal.Signals(sig).name)
        super().handle_exit(sig, frame)
