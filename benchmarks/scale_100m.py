"""From a partitioned Parquet log to a service: time, memory and disk of each stage, by size.

Every stage is the command a user types, in a process of its own: convert, fit out of core with two
workers, evaluate a sample, export with an index, serve. The log has twenty clicks per user and a
hundred per item, comes in no order of users, and users keep to a topic, so that there is something
to learn. Beside the fit stands what `estimate_cost` makes of rates measured at its beginning: of
products, rows and softmax entries in one process, and of a training too small to count. Both sides
are processor seconds of one worker, for the machine may have other work.

    python benchmarks/scale_100m.py                          # 1 million clicks: minutes
    python benchmarks/scale_100m.py --millions 1 10 100      # hours; TMPDIR says where to work
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _record import RESULTS, write_result
from speed.workers import Case, predict, train_case

from groupnoise.training.distributed.cost import Machine, TrainingSize, estimate_cost
from groupnoise.training.workers import Workers

CLICKS_PER_USER, CLICKS_PER_ITEM, ITEMS_PER_TOPIC = 20, 100, 100
CLICKS_PER_PART = 2_500_000
OFF_TOPIC = 0.2
N_JUDGED = 2000
N_REQUESTS, N_CLIENTS = 2000, 8
DIM, N_NEGATIVES, BATCH_SIZE, WORKERS = 32, 256, 8192, 2
PROBES = [
    Case(n_items=200_000, dim=DIM, batch_size=4096, n_negatives=N_NEGATIVES, n_steps=6),
    Case(n_items=200_000, dim=DIM, batch_size=1024, n_negatives=8 * N_NEGATIVES, n_steps=6),
]
SEED = 0
LIMIT_GB = 6.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--millions", type=float, nargs="+", default=[1])
    parser.add_argument("--index", default="ivf", choices=["ivf", "hnsw", "none"])
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        machine = measured_machine(Path(folder))
    print(machine, flush=True)
    for millions in arguments.millions:
        with tempfile.TemporaryDirectory() as folder:
            row = {"clicks": int(millions * 1e6), "stages": {}}
            rows.append(row)
            for stage in run(Path(folder), row, machine, arguments.index):
                print(json.dumps({"clicks": row["clicks"], **stage}), flush=True)
                # After each stage, so that a run that is ended leaves what it measured.
                write_result(
                    "scale_100m" if max(arguments.millions) >= 10 else "scale_1m",
                    {
                        "settings": settings(),
                        "seed": SEED,
                        "load": os.getloadavg(),
                        "rates": rates_of(machine),
                        "rows": sorted(rows, key=lambda row: row["clicks"]),
                    },
                    packages=("polars", "faiss-cpu"),
                )


def settings() -> dict[str, Any]:
    return {
        "clicks_per_user": CLICKS_PER_USER,
        "clicks_per_item": CLICKS_PER_ITEM,
        "dim": DIM,
        "n_negatives": N_NEGATIVES,
        "batch_size": BATCH_SIZE,
        "workers": WORKERS,
        "judged": N_JUDGED,
        "limit_gb_per_process": LIMIT_GB,
    }


def run(folder: Path, row: dict[str, Any], machine: Machine, index: str) -> Any:
    """Yield the figures of one stage after the other, and keep them in `row`."""
    n_clicks = row["clicks"]
    n_users, n_items = n_clicks // CLICKS_PER_USER, n_clicks // CLICKS_PER_ITEM
    row |= {"users": n_users, "items": n_items}
    log, clicks, work = folder / "log", folder / "clicks", folder / "work"
    model, artifact = folder / "model", folder / "artifact"
    estimated = estimate(machine, n_clicks - n_users, n_items)

    def note(name: str, figures: dict[str, Any]) -> dict[str, Any]:
        if figures["seconds"]:
            figures["clicks_per_second"] = round(n_clicks / figures["seconds"])
        figures["folder_gb"] = round(size_of(folder) / 1e9, 3)
        row["stages"][name] = figures
        return {"stage": name, **figures}

    begin = time.perf_counter()
    generate(log, n_clicks, n_users, n_items)
    yield note("generate", {"seconds": round(time.perf_counter() - begin, 2)})
    yield note("convert", command("data", "convert", log, clicks, "--setting", "rs"))
    yield note("fit", {**train(clicks, model, work, n_users), "estimated": estimated})
    shutil.rmtree(work)
    yield note("evaluate", command("evaluate", model, clicks, "--json", keep_answer=True))
    indexing = [] if index == "none" else ["--index", index]
    yield note("export", command("export", model, "--output", artifact, *indexing))
    yield note("serve", serve(artifact, n_items))


def train(data: Path, model: Path, work: Path, n_users: int) -> dict[str, Any]:
    """Train an epoch out of core; return its figures."""
    parameters = {
        "normalization": "click",
        "dim": DIM,
        "n_negatives": N_NEGATIVES,
        "batch_size": BATCH_SIZE,
        "max_epochs": 1,
        "init": "random",
    }
    words = [word for name, value in parameters.items() for word in ("-p", f"{name}={value}")]
    return command(
        *("fit", data, "-o", model, "--out-of-core", work, "--workers", WORKERS, "-q"),
        *("--setting", "rs") * (data.name == "small"),
        *("--seed", SEED, "--validation", min(0.1, N_JUDGED / n_users), *words),
    )


def generate(folder: Path, n_clicks: int, n_users: int, n_items: int) -> None:
    """Write the log in parts, a part for each stretch of time."""
    folder.mkdir()
    generator = np.random.default_rng(SEED)
    n_topics = max(1, n_items // ITEMS_PER_TOPIC)
    topic_of = generator.integers(n_topics, size=n_users)
    cumulated = np.cumsum(np.arange(1, ITEMS_PER_TOPIC + 1) ** -0.8)
    for number, begin in enumerate(range(0, n_clicks, CLICKS_PER_PART)):
        size = min(CLICKS_PER_PART, n_clicks - begin)
        user = generator.integers(n_users, size=size)
        is_off = generator.random(size) < OFF_TOPIC
        topic = np.where(is_off, generator.integers(n_topics, size=size), topic_of[user])
        rank = np.searchsorted(cumulated, generator.random(size) * cumulated[-1])
        frame = pl.DataFrame(
            {
                "user": user,
                "item": np.minimum(topic * ITEMS_PER_TOPIC + rank, n_items - 1),
                "time": 1_700_000_000 + begin + np.arange(size),
            }
        )
        frame.write_parquet(folder / f"part-{number:04d}.parquet")


def command(*words: Any, keep_answer: bool = False) -> dict[str, Any]:
    """Run a command; return its time, and the memory of the largest of its processes."""
    begin, used = time.perf_counter(), processor_seconds()
    # A file, not a pipe: nobody reads while memory is watched.
    with tempfile.TemporaryFile("w+") as said:
        line = [sys.executable, "-m", "groupnoise", *map(str, words)]
        process = subprocess.Popen(line, stdout=said, stderr=subprocess.STDOUT)
        peaks = watch(process)
        said.seek(0)
        text = said.read()
    if process.returncode:
        raise SystemExit(f"{' '.join(line)} failed:\n{text[-3000:]}")
    figures = {
        "seconds": round(time.perf_counter() - begin, 2),
        "processor_seconds": round(processor_seconds() - used, 2),
        **peaks,
    }
    if keep_answer:
        answer = json.loads(text[text.index("{") :])
        figures |= {name: answer[name] for name in ("groups", "full HIT@10", "full NDCG@10")}
        figures["popularity"] = {"full HIT@10": answer["popularity"]["full HIT@10"]}
    return figures


def processor_seconds() -> float:
    """Return the processor seconds of all finished commands."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def watch(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait for a process; return the peak memory of the largest of it and its children.

    `peak_gb` counts pages of mapped files, which the system can take back; `own_gb` does not.
    """
    peak, own = 0.0, 0.0
    while process.poll() is None:
        for pid in descendants(process.pid):
            held = memory_of(pid)
            peak, own = max(peak, held.get("VmHWM", 0.0)), max(own, held.get("RssAnon", 0.0))
        time.sleep(0.1)
    return {"peak_gb": round(peak, 3), "own_gb": round(own, 3), "is_within": own < LIMIT_GB}


def descendants(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        try:
            threads = Path(f"/proc/{parent}/task").iterdir()
            found += [
                int(word) for one in threads for word in (one / "children").read_text().split()
            ]
        except OSError:  # it has ended meanwhile
            continue
    return found


def memory_of(pid: int) -> dict[str, float]:
    """Return the memory of a process in gigabytes, by the names of the kernel."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in lines if line.startswith(("VmHWM", "RssAnon")))
    return {name: int(value.split()[0]) / 1e6 for name, value in pairs}


