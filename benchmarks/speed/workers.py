"""Two workers against one process: throughput with one thread each, and memory of split tables.

    python benchmarks/speed/workers.py            both parts
    python benchmarks/speed/workers.py memory     20 million rows on one, two and four workers
    python benchmarks/speed/workers.py estimates  compare the kept measurements with estimates anew
    python benchmarks/speed/workers.py processor  processor time of steps alone and of each of two

Throughput is measured inside one pair of processes, alternating: the first worker trains alone
while the second waits, then both share the same batches. Of each the best round counts, since the
machine may have other work. The rates of the machine are measured in the same run, and what
`estimate_cost` makes of them stands beside each figure: the rates of rows and of entries are
fitted to the three cases in one process, so those of two workers are predictions.

Processor time says which batch pays where the machine is busy: a step alone, without and with the
loops that numba compiles for a long training, and the part of each of two workers in it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _record import RESULTS, write_result

ROUNDS = 4
SEED = 0


@dataclass(frozen=True)
class Case:
    """One configuration of the recommender."""

    n_items: int
    dim: int
    batch_size: int
    n_negatives: int
    n_steps: int
    size: int = 5


THROUGHPUT = [
    Case(n_items=24_000, dim=128, batch_size=512, n_negatives=256, n_steps=40),
    Case(n_items=100_000, dim=128, batch_size=2048, n_negatives=1024, n_steps=12),
    Case(n_items=200_000, dim=64, batch_size=8192, n_negatives=1024, n_steps=6),
]
PROCESSOR = [
    Case(n_items=24_000, dim=128, batch_size=512, n_negatives=256, n_steps=16),
    Case(n_items=24_000, dim=128, batch_size=2048, n_negatives=256, n_steps=6),
    Case(n_items=24_000, dim=128, batch_size=4096, n_negatives=256, n_steps=4),
]
NO_RATES = {
    "flops": math.inf,
    "entries": math.inf,
    "row_bytes": math.inf,
    "network": math.inf,
    "latency": 0.0,
}
MEMORY = Case(n_items=20_000_000, dim=16, batch_size=8192, n_negatives=1024, n_steps=20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=("all", *PARTS, "estimates"), default="all")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        PARTS[arguments.worker](arguments.report)
        return
    parts: dict[str, Any] = {"seed": SEED, "threads_per_worker": 1}
    kept = RESULTS / "workers.json"
    if arguments.part != "all" and kept.is_file():
        before = json.loads(kept.read_text(encoding="utf-8"))
        parts |= {name: before[name] for name in PARTS if name in before}
    if arguments.part in ("all", "throughput"):
        parts["throughput"] = {**run("throughput", 2), "measured": now()}
    if arguments.part in ("all", "memory"):
        parts["memory"] = {
            "configuration": asdict(MEMORY),
            "measured": [run("memory", count) for count in (1, 2, 4)],
        }
    if arguments.part in ("all", "processor"):
        load = round(os.getloadavg()[0], 1)
        parts["processor"] = {"cases": run("processor", 2), "measured": now(), "load": load}
    if "throughput" in parts:
        compare_times(parts["throughput"])
    for measured in parts.get("memory", {}).get("measured", []):
        measured["predicted_bytes"] = estimate(
            MEMORY, NO_RATES, measured["workers"]
        ).bytes_per_worker
    print(json.dumps(parts, indent=2))
    write_result("workers", parts)


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def run(part: str, count: int) -> Any:
    """Run a part of this script under torchrun and return the report of the first worker."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        script = [__file__, "--worker", part, "--report", str(report)]
        subprocess.run(
            [sys.executable, *launcher, *script],
            check=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        return json.loads(report.read_text(encoding="utf-8"))


def measure_throughput(report: Path) -> None:
    from groupnoise.training.distributed import TorchWorkers, process_group
    from groupnoise.training.workers import Workers

    with process_group():
        team = TorchWorkers()
        rates = measure_rates()
        cases = []
        for case in THROUGHPUT:
            alone, together = [], []
            for _ in range(ROUNDS):
                if team.rank == 0:
                    alone.append(train_case(case, Workers())["seconds_per_step"])
                team.wait()
                together.append(train_case(case, team)["seconds_per_step"])
            if team.rank == 0:
                cases.append(
                    {
                        "configuration": asdict(case),
                        "seconds_per_step_alone": alone,
                        "seconds_per_step_together": together,
                        "speedup": round(min(alone) / min(together), 2),
                    }
                )
        if team.rank == 0:
            report.write_text(json.dumps({"rates": rates, "cases": cases}), encoding="utf-8")


def measure_processor(report: Path) -> None:
    from groupnoise.core import compiled
    from groupnoise.training.distributed import TorchWorkers, process_group
    from groupnoise.training.workers import Workers

    with process_group():
        team, usual = TorchWorkers(), compiled.MIN_STEPS
        cases = []
        for case in PROCESSOR:
            spent: dict[str, list[float]] = {"alone": [], "alone with numba": [], "each of two": []}
            for _ in range(ROUNDS):
                if team.rank == 0:
                    for name, compiled.MIN_STEPS in (("alone", usual), ("alone with numba", 0)):
                        spent[name].append(train_case(case, Workers())["processor_per_step"])
                team.wait()
                spent["each of two"].append(train_case(case, team)["processor_per_step"])
            best = {name: round(1000 * min(times), 1) for name, times in spent.items() if times}
            cases.append({"configuration": asdict(case), "milliseconds": best})
        if team.rank == 0:
            report.write_text(json.dumps(cases), encoding="utf-8")


def measure_rates() -> dict[str, float]:
    """Measure matrix products in one thread, and messages between the two workers."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    left, right = torch.randn(4096, 64), torch.randn(64, 1024)
    counts, rows = torch.ones(2, dtype=torch.int64), torch.randn(4000, 129)
    product = best_seconds(lambda: left @ right)
    latency = best_seconds(lambda: distributed.all_to_all_single(torch.empty_like(counts), counts))
    message = best_seconds(lambda: distributed.all_to_all_single(torch.empty_like(rows), rows))
    sent = rows.numel() * rows.element_size() / 2  # the other half stays
    return {
        "flops": 2 * left.numel() * right.shape[1] / product,
        "latency": latency,
        "network": sent / (message - latency),
    }


def best_seconds(action: Callable[[], object], rounds: int = 30) -> float:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return min(times)


def compare_times(throughput: dict[str, Any]) -> None:
    """Fit the rates that are not measured, and set estimates beside the times."""
    import numpy as np
    from scipy.optimize import nnls

    rates, cases = throughput["rates"], throughput["cases"]
    rates |= {"row_bytes": math.inf, "entries": math.inf}
    work, rest = [], []
    for case, measured in zip(THROUGHPUT, cases, strict=True):
        seconds = min(measured["seconds_per_step_alone"])
        units = [{**rates, name: 1.0} for name in ("row_bytes", "entries")]
        # By shares of each time, or the longest would decide alone.
        work.append([predict(case, unit, 1) / seconds for unit in units])
        rest.append((seconds - predict(case, rates, 1)) / seconds)
    # No work takes less than no time: its rate is then without limit.
    fitted = nnls(np.array(work), np.array(rest))[0]
    rates |= {
        name: float(1 / each) if each > 0 else 1e15
        for name, each in zip(("row_bytes", "entries"), fitted, strict=True)
    }
    for case, measured in zip(THROUGHPUT, cases, strict=True):
        measured |= compare(rates, case, measured)


def predict(case: Case, rates: dict[str, float], workers: int) -> float:
    return float(estimate(case, rates, workers).seconds_per_step)


def estimate(case: Case, rates: dict[str, float], workers: int) -> Any:
    from groupnoise.training.distributed.cost import Machine, TrainingSize, estimate_cost

    size = TrainingSize(
        n_groups=case.batch_size,
        n_items=case.n_items,
        dim=case.dim,
        size=case.size,
        batch_size=case.batch_size,
        n_negatives=case.n_negatives,
    )
    machine = Machine(memory=math.inf, workers=workers, **rates)
    return estimate_cost(size, machine, workers=workers)


def compare(rates: dict[str, float], case: Case, measured: dict[str, Any]) -> dict[str, float]:
    """Return the estimates of a case, and by which factor they are too long."""
    compared = {}
    for name, workers in (("alone", 1), ("together", 2)):
        predicted = predict(case, rates, workers)
        compared[f"predicted_{name}"] = predicted
        compared[f"predicted_to_measured_{name}"] = round(
            predicted / min(measured[f"seconds_per_step_{name}"]), 2
        )
    return compared


def measure_memory(report: Path) -> None:
    import torch

    from groupnoise.training.distributed import TorchWorkers, process_group

    with process_group():
        team = TorchWorkers()
        import torch._dynamo  # loaded by the optimiser anyway; its memory is not the table's

        before = resident_bytes()
        trained = train_case(MEMORY, team)
        own = torch.tensor([before, trained["resident"], peak_bytes(), trained["held"]])
        everyones = [torch.empty_like(own) for _ in range(team.count)]
        torch.distributed.all_gather(everyones, own)
        if team.rank == 0:
            names = ("before", "trained", "peak", "tables_and_moments")
            workers = [
                dict(zip((f"{name}_bytes" for name in names), each.tolist(), strict=True))
                for each in everyones
            ]
            summary = {"workers": team.count, "seconds_per_step": trained["seconds_per_step"]}
            report.write_text(json.dumps({**summary, "by_worker": workers}), encoding="utf-8")


def train_case(case: Case, workers: Any) -> dict[str, Any]:
    """Train two epochs and return the time of the second, after warm-up in the first."""
    import numpy as np
    import torch

    from groupnoise import Groups
    from groupnoise.core import Marginal
    from groupnoise.core.candidates import SampledCandidates
    from groupnoise.core.objective import GroupObjective
    from groupnoise.core.pair_matching import PairMatching
    from groupnoise.core.weighting import SigmoidWeighting
    from groupnoise.training.parameters import TrainingPlan
    from groupnoise.training.trainer import train

    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    n_groups = case.batch_size * case.n_steps
    # Clicks fall off with the square root of an item's rank: common items, but no single star.
    clicks = (rng.random(n_groups * (case.size + 1)) ** 2 * case.n_items).astype(np.int64)
    clicks = rng.permutation(case.n_items)[clicks]
    objects, targets = np.split(clicks, [n_groups * case.size])
    groups = Groups(objects, np.arange(0, len(objects) + 1, case.size), targets)
    model = workers.item_model(
        case.n_items,
        case.dim,
        shared=True,
        has_bias=True,
        std=0.05,
        generator=torch.Generator().manual_seed(SEED),
    )
    clock = [0.0]  # the first worker alone hears of epochs
    history = train(
        model,
        groups,
        pair=PairMatching(SampledCandidates(case.n_items, case.n_negatives, corrected=False)),
        objective=GroupObjective(Marginal(), SigmoidWeighting()),
        plan=TrainingPlan(max_epochs=2, batch_size=case.batch_size, weight_decay=0.1),
        generator=np.random.default_rng(SEED),
        workers=workers,
        on_epoch=lambda record: clock.append(time.process_time()),
    )
    seconds = history.column("seconds")[1]
    held = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    moments = 2 * held + sum(8 * len(parameter) for parameter in model.parameters())
    return {
        "seconds_per_step": seconds / case.n_steps,
        "processor_per_step": (clock[-1] - clock[-2]) / case.n_steps if len(clock) > 2 else 0.0,
        "resident": resident_bytes(),
        "held": held + moments,
    }


def resident_bytes() -> int:
    return _status("VmRSS")


def peak_bytes() -> int:
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


PARTS = {
    "throughput": measure_throughput,
    "memory": measure_memory,
    "processor": measure_processor,
}


if __name__ == "__main__":
    main()
