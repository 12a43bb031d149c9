"""The HTTP service against the same model called in process, and its time to ready.

    python benchmarks/serving_service.py

Sixteen clients keep one connection each and send a history of five clicks at a time. They run in
a process of their own, on the same cores as the service. In-process rates are taken before each
round of the service: sixteen threads that ask for one history per call, as the clients do, one
such thread alone, and one that asks for sixteen histories per call. Matrix products use one thread,
unless OMP_NUM_THREADS says otherwise; other work on the machine slows all of them, so the load is
recorded beside the figures and the processor time to ready beside the time on the clock.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import numpy as np
from _record import write_result
from serving_batch import N_ITEMS, write_catalogue

from groupnoise.recall import RecallOptions, open_artifact

N_CLIENTS, CLICKS, TOP = 16, 5, 10
SCOPES = {"mm": "last", "mm+": "group"}
SECONDS, ROUNDS = 4.0, 5
SEED = 0
SERVE = """
import sys
from pathlib import Path
from groupnoise.recall.http import ServiceSettings, serve
settings = ServiceSettings(artifact=Path(sys.argv[1]), port=0)
serve(settings, on_ready=lambda address: print(address, flush=True))
"""


def request_bytes(history: list[int], method: str) -> bytes:
    body = json.dumps({"histories": [history], "top": TOP, "scope": SCOPES[method]}).encode()
    head = (
        "POST /v1/recall HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def one_client(port: int, requests: list[bytes], until: float) -> list[float]:
    """Send requests on one connection until the time is up; return the latencies."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    latencies, number = [], 0
    while time.perf_counter() < until:
        started = time.perf_counter()
        writer.write(requests[number % len(requests)])
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        latencies.append(time.perf_counter() - started)
        number += 1
    writer.close()
    return latencies


async def load(port: int, histories: Any, method: str) -> dict[str, float]:
    requests = [request_bytes(history, method) for history in histories.tolist()]
    until = time.perf_counter() + SECONDS
    shares = [requests[client::N_CLIENTS] for client in range(N_CLIENTS)]
    results = await asyncio.gather(*[one_client(port, share, until) for share in shares])
    latencies = np.concatenate(results)
    return {
        "per_second": len(latencies) / SECONDS,
        "p50_ms": float(np.percentile(latencies, 50) * 1000),
        "p99_ms": float(np.percentile(latencies, 99) * 1000),
    }


def in_process_rate(model: Any, histories: Any, method: str, batch: int) -> float:
    options = RecallOptions(top=TOP, scope=SCOPES[method])
    n_done, started = 0, time.perf_counter()
    while time.perf_counter() - started < SECONDS / 2:
        begin = n_done % (len(histories) - batch)
        model.recall(histories[begin : begin + batch].tolist(), options)
        n_done += batch
    return n_done / (time.perf_counter() - started)


def rate_of_threads(model: Any, histories: Any, method: str) -> float:
    """Return the rate of as many threads as there are clients, one history per call each."""
    with ThreadPoolExecutor(N_CLIENTS) as threads:
        shares = [histories[client::N_CLIENTS] for client in range(N_CLIENTS)]
        return sum(threads.map(lambda share: in_process_rate(model, share, method, 1), shares))


def start(artifact: Path) -> tuple[subprocess.Popen[str], int, float]:
    """Start the service; return it, its port and the seconds until it said it was ready."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(artifact)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    address = process.stdout.readline().strip()
    assert httpx.get(f"{address}/readyz").status_code == 200
    return process, int(address.rsplit(":", 1)[1]), time.perf_counter() - started


def processor_seconds(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait(timeout=30)


def measure(artifact: Path, method: str) -> dict[str, Any]:
    model = open_artifact(artifact, memory_map=False)
    histories = np.random.default_rng(SEED).integers(0, N_ITEMS, (2000, CLICKS))
    threads, single, together, service, worked = [], [], [], [], []
    for _ in range(ROUNDS):
        threads.append(rate_of_threads(model, histories, method))
        single.append(in_process_rate(model, histories, method, 1))
        together.append(in_process_rate(model, histories, method, N_CLIENTS))
        process, port, _ = start(artifact)
        before = processor_seconds(process)
        # The clients get a process of their own, as they would have in life.
        output = subprocess.run(
            [sys.executable, __file__, "--clients", str(port), method],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        service.append(json.loads(output))
        n_requests = service[-1]["per_second"] * SECONDS
        worked.append(1000 * (processor_seconds(process) - before) / n_requests)
        stop(process)
    rates = np.array([one["per_second"] for one in service])
    return {
        "service_per_second": round(float(np.median(rates))),
        "service_p50_ms": round(float(np.median([one["p50_ms"] for one in service])), 1),
        "service_p99_ms": round(float(np.median([one["p99_ms"] for one in service])), 1),
        "service_processor_ms_per_request": round(float(np.median(worked)), 2),
        "in_process_sixteen_threads": round(float(np.median(threads))),
        "in_process_one_per_call": round(float(np.median(single))),
        "in_process_sixteen_per_call": round(float(np.median(together))),
        "share_of_sixteen_threads": round(float(np.median(rates / np.array(threads))), 2),
        "share_of_one_per_call": round(float(np.median(rates / np.array(single))), 2),
        "share_of_sixteen_per_call": round(float(np.median(rates / np.array(together))), 2),
    }


def main() -> None:
    if sys.argv[1:2] == ["--clients"]:
        histories = np.random.default_rng(SEED).integers(0, N_ITEMS, (2000, CLICKS))
        print(json.dumps(asyncio.run(load(int(sys.argv[2]), histories, sys.argv[3]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        artifact = Path(folder)
        write_catalogue(artifact, N_ITEMS)
        ready, worked = [], []
        for _ in range(ROUNDS):
            process, _, seconds = start(artifact)
            ready.append(seconds)
            worked.append(processor_seconds(process))
            stop(process)
        payload = {
            "configuration": {
                "items": N_ITEMS,
                "clients": N_CLIENTS,
                "clicks_per_history": CLICKS,
                "top": TOP,
                "seconds_per_round": SECONDS,
                "rounds": ROUNDS,
                "seed": SEED,
                "load_average": os.getloadavg()[0],
            },
            "start_to_ready_seconds": {
                "median": round(float(np.median(ready)), 2),
                "least": round(min(ready), 2),
                "processor_seconds": round(float(np.median(worked)), 2),
            },
            "sixteen_clients": {method: measure(artifact, method) for method in ("mm", "mm+")},
        }
    print(write_result("serving_service", payload, packages=("fastapi", "uvicorn")))


if __name__ == "__main__":
    main()
