"""The recall service against a bare route of its own framework, and against scoring alone.

    python benchmarks/serving_framework.py

A bare FastAPI route reads the same JSON and returns the same bytes under the same server. Both are
asked in turn by `wrk` with 1, 16 and 64 clients, in one run, so that other work on the machine
disturbs both; processor time per request is taken beside the rates, because it is disturbed least.
Of a large catalogue the service with 16 clients is set beside the model called in process with 16
histories at a time, and two processes beside one. Matrix products use one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import httpx
import numpy as np
from _record import write_result
from serving_batch import write_vectors

from groupnoise.clicks.scoring import ScoringRule
from groupnoise.recall import RecallOptions, open_artifact

PROCESSES = 2
FIGURES = ("per_second", "p50_ms", "p99_ms", "processor_us")
SMALL, LARGE = (1000, 32), (100_000, 64)
CLICKS, TOP, SEED = 5, 10, 0
CLIENTS = (1, 16, 64)
RULES = {
    "paper": None,
    "default": ScoringRule(
        normalization="history",
        window_size=20,
        block_widths=(SMALL[1] // 2,) * 2,
        position_weights=(tuple(0.9**n for n in range(20)), (1.0,) * 20),
        exponents=(0.5, 0.5),
    ),
}
"""The paper's MM+, and evidence of all clicks in two blocks, as a plain fit has it."""
SERVE = """
import sys
from pathlib import Path
from groupnoise.recall.http import ServiceSettings, serve
settings = ServiceSettings(artifact=Path(sys.argv[1]), processes=int(sys.argv[2]), port=0)
serve(settings, on_ready=lambda address: print(address, flush=True))
"""
BARE = """
import sys
import uvicorn
from fastapi import FastAPI, Request
from starlette.responses import Response
content = open(sys.argv[1], "rb").read()
app = FastAPI()

@app.post("/v1/recall")
async def recall(request: Request):
    await request.json()
    return Response(content, media_type="application/json")

config = uvicorn.Config(app, port=0, log_config=None, access_log=False, server_header=False)
listening = config.bind_socket()
listening.listen()  # the server does it again, but only after the address was told
print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
uvicorn.Server(config).run(sockets=[listening])
"""
MILLISECONDS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def write_catalogue(
    folder: Path, shape: tuple[int, int], rule: ScoringRule | None = None
) -> list[list[int]]:
    """Write random vectors; return histories to ask."""
    n_items, dimension = shape
    generator = np.random.default_rng(SEED)
    write_vectors(
        folder,
        0.3 * generator.standard_normal((n_items, dimension), dtype=np.float32),
        categories=[f"kind {number % 12}" for number in range(n_items)],
        rule=rule,
    )
    return generator.integers(0, n_items, (500, CLICKS)).tolist()


def write_script(path: Path, histories: list[list[int]]) -> None:
    """Write the requests of wrk."""
    bodies = ",".join(f"'{json.dumps({'histories': [one], 'top': TOP})}'" for one in histories)
    path.write_text(
        f"local bodies = {{{bodies}}}\nlocal n = 0\n"
        "request = function()\n  n = n + 1\n  return wrk.format('POST', '/v1/recall', "
        "{['Content-Type'] = 'application/json'}, bodies[n % #bodies + 1])\nend\n"
    )


