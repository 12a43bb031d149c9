"""What must not hurt a good request: bad artifacts, bad clients, crowds, and the end of service."""

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import time
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from groupnoise.recall.http import Limits
from serving_support import running_service, write_random, write_shop

GOOD = {"histories": [["tea", "cup"]], "top": 2}


class Load:
    """Good requests from several clients at once, and what became of them."""

    def __init__(self, address, body, n_clients=4):
        self._address = address
        self._body = body
        self._n_clients = n_clients
        self.n_answered = 0
        self.failures = []
        self.firsts = set()

    async def __aenter__(self):
        self._stop = asyncio.Event()
        self._tasks = [asyncio.create_task(self._client()) for _ in range(self._n_clients)]
        return self

    async def __aexit__(self, *_):
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def _client(self):
        async with httpx.AsyncClient(base_url=self._address, timeout=30) as client:
            while not self._stop.is_set():
                try:
                    answer = await client.post("/v1/recall", json=self._body)
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
                    continue
                self.n_answered += 1
                if answer.status_code == 200:
                    self.firsts.add(answer.json()["results"][0]["items"][0]["item"])
                else:
                    self.failures.append(answer.text)


def raw_request(body, *, path="/v1/recall"):
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content


async def exchange(address, data, *, seconds=30):
    """Send bytes on a connection of their own; return the status, None where no answer came."""
    target = urlsplit(address)
    reader, writer = await asyncio.open_connection(target.hostname, target.port)
    answer = b""
    with contextlib.suppress(ConnectionError, asyncio.TimeoutError):
        writer.write(data)
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(), seconds)
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.1 ") else None


def test_artifacts_swapped_truncated_and_deleted_under_load(tmp_path):
    artifact = write_shop(tmp_path / "a")

    async def trouble(address):
        outcomes = []
        async with (
            httpx.AsyncClient(base_url=address, timeout=30) as client,
            Load(address, GOOD) as load,
        ):

            async def reload():
                outcomes.append((await client.post("/v1/model/reload")).status_code)
                await asyncio.sleep(0.1)

            await asyncio.sleep(0.2)
            write_shop(artifact, target_bias=[0, 0, 0, 0, 0, 50])
            await reload()
            vectors = next(artifact.glob("target_vectors-*.npy"))
            vectors.write_bytes(vectors.read_bytes()[:100])
            await asyncio.sleep(0.2)
            await reload()
            (artifact / "manifest.json").write_text("{")
            await reload()
            shutil.rmtree(artifact)
            await asyncio.sleep(0.2)
            await reload()
            write_shop(artifact)
            await reload()
        return outcomes, load

    with running_service(tmp_path, artifact) as service:
        outcomes, load = asyncio.run(trouble(service.address))
    assert outcomes == [200, 409, 409, 409, 200]
    assert load.failures == []
    assert load.n_answered > 10
    assert load.firsts == {"spoon", "saw"}


BAD = [
    b"nonsense\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"POST /v1/recall HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/recall HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /v1/items?q=%ff%fe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"GET /v1/similar/..%2f..%2fetc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    b"GET /v1/model HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n",
    b"BREW / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    raw_request({"histories": [["x" * 2_000_000]]}),
    raw_request({"histories": [["tea"] * 201]}),
    raw_request({"histories": [[]] * 257}),
    raw_request({"histories": [["tea"]], "top": 10**30}),
    raw_request({"histories": [[10**40, -1, ""]], "top": -1}),
    raw_request({"histories": [[{}]]}),
    raw_request([[[[[[]]]]]]),
    raw_request({"histories": [["tea"]], "categories": ["\x00"]}),
    raw_request({"histories": [["tea"]], "model": "compare"}),
    raw_request(GOOD, path="/v1/nowhere"),
    raw_request(GOOD)[:-5],
]


