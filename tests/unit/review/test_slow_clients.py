"""Clients that send or read too slowly do not hold up the others at the desk: real sockets."""

import socket
import threading
import time
from dataclasses import replace

import httpx
import pandas as pd
import polars as pl
import pytest

pytest.importorskip("fastapi")

from groupnoise.recall.http.server import bind
from groupnoise.recall.http.settings import Limits, ServiceSettings
from groupnoise.review import Desk
from groupnoise.review.http import desk_server
from groupnoise.votes import resolve

SECONDS = 0.6
HEAD = b"GET /v1/export HTTP/1.1\r\nHost: localhost\r\n"
BODY = (
    b"POST /v1/answer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 90\r\n\r\n{"
)


@pytest.fixture
def server(tmp_path):
    text = ["x" * 600_000] * 20  # more than the system takes off the service's hands
    rows = pd.DataFrame({"ann_1": ["a", "b"] * 10, "ann_2": ["a", "a"] * 10})
    found = resolve(rows, n_rounds=1)
    found = replace(found, rows=found.rows.with_columns(text=pl.Series(text)))
    desk = Desk(found, tmp_path / "answers.jsonl")
    listening, address = bind("127.0.0.1", 0)
    settings = ServiceSettings(artifact=tmp_path, port=0, limits=Limits(seconds=SECONDS))
    server = desk_server(desk, settings)
    running = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    running.start()
    while not server.started:
        time.sleep(0.01)
    yield address, server.server_state.connections
    server.should_exit = True
    running.join(timeout=20)
    desk.close()


def connected(address):
    host, _, port = address.rpartition("//")[2].partition(":")
    client = socket.create_connection((host, int(port)), timeout=20)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    return client


def test_who_sends_or_reads_too_slowly_is_let_go(server):
    address, connections = server
    clients = {}
    for kind, begin in (("head", HEAD), ("body", BODY), ("deaf", HEAD + b"\r\n")):
        clients[kind] = connected(address)
        clients[kind].sendall(begin)
    ended = {}
    began = time.monotonic()
    while len(ended) < 2 and time.monotonic() - began < 20:
        assert httpx.get(f"{address}/v1/progress", timeout=20).status_code == 200
        for kind in {"head", "body"} - set(ended):
            try:
                clients[kind].sendall(b"X")
                clients[kind].settimeout(0.05)
                ended[kind] = clients[kind].recv(100)
            except TimeoutError:
                pass
            except OSError:
                ended[kind] = b""
    assert ended["body"].startswith(b"HTTP/1.1 408")
    assert ended["head"] == b""
    while connections and time.monotonic() - began < 20:  # who reads nothing of the export
        time.sleep(0.05)
    assert not connections
    for client in clients.values():
        client.close()