class Running:
    """A server in a process of its own."""

    def __init__(self, code: str, *arguments: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def processor_seconds(self) -> float:
        """Return the processor time used so far, by all processes."""
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(map(_processor_seconds, [pid, *map(int, children)]))

    def load(self, script: Path, n_clients: int, seconds: int) -> dict[str, float]:
        """Return rate, latencies and processor time per request under load."""
        before = self.processor_seconds()
        said = subprocess.run(
            [
                "wrk",
                "-t1",
                f"-c{n_clients}",
                f"-d{seconds}s",
                "--latency",
                "-s",
                script,
                self.address,
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        assert "Non-2xx" not in said, said
        n_requests = int(_number(r"(\d+) requests in", said))
        worked = self.processor_seconds() - before
        return {
            "per_second": float(_number(r"Requests/sec:\s+([\d.]+)", said)),
            "p50_ms": _milliseconds(_number(r"\n\s+50%\s+(\S+)", said)),
            "p99_ms": _milliseconds(_number(r"\n\s+99%\s+(\S+)", said)),
            "processor_us": 1e6 * worked / n_requests,
        }

    def stop(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(timeout=30)


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _number(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text
    return found[1]


def _milliseconds(text: str) -> float:
    unit = text.lstrip("0123456789.")
    return float(text[: -len(unit)]) * MILLISECONDS[unit]


def median(runs: list[dict[str, float]], name: str) -> float:
    return round(float(np.median([run[name] for run in runs])), 3)


def against_framework(
    folder: Path, rounds: int, seconds: int, rule: ScoringRule | None
) -> dict[str, Any]:
    folder.mkdir()
    histories = write_catalogue(folder / "small", SMALL, rule)
    write_script(folder / "small.lua", histories)
    service = Running(SERVE, folder / "small", 1)
    body = {"histories": histories[:1], "top": TOP}
    content = httpx.post(f"{service.address}/v1/recall", json=body).content
    (folder / "answer.json").write_bytes(content)
    bare = Running(BARE, folder / "answer.json")
    result = {}
    try:
        for n_clients in CLIENTS:
            ours, theirs = [], []
            for _ in range(rounds):
                theirs.append(bare.load(folder / "small.lua", n_clients, seconds))
                ours.append(service.load(folder / "small.lua", n_clients, seconds))
            result[str(n_clients)] = {
                "service": {name: median(ours, name) for name in FIGURES},
                "bare_route": {name: median(theirs, name) for name in FIGURES},
                "share_of_bare_rate": _ratio(ours, theirs, "per_second"),
                "share_by_processor_time": _ratio(theirs, ours, "processor_us"),
                "p99_over_p50": round(
                    float(np.median([run["p99_ms"] / run["p50_ms"] for run in ours])), 2
                ),
            }
            print(n_clients, result[str(n_clients)], flush=True)
    finally:
        service.stop()
        bare.stop()
    return result


def _ratio(upper: list[dict[str, float]], lower: list[dict[str, float]], name: str) -> float:
    pairs = zip(upper, lower, strict=True)
    return round(float(np.median([one[name] / other[name] for one, other in pairs])), 3)


def against_scoring(folder: Path, rounds: int, seconds: int) -> dict[str, Any]:
    histories = write_catalogue(folder / "large", LARGE)
    write_script(folder / "large.lua", histories)
    model = open_artifact(folder / "large", memory_map=False)
    service = Running(SERVE, folder / "large", 1)
    alone, ours = [], []
    try:
        for _ in range(rounds):
            alone.append(_scoring(model, histories, seconds))
            ours.append(service.load(folder / "large.lua", 16, seconds))
    finally:
        service.stop()
    return {
        "service": {name: median(ours, name) for name in FIGURES},
        "scoring_alone": {name: median(alone, name) for name in ("per_second", "processor_us")},
        "share_of_scoring": _ratio(ours, alone, "per_second"),
        "share_of_scoring_by_processor_time": _ratio(alone, ours, "processor_us"),
        "p99_over_p50": round(float(np.median([run["p99_ms"] / run["p50_ms"] for run in ours])), 2),
    }


def by_processes(folder: Path, name: str, rounds: int, seconds: int) -> dict[str, Any]:
    """Return the rate of two processes relative to one, with 64 clients."""
    services = {n: Running(SERVE, folder / name, n) for n in (1, PROCESSES)}
    runs: dict[int, list[dict[str, float]]] = {n: [] for n in services}
    try:
        for _ in range(rounds):
            for n, service in services.items():
                runs[n].append(service.load(folder / f"{name}.lua", 64, seconds))
    finally:
        for service in services.values():
            service.stop()
    one, several = runs.values()
    return {
        "1": {name: median(one, name) for name in FIGURES},
        str(PROCESSES): {name: median(several, name) for name in FIGURES},
        "rate_against_one": _ratio(several, one, "per_second"),
        "rate_against_one_by_processor_time": round(
            PROCESSES * _ratio(one, several, "processor_us"), 3
        ),
    }


def _scoring(model: Any, histories: list[list[int]], seconds: int) -> dict[str, float]:
    options, n_done = RecallOptions(top=TOP), 0
    started, worked = time.perf_counter(), time.process_time()
    while time.perf_counter() - started < seconds:
        begin = n_done % (len(histories) - 16)
        model.recall(histories[begin : begin + 16], options)
        n_done += 16
    return {
        "per_second": n_done / (time.perf_counter() - started),
        "processor_us": 1e6 * (time.process_time() - worked) / n_done,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("this benchmark needs wrk, which package managers have.")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        payload = {
            "configuration": {
                "small": SMALL,
                "large": LARGE,
                "clicks_per_history": CLICKS,
                "top": TOP,
                "rounds": given.rounds,
                "seconds_per_round": given.seconds,
                "seed": SEED,
            },
            "load_average": {"before": before},
            **{
                f"small_catalogue_{name}": against_framework(
                    folder / name, given.rounds, given.seconds, rule
                )
                for name, rule in RULES.items()
            },
            "large_catalogue_16_clients": against_scoring(folder, given.rounds, given.seconds),
            "processes_64_clients": {
                "small": by_processes(folder / "paper", "small", given.rounds, given.seconds),
                "large": by_processes(folder, "large", given.rounds, given.seconds),
            },
        }
        payload["load_average"]["after"] = os.getloadavg()[0]
    print(write_result("serving_framework", payload, packages=("fastapi", "uvicorn")))


if __name__ == "__main__":
    main()
