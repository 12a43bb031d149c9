"""Time of closed-form solvers beside a busy core: with all threads of OpenBLAS, and by the rule.

    python benchmarks/speed/busy_solvers.py

Each task runs in a process of its own under both ways, without and with a burner pinned to one
core, all four in turns, so that other work on the machine falls on all of them. `all` gives
OpenBLAS every core for every product, as it takes by itself; `rule` is what `configure_threads` and
`threads_to_solve` do. A figure is the median of the turns by the clock and by the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from _processes import environment_without, run_python
from _record import write_result
from quiet import disturbance

TASKS = {
    "EASE, 1000 items": """
from groupnoise.clicks.baselines import EASERecommender
histories = [(1000 * draws.random(20) ** 2).astype(int) for _ in range(4000)]
task = lambda: EASERecommender().fit(histories)
""",
    "EASE, 4000 items": """
from groupnoise.clicks.baselines import EASERecommender
histories = [(4000 * draws.random(20) ** 2).astype(int) for _ in range(8000)]
task = lambda: EASERecommender().fit(histories)
""",
    "ALS, 3000 items": """
from groupnoise.clicks.baselines import ALSRecommender
histories = [(3000 * draws.random(20) ** 2).astype(int) for _ in range(1000)]
task = lambda: ALSRecommender(max_epochs=3, random_state=0).fit(histories)
""",
    "leading eigenvectors, 2000 items": """
from scipy import sparse
from groupnoise.clicks.evidence.spectral import gram_eigenvectors
rows = sparse.random_array((6000, 2000), density=0.01, rng=draws, format="csr").astype("f4")
task = lambda: gram_eigenvectors(sparse.csr_array(rows), 256, 0)
""",
    "SURE, 1347 rows": """
from groupnoise.candidates import load_digit_candidates
from groupnoise.candidates.baselines import SUREClassifier
digits = load_digit_candidates(part="train", random_state=0)
task = lambda: SUREClassifier().fit(digits.features, digits.candidates)
""",
    "kernel of 600 rows": """
from groupnoise.candidates import load_digit_candidates
from groupnoise import MaxMatchingPartialLabelClassifier
digits = load_digit_candidates(part="train", random_state=0)
model = MaxMatchingPartialLabelClassifier.fixed(encoder="kernel", random_state=0)
task = lambda: model.fit(digits.features[:600], digits.candidates[:600])
""",
    "statistics of 500 bags": """
from groupnoise.bags.search.forests_and_kernels import StatisticsKernel
rows, offsets = draws.normal(size=(4000, 50)), np.arange(0, 4001, 8)
labels, folds = draws.random((500, 1)) < 0.5, np.arange(500) % 5
def task():
    for width in (0.3, 1.0, 3.0):
        kernel = StatisticsKernel(rows, offsets, width)
        for ridge in (0.1, 1.0, 10.0):
            kernel.held_out(labels, folds, ridge)
""",
    "logistic regression of bags": """
from groupnoise.bags import load_digit_bags
from groupnoise.bags.baselines import InstanceLRClassifier
bags = load_digit_bags(300, random_state=0)
task = lambda: InstanceLRClassifier().fit(bags.bags, bags.labels)
""",
    "votes of 40 annotators": """
from groupnoise.votes import DawidSkene, Votes
said = [(row, f"a{who}", str(draws.integers(6)), None) for row in range(3000)
        for who in draws.choice(40, 4, replace=False)]
task = lambda: DawidSkene().fit(Votes.from_entries(said, 3000))
""",
}
BURN = """
import os
os.sched_setaffinity(0, {0})
while os.getppid() == %d: pass
"""
"""Burns as long as its parent lives."""
BEFORE = """
import numpy as np, time
from groupnoise import configure_threads
configure_threads()
draws = np.random.default_rng(0)
"""
AFTER = """
start, used = time.perf_counter(), time.process_time()
task()
print(time.perf_counter() - start, time.process_time() - used)
"""
ALL = "from groupnoise.core import threads; threads.MAX_ROWS_OF_THREAD = 0\n"


def seconds_of(task: str, way: str) -> tuple[float, float]:
    environment = environment_without("OMP_", "GOMP_", "OPENBLAS_")
    if way == "all":
        environment["OPENBLAS_NUM_THREADS"] = str(os.cpu_count())
    code = BEFORE + (ALL if way == "all" else "") + task + AFTER
    clock, processor = map(float, run_python(code, environment=environment).split()[-2:])
    return clock, processor


def measure(task: str, turns: int) -> dict[str, dict[str, float]]:
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(turns):
        for is_busy in (False, True):
            burner = (
                subprocess.Popen([sys.executable, "-c", BURN % os.getpid()]) if is_busy else None
            )
            try:
                time.sleep(0.2)
                for way in ("all", "rule"):
                    name = f"{way}, {'busy' if is_busy else 'idle'}"
                    found.setdefault(name, []).append(seconds_of(task, way))
            finally:
                if burner is not None:
                    burner.kill()
                    burner.wait()
    return {
        name: {
            "clock": round(statistics.median(clock for clock, _ in each), 3),
            "processor": round(statistics.median(used for _, used in each), 3),
        }
        for name, each in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    others, found = [disturbance()], {}
    for name, task in TASKS.items():
        found[name] = measure(task, options.turns)
        others.append(disturbance())
        print(json.dumps({name: found[name]}), flush=True)
    taken = {"others_took": round(statistics.median(others), 2)}
    write_result("busy_solvers", {"turns": options.turns, **taken, "seconds": found})


if __name__ == "__main__":
    main()
