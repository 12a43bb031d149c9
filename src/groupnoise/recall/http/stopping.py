"""An end without a reset: whoever has connected, or is about to ask again, is still answered."""

from __future__ import annotations

import asyncio
import ctypes
import select
import socket
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

LINGER_SECONDS = 1.0
"""How long a connection may stay silent, after the service stopped accepting, to ask once more."""
PAUSE_SECONDS = 0.02
SO_ATTACH_FILTER = 26
DROP_SYN = ((0x30, 0, 0, 13), (0x45, 0, 1, 0x02), (0x06, 0, 0, 0), (0x06, 0, 0, 0xFFFFFFFF))
"""Berkeley packet filter: load the flags of TCP; if SYN is set drop the packet, else let it pass.

Only SYN, since a client whose last packet of the handshake is lost believes it is connected.
"""
CLOSE_HEADER = (b"connection", b"close")


def hold_off_newcomers(listening: Iterable[socket.socket]) -> None:
    """Let the kernel drop further attempts to connect; clients try again a second later.

    Closing a listening socket resets the connections that wait to be accepted. Once no more can
    come, those that wait can all be accepted, and the socket closed.

    Parameters
    ----------
    listening : iterable of socket
        Sockets that accept.
    """
    if not sys.platform.startswith("linux"):
        return
    steps = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in DROP_SYN))
    program = struct.pack("HL", len(DROP_SYN), ctypes.addressof(steps))
    for each in listening:
        with suppress(OSError):
            each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)


async def answer_what_is_open(server: Any, sockets: Iterable[socket.socket]) -> None:
    """Stop accepting, and answer every connection until it is closed or stays silent.

    Parameters
    ----------
    server : uvicorn.Server
        The server that ends; every answer from now on ends its connection.
    sockets : iterable of socket
        What it listens on.
    """
    state = server.server_state
    listening = list(sockets)
    hold_off_newcomers(listening)
    loop = asyncio.get_running_loop()
    end = loop.time() + (server.config.timeout_graceful_shutdown or LINGER_SECONDS)
    await asyncio.sleep(PAUSE_SECONDS)
    while _have_waiting(listening) and loop.time() < end and not server.force_exit:
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
