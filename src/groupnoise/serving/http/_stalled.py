"""Closing connections that hold a socket without ever finishing the head of a request.

The guard bounds a request from the end of its headers on; before that uvicorn waits for ever, so a
client that sends its headers drop by drop could hold one of a bounded number of sockets.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class StalledConnections:
    """Remembers since when each connection has had no request, and closes those that stay so.

    Parameters
    ----------
    seconds : float
        How long a connection may go without a whole request head.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._without_request: dict[Any, float] = {}

    def close_stalled(self, connections: Iterable[Any], now: float) -> int:
        """Close what has stalled by the time `now`, and return how many that were.

        Parameters
        ----------
        connections : iterable of uvicorn protocols
            Every open connection.
        now : float
            A clock that only goes forward, in seconds.
        """
        idle = [connection for connection in connections if not _has_request(connection)]
        since = {connection: self._without_request.get(connection, now) for connection in idle}
        stalled = [connection for connection in idle if now - since[connection] > self._seconds]
        for connection in stalled:
            connection.transport.close()
            del since[connection]
        self._without_request = since
        return len(stalled)


def _has_request(connection: Any) -> bool:
    cycle = getattr(connection, "cycle", None)
    return cycle is not None and not cycle.response_complete
