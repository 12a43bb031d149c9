"""One of several processes of a service, started with a listening socket that all share."""

from __future__ import annotations

import json
import signal
import socket
import sys
from dataclasses import replace

from groupnoise.exceptions import GroupNoiseError
from groupnoise.recall.http.monitoring import configure_logs
from groupnoise.recall.http.processes import Peers
from groupnoise.recall.http.server import make_server
from groupnoise.recall.http.service import RecallService
from groupnoise.recall.http.settings import ServiceSettings

FAILED = 2


def run(listening: socket.socket, connection: socket.socket) -> int:
    """Serve until told to end; return the exit code."""
    configure_logs()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    told = json.loads(_first_line(connection))
    settings, lost_canary = ServiceSettings.from_record(told["settings"]), ""
    try:
        try:
            service = RecallService(settings)
        except GroupNoiseError as error:
            if settings.canary is None or not told["replaces"]:
                raise
            # Pruned since the others read it; if it is not that, it is refused again.
            service, lost_canary = RecallService(replace(settings, canary=None)), str(error)
    except GroupNoiseError as error:
        message = {"kind": "failed", "message": str(error)}
        connection.sendall(json.dumps(message).encode() + b"\n")
        return FAILED
    server = make_server(service, shares_socket=True)
    service.peers = Peers(connection, server.stop_with_all, lost_canary)
    server.run(sockets=[listening])
    return 0


def _first_line(connection: socket.socket) -> bytes:
    """Return what comes before the first newline, and leave the rest to be read."""
    parts = []
    while (part := connection.recv(1)) not in (b"", b"\n"):
        parts.append(part)
    return b"".join(parts)


if __name__ == "__main__":
    shared, own = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    sys.exit(run(shared, own))