def serve(artifact: Path, n_items: int) -> dict[str, Any]:
    """Start the service, ask it, and stop it."""
    line = [sys.executable, "-m", "groupnoise", "serve", str(artifact), "--port", "0"]
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(line, stdout=said, stderr=subprocess.STDOUT)
        try:
            address = ""
            while not address:
                time.sleep(0.05)
                said.seek(0)
                text = said.read()
                found = re.search(r"http://127\.0\.0\.1:\d+", text)
                address = found[0] if found and is_ready(found[0]) else ""
                if process.poll() is not None:
                    raise SystemExit(f"the service ended:\n{text[-2000:]}")
            ready = time.perf_counter() - begin
            generator = np.random.default_rng(SEED)
            histories = generator.integers(n_items, size=(N_REQUESTS, 5)).tolist()
            begin = time.perf_counter()
            with ThreadPoolExecutor(N_CLIENTS) as clients:
                times = list(clients.map(lambda one: ask(address, one), histories))
            seconds = time.perf_counter() - begin
            held = memory_of(process.pid)
        finally:
            process.terminate()
            process.wait(30)
    return {
        "seconds": 0,
        "ready_seconds": round(ready, 2),
        "requests_per_second": round(N_REQUESTS / seconds, 1),
        "p50_ms": round(1000 * float(np.quantile(times, 0.5)), 1),
        "p99_ms": round(1000 * float(np.quantile(times, 0.99)), 1),
        "clients": N_CLIENTS,
        "peak_gb": round(held["VmHWM"], 3),
        "own_gb": round(held["RssAnon"], 3),
        "is_within": held["RssAnon"] < LIMIT_GB,
    }


