"""What one request or one client can take from the service, measured over a real socket."""

import json
import signal
import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest

from groupnoise.recall.http import Limits
from serving_support import running_service, write_random, write_shop


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bounds")
    with running_service(folder, write_shop(folder / "a")) as running:
        yield running


def post(service, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(
        f"{service.address}/v1/recall",
        content=content,
        headers={"content-type": "application/json", **headers},
        timeout=60,
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"histories":[[' + b",".join([b"[]"] * 330_000) + b"]]}",
        b'{"histories":[' + b",".join([b"[]"] * 333_000) + b"]}",
        b'{"histories":[[1],' + b",".join([b"[{},{},{},{}]"] * 70_000) + b"]}",
        b'{"histories":[["tea"]],"deny":[' + b",".join([b"{}"] * 330_000) + b"]}",
        b"{" + b",".join(b'"%x":1' % key for key in range(95_000)) + b"}",
        b"[" * 990_000,
    ],
    ids=["ids", "histories", "ids of many", "filter", "fields", "depth"],
)
def test_a_megabyte_of_mistakes_costs_little_time_and_memory(service, body):
    assert len(body) < 1_000_000
    httpx.get(f"{service.address}/healthz", timeout=60)
    megabytes, seconds = service.resident_megabytes(), service.processor_seconds()
    answer = post(service, body)
    assert answer.status_code == 422
    assert len(answer.content) < 500
    assert service.processor_seconds() - seconds < 1.5
    assert service.resident_megabytes() - megabytes < 150


def test_every_id_of_a_legal_request_may_be_wrong(service):
    seconds = service.processor_seconds()
    answer = post(service, {"histories": [[None] * 200] * 256})
    assert answer.status_code == 422
    assert "histories.0.0" in answer.json()["error"]["message"]
    assert service.processor_seconds() - seconds < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("n_requests", [1, 3])
def test_a_client_that_never_reads_its_answer_is_closed(tmp_path, n_requests):
    # Several requests on one connection: the second waits for room that never comes.
    body = {"histories": [list(range(100))] * 20, "top": 400, "explain": True}
    artifact = write_random(tmp_path / "a", 1000)
    with running_service(tmp_path, artifact, limits=Limits(seconds=4.0)) as service:
        target = urlsplit(service.address)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect((target.hostname, target.port))
            connection.sendall(raw_post(body) * n_requests)
            wait_until(lambda: "closed_stalled" in events(service), seconds=40)
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(timeout=10) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("path", ["/v1/recall", "/v1/model/reload"])
def test_a_body_that_never_ends_is_a_408_on_every_route(tmp_path, path):
    artifact = write_shop(tmp_path / "a")
    with running_service(tmp_path, artifact, limits=Limits(seconds=1.0)) as service:
        target = urlsplit(service.address)
        with socket.create_connection((target.hostname, target.port), timeout=20) as connection:
            connection.sendall(raw_post({"histories": [["tea"]]}, path)[:-1])
            assert connection.recv(1000).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("before", [b"", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_head_without_end_is_refused(service, before):
    target = urlsplit(service.address)
    megabytes = service.resident_megabytes()
    with socket.create_connection((target.hostname, target.port), timeout=20) as connection:
        connection.sendall(before + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        with pytest.raises(OSError, match=r"reset|pipe"):
            connection.sendall(b"x" * 100_000_000)
    assert service.resident_megabytes() - megabytes < 20


def test_heads_of_a_usual_size_are_read_whatever_comes_with_them(service):
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 8000 + b"\r\n"
    post_and_get = raw_post({"histories": [["x" * 1000] * 200] * 4}) + head
    last = head + b"Connection: close\r\n\r\n"
    target = urlsplit(service.address)
    with socket.create_connection((target.hostname, target.port), timeout=30) as connection:
        connection.sendall((post_and_get + b"\r\n") * 2 + (head + b"\r\n") * 20 + last)
        with connection.makefile("rb") as stream:
            answers = stream.read()
    assert answers.count(b"HTTP/1.1 200") == 2 + 2 + 20 + 1


def test_an_answer_comes_in_one_piece_and_what_is_waited_for_before_it(service):
    target = urlsplit(service.address)
    request = raw_post({"histories": [["tea"]]})
    head, body = request.split(b"\r\n\r\n")
    with socket.create_connection((target.hostname, target.port), timeout=60) as connection:
        for _ in range(3):
            connection.sendall(request)
            received, content = connection.recv(65536).split(b"\r\n\r\n")
            assert received.startswith(b"HTTP/1.1 200")
            assert f"content-length: {len(content)}\r\n".encode() in received
        connection.sendall(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).endswith(b"\r\n\r\n")


def raw_post(body, path="/v1/recall"):
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


def events(service):
    return [line["event"] for line in service.log_lines()]


def wait_until(condition, *, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)


def test_the_largest_explained_answer_is_refused_or_affordable(tmp_path):
    clicks = list(range(200))
    artifact = write_random(tmp_path / "a", 1000)
    with running_service(tmp_path, artifact) as service:
        httpx.get(f"{service.address}/healthz", timeout=60)
        megabytes = service.resident_megabytes()
        body = {"top": 500, "explain": True, "exclude_seen": False}
        refused = post(service, {**body, "histories": [clicks] * 256})
        assert refused.status_code == 422
        assert refused.json()["error"]["code"] == "explain_limit"
        largest = post(service, {**body, "histories": [clicks] * 10})
        assert largest.status_code == 200
        assert len(largest.json()["results"][9]["items"][499]["shares"]) == 200
        assert service.resident_megabytes() - megabytes < 250