@pytest.mark.slow
def test_a_hundred_bad_requests_of_every_kind_between_good_ones(tmp_path):
    async def mixed(address):
        async with Load(address, GOOD, n_clients=2) as load:
            statuses = [
                # Some are never finished, so no answer is due to them.
                await exchange(address, BAD[number % len(BAD)], seconds=0.5)
                for number in range(100)
            ]
        return statuses, load

    with running_service(tmp_path, write_shop(tmp_path / "a")) as service:
        statuses, load = asyncio.run(mixed(service.address))
        errors = [line for line in service.log_lines() if line["level"] == "error"]
    assert load.failures == []
    assert load.n_answered > 5
    answered = [status for status in statuses if status is not None]
    assert all(400 <= status < 500 or status == 200 for status in answered), answered
    assert len([status for status in answered if status >= 400]) > 60
    assert errors == []


@pytest.mark.slow
def test_slow_clients_get_a_408_and_hold_up_no_one(tmp_path):
    request = raw_request(GOOD)

    async def slow(address):
        target = urlsplit(address)
        reader, writer = await asyncio.open_connection(target.hostname, target.port)
        writer.write(request[:-10])  # all but the end of the body
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return answer

    async def scenario(address):
        async with Load(address, GOOD, n_clients=2) as load:
            answers = await asyncio.gather(*[slow(address) for _ in range(50)])
        return answers, load

    limits = Limits(seconds=1.0)
    with running_service(tmp_path, write_shop(tmp_path / "a"), limits=limits) as service:
        answers, load = asyncio.run(scenario(service.address))
    assert all(answer.startswith(b"HTTP/1.1 408") for answer in answers)
    assert all(b'"limit":1.0' in answer for answer in answers)
    assert load.failures == []
    assert load.n_answered > 5


@pytest.mark.slow
def test_headers_sent_drop_by_drop_end_with_a_closed_connection(tmp_path):
    async def drip(address, before):
        target = urlsplit(address)
        reader, writer = await asyncio.open_connection(target.hostname, target.port)
        writer.write(before)
        closed = asyncio.create_task(reader.read())
        started = time.monotonic()
        while not closed.done() and time.monotonic() - started < 60:
            with contextlib.suppress(ConnectionError):
                writer.write(b"X")
                await writer.drain()
            await asyncio.wait([closed], timeout=0.2)
        assert closed.done()
        writer.close()
        return time.monotonic() - started

    async def scenario(address):
        whole = raw_request(GOOD).replace(b"Connection: close\r\n", b"")
        beginnings = [b"", b"GET /healthz HTTP/1.1\r\nHost: loc", whole + b"POST /v1/rec"]
        async with Load(address, GOOD, n_clients=2) as load:
            seconds = await asyncio.gather(*[drip(address, before) for before in beginnings * 5])
        return seconds, load

    # Also what the good requests have, which a busy machine may let wait for seconds.
    limits = Limits(seconds=6.0)
    with running_service(tmp_path, write_shop(tmp_path / "a"), limits=limits) as service:
        seconds, load = asyncio.run(scenario(service.address))
    assert max(seconds) < 60
    assert load.failures == []
    assert load.n_answered > 5


@pytest.mark.slow
def test_answers_that_are_not_read_or_byte_by_byte_are_given_up_and_hurt_no_one(tmp_path):
    heavy = raw_request({"histories": [[n, n + 1] for n in range(256)], "top": 500})

    def asked(address):
        target = urlsplit(address)
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect((target.hostname, target.port))
        connection.sendall(heavy)
        return connection

    def n_open(service):
        return len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))

    async def scenario(service, before):
        readers = [asked(service.address) for _ in range(10)]
        deaf = [asked(service.address) for _ in range(10)]
        async with Load(service.address, {"histories": [[1, 2]]}, n_clients=2) as load:
            end = time.monotonic() + 60
            while load.n_answered < 20 or n_open(service) > before + 2:
                assert time.monotonic() < end
                await asyncio.sleep(0.1)
                for reader in readers:
                    with contextlib.suppress(OSError):
                        reader.recv(1, socket.MSG_DONTWAIT)
        for connection in (*readers, *deaf):
            connection.close()
        return load

    artifact = write_random(tmp_path / "a", 2000)
    limits = Limits(seconds=2.0)
    with running_service(tmp_path, artifact, limits=limits) as service:
        service.recall([[1, 2]])
        before, megabytes = n_open(service), service.resident_megabytes()
        load = asyncio.run(scenario(service, before))
        assert service.resident_megabytes() - megabytes < 250
    assert load.failures == []