def is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def ask(address: str, history: list[int]) -> float:
    body = json.dumps({"histories": [history], "top": 10}).encode()
    request = urllib.request.Request(
        f"{address}/v1/recall", data=body, headers={"Content-Type": "application/json"}
    )
    begin = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - begin


def measured_machine(folder: Path) -> Machine:
    """Measure the steps of one worker per processor second, and its overhead."""
    stored = json.loads((RESULTS / "workers.json").read_text())["throughput"]["rates"]
    rates = {name: stored[name] for name in ("network", "latency")} | {"flops": measured_flops()}
    free = {**rates, "row_bytes": math.inf, "entries": math.inf}
    work, rest = [], []
    for case in PROBES:
        begin = time.process_time()
        train_case(case, Workers())
        taken = (time.process_time() - begin) / (2 * case.n_steps)  # two epochs
        rest.append(taken - predict(case, free, 1))
        units = [{**free, "flops": math.inf, name: 1.0} for name in ("row_bytes", "entries")]
        work.append([predict(case, unit, 1) for unit in units])
    row_seconds, entry_seconds = np.linalg.solve(work, rest)
    rates |= {"row_bytes": 1 / float(row_seconds), "entries": 1 / float(entry_seconds)}
    generate(folder / "small", 20_000, 1000, 200)
    small = train(folder / "small", folder / "small_model", folder / "small_work", 1000)
    base = small["processor_seconds"] / WORKERS
    return Machine(memory=math.inf, workers=WORKERS, base_seconds=base, **rates)


def rates_of(machine: Machine) -> dict[str, float]:
    """Return the rates of a machine as a file can hold them."""
    return {name: value for name, value in asdict(machine).items() if math.isfinite(value)}


def measured_flops() -> float:
    import torch

    torch.set_num_threads(1)
    left, right = torch.randn(8192, DIM), torch.randn(DIM, N_NEGATIVES)
    begin = time.process_time()
    for _ in range(200):
        left @ right
    return 200 * 2 * left.numel() * N_NEGATIVES / (time.process_time() - begin)


def estimate(machine: Machine, n_groups: int, n_items: int) -> dict[str, Any]:
    """Return the estimate of `estimate_cost` for one worker of the fit."""
    size = TrainingSize(
        n_groups=n_groups,
        n_items=n_items,
        dim=DIM,
        n_epochs=1,
        batch_size=BATCH_SIZE,
        n_negatives=N_NEGATIVES,
    )
    cost = estimate_cost(size, machine, workers=WORKERS)
    return {
        "processor_seconds_per_worker": round(3600 * cost.hours, 1),
        "gb_per_worker": round(cost.bytes_per_worker / 1e9, 3),
    }


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
