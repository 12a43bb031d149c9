"""A worker process of a service, started with a listening socket that all workers share."""

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
    """Serve until stopped; return the exit code."""
    configure_logs()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    start_message = json.loads(_first_line(connection))
    settings, lost_canary = ServiceSettings.from_record(start_message["settings"]), ""
    try:
        try:
            service = RecallService(settings)
        except GroupNoiseError as error:
            if settings.canary is None or not start_message["replaces"]:
                raise
            # The canary may have been pruned since; any other error is raised again.
            service, lost_canary = RecallService(replace(settings, canary=None)), str(error)
    except GroupNoiseError as error:
        message = {"kind": "failed", "message": str(error)}
        connection.sendall(json.dumps(message).encode() + b"\n")
        return FAILED
    server = make_server(service, shares_socket=True)
    service.peers = Peers(connection, server.stop_service, lost_canary)
    server.run(sockets=[listening])
    return 0


def _first_line(connection: socket.socket) -> bytes:
    """Read up to the first newline, and no further."""
    parts = []
    while (part := connection.recv(1)) not in (b"", b"\n"):
        parts.append(part)
    return b"".join(parts)


if __name__ == "__main__":
    listening, connection = (socket.socket(fileno=int(number)) for number in sys.argv[1:3])
    sys.exit(run(listening, connection))