def test_five_hundred_connections_at_once_are_all_answered(tmp_path):
    async def crowd(address):
        requests = [exchange(address, raw_request(GOOD)) for _ in range(500)]
        return await asyncio.gather(*requests)

    with running_service(tmp_path, write_shop(tmp_path / "a")) as service:
        statuses = asyncio.run(crowd(service.address))
    assert statuses == [200] * 500


@pytest.mark.slow
def test_too_many_requests_at_a_time_are_told_the_limit(tmp_path):
    heavy = {"histories": [[number] * 20 for number in range(64)], "top": 100}

    async def crowd(address):
        async with httpx.AsyncClient(base_url=address, timeout=30) as client:
            posts = [client.post("/v1/recall", json=heavy) for _ in range(12)]
            return await asyncio.gather(*posts)

    artifact = write_random(tmp_path / "a", 20_000)
    with running_service(tmp_path, artifact, limits=Limits(concurrency=3)) as service:
        answers = asyncio.run(crowd(service.address))
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    assert {answer.status_code for answer in answers} == {200, 429}
    assert refused[0].json()["error"]["limit"] == 3
    assert refused[0].headers["retry-after"] == "1"


def test_a_request_over_its_time_is_a_408(tmp_path):
    heavy = {"histories": [[number] * 50 for number in range(256)], "top": 100}
    artifact = write_random(tmp_path / "a", 20_000)
    with running_service(tmp_path, artifact, limits=Limits(seconds=0.05)) as service:
        answer = httpx.post(f"{service.address}/v1/recall", json=heavy, timeout=30)
        assert answer.status_code == 408
        assert answer.json()["error"]["limit"] == 0.05
        assert httpx.get(f"{service.address}/healthz", timeout=30).status_code == 200


@pytest.mark.slow
def test_sigterm_in_mid_flight_loses_no_request(tmp_path):
    heavy = {"histories": [[number, number + 1] for number in range(100)]}
    artifact = write_random(tmp_path / "a", 30_000)
    with running_service(tmp_path, artifact) as service:
        target = urlsplit(service.address)
        sockets = [socket.create_connection((target.hostname, target.port)) for _ in range(8)]
        for number, connection in enumerate(sockets):
            # Different options keep the service from answering them all in one product.
            connection.sendall(raw_request({**heavy, "top": 20 + number}))
        time.sleep(0.15)
        service.process.send_signal(signal.SIGTERM)
        for connection in sockets:
            with connection, connection.makefile("rb") as stream:
                answer = stream.read()
            head, _, body = answer.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), answer[:200]
            assert len(json.loads(body)["results"]) == 100
        assert service.process.wait(timeout=10) in (0, -signal.SIGTERM)
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((target.hostname, target.port))


def soak(tmp_path, seconds):
    """Run mixed load with reloads and return (megabytes after warm-up, at the end, load)."""
    artifact = write_random(tmp_path / "a", 5000)
    body = {"histories": [[1, 2, 3], [], ["zz"]], "top": 20, "explain": True}

    async def run(service):
        async with (
            Load(service.address, body) as load,
            httpx.AsyncClient(base_url=service.address, timeout=30) as client,
        ):
            begin = None
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                assert (await client.post("/v1/model/reload")).status_code == 200
                await client.get("/v1/items", params={"q": "nothing"})
                await client.post("/v1/recall", content=b"{")
                await asyncio.sleep(seconds / 40)
                if begin is None and time.monotonic() > end - 0.6 * seconds:
                    begin = service.resident_megabytes()
            return begin, service.resident_megabytes(), load

    with running_service(tmp_path, artifact) as service:
        return asyncio.run(run(service))


@pytest.mark.slow
def test_memory_stays_flat_over_ten_seconds(tmp_path):
    begin, end, load = soak(tmp_path, 10)
    assert load.failures == []
    assert end < 1.03 * begin + 2


@pytest.mark.nightly
def test_memory_stays_flat_over_three_minutes(tmp_path):
    begin, end, load = soak(tmp_path, 180)
    assert load.failures == []
    assert end < 1.02 * begin + 2
