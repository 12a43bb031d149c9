"""Time of a training step as the catalogue grows: flat, since only looked-up rows are touched.

Processor time of one thread, so that other work on the machine disturbs it little.

Run: python benchmarks/speed/catalogue_growth.py
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import write_result

from groupnoise import Groups
from groupnoise.core import collate
from groupnoise.core.candidates import SampledCandidates
from groupnoise.core.model import item_model
from groupnoise.core.objective import GroupObjective, make_selection, make_weighting
from groupnoise.core.pair_matching import PairMatching
from groupnoise.training.optimizer import make_optimizers

SIZES = (100_000, 500_000, 1_000_000, 5_000_000)
DIM, BATCH, SIZE, N_NEGATIVES = 64, 512, 5, 256
WARM_UP, STEPS = 10, 40


def milliseconds_of_a_step(n_items: int) -> float:
    """Return the median over steps on fresh batches; popular items come oftener, as in shops."""
    draw = np.random.default_rng(0)
    shape = ((WARM_UP + STEPS) * BATCH, SIZE + 1)
    items = (n_items * draw.random(shape) ** 3).astype(np.int64)
    groups = Groups.from_array(items[:, :SIZE], items[:, SIZE])
    generator = torch.Generator().manual_seed(0)
    model = item_model(n_items, DIM, shared=True, has_bias=True, std=0.05, generator=generator)
    pair = PairMatching(SampledCandidates(n_items, N_NEGATIVES))
    objective = GroupObjective(make_selection("marginal"), make_weighting("sigmoid"))
    optimizers = make_optimizers(model, learning_rate=5e-3, weight_decay=0.2)
    times = []
    for number in range(WARM_UP + STEPS):
        started = time.process_time()
        batch = collate(groups, np.arange(number * BATCH, (number + 1) * BATCH))
        for optimizer in optimizers:
            optimizer.zero_grad()
        objective(pair(model, batch, generator)).per_group.mean().backward()
        for optimizer in optimizers:
            optimizer.step()
        if number >= WARM_UP:
            times.append(1000 * (time.process_time() - started))
    return round(statistics.median(times), 2)


def main() -> None:
    torch.set_num_threads(1)
    milliseconds_of_a_step(SIZES[0])  # the first steps of a process are slow in any catalogue
    figures = {}
    for n_items in SIZES:
        figures[str(n_items)] = milliseconds_of_a_step(n_items)
        print(f"{n_items:>9} items {figures[str(n_items)]:7.2f} ms")
    growth = max(figures.values()) / min(figures.values()) - 1.0
    print(f"slowest {growth:+.0%} over the fastest")
    write_result(
        "catalogue_growth",
        {
            "configuration": {
                "dim": DIM,
                "batch": BATCH,
                "objects": SIZE,
                "negatives": N_NEGATIVES,
                "steps": STEPS,
                "seed": 0,
                "torch_threads": torch.get_num_threads(),
            },
            "milliseconds_by_items": figures,
            "slowest_over_fastest": round(growth, 3),
            "wanted_below": 0.25,
        },
    )


if __name__ == "__main__":
    main()
