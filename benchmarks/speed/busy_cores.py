"""Slowdown when another process keeps one core busy.

    python benchmarks/speed/busy_cores.py

Each task runs in a process of its own, without and with a burner pinned to one core, in turns; a
figure is the median of the turns, and the ratio is busy over idle. The rows `spinning` show what
torch does by itself, the others what `configure_threads` (every command of the package) does.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from _processes import environment_without, run_python
from _record import write_result
from quiet import measured_quietly

TASKS = {
    "training step": """
from groupnoise.clicks import make_shop
from groupnoise import MaxMatchingRecommender
import time
shop = make_shop(n_users=800, random_state=0)
histories = [shop.item_ids[clicks] for clicks in shop.histories]
model = MaxMatchingRecommender.paper(max_epochs=2, random_state=0)
start = time.perf_counter(); model.fit(histories); print(time.perf_counter() - start)
""",
    "candidate labels": """
from groupnoise.candidates import load_digit_candidates
from groupnoise import MaxMatchingPartialLabelClassifier
import time
digits = load_digit_candidates(part="train", random_state=0)
model = MaxMatchingPartialLabelClassifier.paper(max_epochs=5, random_state=0)
start = time.perf_counter(); model.fit(digits.features, digits.candidates)
print(time.perf_counter() - start)
""",
    "evaluation": """
from groupnoise.clicks import judge_targets, make_shop, split_histories
from groupnoise.clicks.baselines import EASERecommender
import time
shop = make_shop(n_users=4000, random_state=0)
split = split_histories(shop, "leave_one_out")
model = EASERecommender().fit([shop.item_ids[clicks] for clicks in split.train.histories])
start = time.perf_counter()
for _ in range(3):
    judge_targets(model, shop, split.test)
print(time.perf_counter() - start)
""",
    "recall of many histories": """
from groupnoise.clicks import make_shop
from groupnoise.clicks.baselines import CooccurrenceRecommender
from groupnoise.recall import open_artifact
import time
shop = make_shop(n_users=4000, random_state=0)
histories = [shop.item_ids[clicks] for clicks in shop.histories]
CooccurrenceRecommender().fit(histories).export("artifact")
model = open_artifact("artifact")
start = time.perf_counter()
for _ in range(3):
    model.recall(histories)
print(time.perf_counter() - start)
""",
    "the quick demo": """
import subprocess, sys, time
start = time.perf_counter()
subprocess.run([sys.executable, "-m", "groupnoise", "demo", "--quick"], check=True,
    capture_output=True)
print(time.perf_counter() - start)
""",
    "plain product": """
import time, torch
left, right = torch.randn(512, 512), torch.randn(512, 512)
start = time.perf_counter()
for _ in range(200):
    left @ right
print(time.perf_counter() - start)
""",
}
BURN = "import os\nos.sched_setaffinity(0, {0})\nwhile True: pass"
POLICY = "from groupnoise import configure_threads; configure_threads()\n"


def seconds_of(code: str) -> float:
    environment = environment_without("OMP_", "GOMP_")
    with tempfile.TemporaryDirectory() as folder:
        return float(run_python(code, environment=environment, folder=folder).split()[-1])


def measure(code: str, turns: int) -> dict[str, float]:
    idle, busy, taken = [], [], 0.0
    for _ in range(turns):
        alone = measured_quietly(lambda: seconds_of(code))
        idle.append(alone.value)
        taken = max(taken, alone.disturbance)
        burner = subprocess.Popen([sys.executable, "-c", BURN])
        try:
            time.sleep(0.2)
            busy.append(seconds_of(code))
        finally:
            burner.kill()
            burner.wait()
    first, second = statistics.median(idle), statistics.median(busy)
    return {
        "idle": round(first, 3),
        "busy": round(second, 3),
        "ratio": round(second / first, 2),
        "others_took_while_idle": round(taken, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--spinning", action="store_true", help="also without the policy: slow")
    options = parser.parse_args()
    found = {}
    for name, code in TASKS.items():
        found[name] = measure(POLICY + code, options.turns)
        if options.spinning:
            found[f"{name}, spinning"] = measure(code, options.turns)
        print(json.dumps({name: found[name]}))
    write_result("busy_cores", {"turns": options.turns, "seconds": found})


if __name__ == "__main__":
    main()
