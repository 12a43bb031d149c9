"""Closing connections that hold a socket without asking anything or reading the answer.

The guard bounds a request from the end of its headers to its answer. Before that uvicorn waits for
ever, so a client that sends its headers drop by drop could hold one of a bounded number of sockets;
and a client that does not read its answer would keep all of it in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class _Wait:
    """Since when the service has been waiting for a client, and with how many bytes for it."""

    since: float
    n_unsent: int


class StalledConnections:
    """Remembers since when each client has kept the service waiting, and closes those that go on.

    Parameters
    ----------
    seconds : float
        How long a connection may go without a whole request head, or without reading any of an
        answer that is ready.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waits: dict[Any, _Wait] = {}

    def close_stalled(self, connections: Iterable[Any], now: float) -> int:
        """Close what has stalled by the time `now`, and return how many that were.

        Parameters
        ----------
        connections : iterable of uvicorn protocols
            Every open connection.
        now : float
            A clock that only goes forward, in seconds.
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
