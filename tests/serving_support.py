"""Small artifacts with a known answer, and a real service in a process of its own."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from groupnoise.recall import Registry, open_artifact
from groupnoise.recall.artifact import write_artifact, write_neighbour_artifact
from groupnoise.recall.http import ServiceSettings, app, serve
from training_processes import PROCESSES

WATCH_SECONDS = 0.1
"""How often a service that follows its registry looks at it; else a second."""
TITLES = ["Green Tea", "Tea Cup", "Tea Spoon", "Steel Hammer", "Long Nail", "Hand Saw"]
IDS = ["tea", "cup", "spoon", "hammer", "nail", "saw"]
CATEGORIES = ["kitchen"] * 3 + ["tools"] * 3
POPULARITY = [5, 9, 1, 7, 2, 3]
# Two interests that point away from each other; tea leads to cup, then spoon.
VECTORS = np.array(
    [[3, 0.3], [2.8, 0.2], [2.5, 0.1], [-3, 0.3], [-2.8, 0.2], [-2.5, 0.1]], dtype=np.float32
)


def write_shop(folder: Path, **changes: Any) -> Path:
    """Write a shop of six items whose right answers are plain to see."""
    contents: dict[str, Any] = {
        "ids": IDS,
        "query_vectors": VECTORS,
        "target_vectors": VECTORS,
        "target_bias": np.zeros(6, dtype=np.float32),
        "popularity": POPULARITY,
        "titles": TITLES,
        "categories": CATEGORIES,
        "card": {"name": "Six items", "example": ["tea", "hammer"], "metrics": {"hit@10": 0.5}},
    }
    write_artifact(folder, **{**contents, **changes})
    return folder


def add(registry: Registry, scale: float = 1.0) -> str:
    """Add a version of the shop whose vectors are scaled, and return which it is."""
    with registry.adding() as folder:
        write_shop(folder, target_vectors=VECTORS * np.float32(scale))
        return open_artifact(folder).version


def write_neighbour_shop(folder: Path) -> Path:
    """Write the same shop as item-to-item neighbours, each item leading to the next."""
    write_neighbour_artifact(
        folder,
        ids=IDS,
        indptr=np.arange(7),
        indices=[1, 2, 3, 4, 5, 0],
        scores=[6.0, 5.0, 4.0, 3.0, 2.0, 1.0],
        popularity=POPULARITY,
        titles=TITLES,
        categories=CATEGORIES,
        card={"name": "Next item"},
    )
    return folder


def write_random(folder: Path, n_items: int, *, dimension: int = 16, seed: int = 0) -> Path:
    """Write random vectors under integer ids; quick, because the log-normalizer is given."""
    generator = np.random.default_rng(seed)
    vectors = generator.standard_normal((n_items, dimension), dtype=np.float32)
    write_artifact(
        folder,
        ids=np.arange(n_items),
        query_vectors=vectors,
        target_vectors=vectors,
        target_bias=None,
        popularity=np.arange(n_items),
        log_normalizer=np.zeros(n_items),
        card={"seed": seed},
    )
    return folder


class Service:
    """A service running in a process of its own."""

    def __init__(self, process: ForkedProcess, address: str, log: Path) -> None:
        self.process = process
        self.address = address
        self._log = log

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=30, verify=False, **options)

    def get(self, path: str) -> httpx.Response:
        """Ask over a connection of its own; no certificates are loaded, which takes 20 ms."""
        return httpx.get(f"{self.address}{path}", timeout=30, verify=False)

    def post(self, path: str, body: Any) -> httpx.Response:
        """Send over a connection of its own."""
        return httpx.post(f"{self.address}{path}", json=body, timeout=30, verify=False)

    def recall(self, histories: list[list[Any]], **options: Any) -> dict[str, Any]:
        answer = self.post("/v1/recall", {"histories": histories, **options})
        answer.raise_for_status()
        return answer.json()

    def log_lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def processor_seconds(self) -> float:
        """Return the processor time used so far: unlike the clock, other work leaves it alone."""
        spent = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(spent[11]) + int(spent[12])) / os.sysconf("SC_CLK_TCK")

    def resident_megabytes(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        raise AssertionError("the kernel gave no resident size")


class ForkedProcess:
    """A process that a server forked, which has loaded the service already."""

    def __init__(self, target: Any, *arguments: Any) -> None:
        self._process = PROCESSES.Process(target=target, args=arguments)
        self._process.start()
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        self._process.join(timeout)
        assert self._process.exitcode is not None, f"{self.pid} runs after {timeout} s"
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()


def serve_here(record: dict[str, Any], log: str, ready: Any) -> None:
    """Serve in this process; its log goes to a file, and its address to who waits for it."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
    app.WATCH_SECONDS = WATCH_SECONDS
    serve(ServiceSettings.from_record(record), on_ready=ready.send)


@contextlib.contextmanager
def running_service(folder: Path, artifact: Path, **changes: Any) -> Iterator[Service]:
    """Start a service on a free port and end it afterwards; logs go to `folder`."""
    settings = ServiceSettings(artifact=artifact, port=0, **changes)
    log = folder / f"service-{os.urandom(4).hex()}.log"
    answer, ready = PROCESSES.Pipe(duplex=False)
    process = ForkedProcess(serve_here, settings.as_record(), str(log), ready)
    ready.close()
    try:
        try:
            address = answer.recv()
        except EOFError:
            raise AssertionError(f"the service did not start: {log.read_text()}") from None
        yield Service(process, address, log)
    finally:
        answer.close()
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it may end by itself just now
                process.send_signal(signal.SIGTERM)
            process.wait(timeout=60)


BODY = b'{"histories": [[1, 2, 3]]}'
HEADERS = {"Content-Type": "application/json"}


class Client(threading.Thread):
    """Asks as fast as it is answered, until nobody listens any more."""

    def __init__(self, address, keeps_connection):
        super().__init__()
        self._target = urlsplit(address)
        self._keeps_connection = keeps_connection
        self.n_answered = 0
        self.is_ended = False
        self.lost = None

    def run(self):
        connection = None
        while not self.is_ended:
            if connection is None:
                connection = http.client.HTTPConnection(
                    self._target.hostname, self._target.port, timeout=20
                )
                try:
                    connection.connect()
                except ConnectionRefusedError:
                    return
            try:
                connection.request("POST", "/v1/recall", BODY, HEADERS)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200, answer.status
            except Exception as error:
                self.lost = repr(error)
                return
            self.n_answered += 1
            if connection.sock is None or not self._keeps_connection:
                connection.close()
                connection = None
