"""How time and memory of a training step grow with groups, group size, targets and dimension.

A step is the loss and its gradient: exact softmax over all targets, sigmoid weighting, marginal
selection. One quantity grows at a time, the others stay at BASE. Time is processor time of one
thread, memory the peak above what was held before. The exponent is the slope on log scales over
the upper half of the points: 1 is linear.

Run: python benchmarks/speed/growth.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from _memory import extra_megabytes
from _record import svg_plots, write_result

from groupnoise import Groups
from groupnoise.core import collate
from groupnoise.core.candidates import FullCandidates
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective, make_selection, make_weighting
from groupnoise.core.pair_matching import PairMatching

BASE = {"groups": 64, "size": 8, "targets": 20_000, "dim": 32}
SWEEPS = {
    "groups": (64, 128, 256, 512, 1024, 2048),
    "size": (256, 512, 1024, 2048, 4096, 8192),
    "targets": (20_000, 40_000, 80_000, 160_000, 320_000, 640_000),
    "dim": (32, 64, 128, 256, 512, 1024),
}
FEWER = {"size": {"groups": 2, "targets": 500}}
"""A sweep over sizes up to large ones is about few groups."""
REPEATS = 2
PICTURE = Path(__file__).parents[2] / "docs" / "images" / "growth.svg"


def measure(groups: int, size: int, targets: int, dim: int) -> dict[str, float]:
    """Return processor seconds and extra megabytes of one step, the best of several."""
    draw = np.random.default_rng(0)
    # Every object is one of its own: what repeats costs nothing and would flatter the growth.
    objects = np.arange(groups * size).reshape(groups, size)
    batch = collate(
        Groups.from_array(objects, draw.integers(targets, size=groups)), np.arange(groups)
    )
    generator = torch.Generator().manual_seed(0)
    model = MatchingModel(
        EmbeddingEncoder(groups * size, dim, generator=generator),
        EmbeddingEncoder(targets, dim, generator=generator),
        n_targets=targets,
    )
    pair = PairMatching(FullCandidates(targets))
    objective = GroupObjective(make_selection("marginal"), make_weighting("sigmoid"))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        objective(pair(model, batch, generator)).per_group.mean().backward()

    megabytes = extra_megabytes(step)
    seconds = []
    for _ in range(REPEATS):
        started = time.process_time()
        step()
        seconds.append(time.process_time() - started)
    return {"seconds": round(min(seconds), 4), "megabytes": megabytes}


def exponent(sizes: tuple[int, ...], values: list[float]) -> float | None:
    """Return the slope on log scales over the upper half of the points, None if they vanish."""
    half = len(sizes) // 2
    if min(values[half:]) <= 0:
        return None
    return round(float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0]), 2)


def draw_picture(sweeps: dict[str, Any]) -> None:
    plt = svg_plots()
    figure, axes = plt.subplots(2, len(sweeps), figsize=(11, 5), constrained_layout=True)
    for column, (name, sweep) in enumerate(sweeps.items()):
        for row, quantity in enumerate(("seconds", "megabytes")):
            axis = axes[row, column]
            axis.loglog(sweep["values"], sweep[quantity], marker="o", color="#1f6f8b")
            slope = sweep["exponents"][quantity]
            axis.set_title("" if slope is None else f"exponent {slope:.2f}", fontsize=10)
            axis.grid(visible=True, which="major", alpha=0.3)
            axis.set_xlabel(name if row else "")
            axis.set_ylabel("" if column else quantity)
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    torch.set_num_threads(1)
    measure(**BASE)  # libraries load before anything is measured
    sweeps: dict[str, Any] = {}
    for name, values in SWEEPS.items():
        fixed = {**BASE, **FEWER.get(name, {})}
        points = [measure(**{**fixed, name: value}) for value in values]
        columns = {key: [point[key] for point in points] for key in ("seconds", "megabytes")}
        sweeps[name] = {
            "values": values,
            **columns,
            "exponents": {key: exponent(values, column) for key, column in columns.items()},
            "fixed": {key: value for key, value in fixed.items() if key != name},
        }
        print(f"{name:<8}", sweeps[name]["exponents"], columns)
    draw_picture(sweeps)
    write_result("growth", {"seed": 0, "threads": 1, "sweeps": sweeps}, packages=("matplotlib",))


if __name__ == "__main__":
    main()
