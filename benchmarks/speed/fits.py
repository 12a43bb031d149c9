"""Processor time of fits at fixed parameters, before and after a change of the package.

    python benchmarks/speed/fits.py before/src --data DIRECTORY

`before` is the source folder of an earlier state (`git worktree add before COMMIT`). Each fit runs
in a process of its own with one thread, before and after in turns; figures are medians. What is
loaded at first use counts, the import of the package does not.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from _processes import run_python
from _record import write_result

from groupnoise.reproduce.provenance import checkout

CANDIDATES = """
from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.io import load_dataset
data = load_dataset("{name}")
model = MaxMatchingPartialLabelClassifier.fixed(random_state=0)
arguments = data.features, data.candidates
"""
FITS = {
    "Lost": CANDIDATES.format(name="lost"),
    "BirdSong": CANDIDATES.format(name="birdsong"),
    "SIVAL-like": """
from groupnoise import MaxMatchingMILClassifier
from groupnoise.bags.sival import make_sival_like
data = make_sival_like(random_state=0)
model = MaxMatchingMILClassifier.fixed(random_state=0)
arguments = data.bags, data.labels
""",
}
TIMED = """
import time
started = time.process_time()
model.fit(*arguments)
print(time.process_time() - started)
"""


def seconds_of(code: str, source: Path, data: Path | None) -> float:
    """Return the processor seconds of a fit with the package of a source folder."""
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    if data is not None:
        environment["GROUPNOISE_DATA"] = str(data)
    return float(run_python(code + TIMED, environment=environment).split()[-1])


def main() -> None:
    """Time all fits and write the result file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path)
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    sources = {"before": options.before, "after": Path(__file__).parents[2] / "src"}
    found = {}
    for name, code in FITS.items():
        times: dict[str, list[float]] = {side: [] for side in sources}
        for _ in range(options.turns):
            for side, source in sources.items():
                times[side].append(seconds_of(code, source.resolve(), options.data))
        before, after = (statistics.median(times[side]) for side in ("before", "after"))
        found[name] = {
            "before": round(before, 2),
            "after": round(after, 2),
            "ratio": round(before / after, 2),
        }
        print(name, found[name])
    commit = checkout(options.before / "groupnoise")["commit"]
    payload = {"before": commit, "turns": options.turns, "processor_seconds": found}
    write_result("fits", payload)


if __name__ == "__main__":
    main()
