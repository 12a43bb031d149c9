"""Where the time of a training step goes: part by part with autograd, and as `fit` takes it.

Processor time of one thread, medians over steps, the two ways in turns, on the batches of
`step_time.py` under `max` with 100 negatives.

Run: python benchmarks/speed/profile_step.py
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import step_time as setting
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import write_result

from groupnoise.core.table_objective import TableObjective

WARM_UP, STEPS = 20, 200
PARTS = ("batch", "loss", "gradient", "update")


def clocked(*parts: Callable[[], object]) -> list[float]:
    """Return the milliseconds of processor time that each part takes."""
    clock = [time.process_time()]
    for part in parts:
        part()
        clock.append(time.process_time())
    return [1000 * (end - start) for start, end in pairwise(clock)]


class Way:
    """A model, and the parts of a step that trains it."""

    def __init__(self) -> None:
        self.draw = torch.Generator().manual_seed(0)
        parts = setting.our_parts("max", setting.N_NEGATIVES, self.draw)
        self.model, self.pair, self.objective, self.optimizers = parts
        self.tables = TableObjective.of(self.model, self.pair, self.objective)
        self.groups = setting.batches()

    def collate(self, number: int) -> None:
        """Read a batch."""
        begin = number % 10 * setting.BATCH
        self.batch = setting.collate(self.groups, np.arange(begin, begin + setting.BATCH))

    def part_by_part(self, number: int) -> list[float]:
        """Take a step with autograd."""
        (optimizer,) = self.optimizers

        def loss() -> None:
            matching = self.pair(self.model, self.batch, self.draw)
            self.loss = self.objective(matching).per_group.mean()

        optimizer.zero_grad()
        return clocked(
            lambda: self.collate(number), loss, lambda: self.loss.backward(), optimizer.step
        )

    def at_once(self, number: int) -> list[float]:
        """Take a step as `fit` does."""
        assert self.tables is not None
        tables, (optimizer,) = self.tables, self.optimizers
        upstream = torch.full((setting.BATCH,), 1 / setting.BATCH)

        def gradient() -> None:
            self.found = tables.gradients(upstream)

        def update() -> None:
            for each in self.found:
                optimizer.move_rows(each)

        return clocked(
            lambda: self.collate(number),
            lambda: tables.losses(self.batch, self.draw),
            gradient,
            update,
        )


def main() -> None:
    torch.set_num_threads(1)
    before, after = Way(), Way()
    times: dict[str, list[list[float]]] = {"before": [], "after": []}
    for number in range(WARM_UP + STEPS):
        spent = {"before": before.part_by_part(number), "after": after.at_once(number)}
        if number >= WARM_UP:
            for name, milliseconds in spent.items():
                times[name].append(milliseconds)
    milliseconds = {
        name: {
            part: round(statistics.median(values), 3)
            for part, values in zip(PARTS, zip(*found, strict=True), strict=True)
        }
        for name, found in times.items()
    }
    print(milliseconds)
    write_result("profile_step", {"threads": 1, "seed": 0, "milliseconds": milliseconds})


if __name__ == "__main__":
    main()
