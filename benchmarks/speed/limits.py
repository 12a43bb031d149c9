"""Limits of the machine and of bare torch for a training step and an export.

    python benchmarks/speed/limits.py

One thread, processor time, the best of many short runs, so that other work disturbs little. For
each row the products at the rate of a square matrix product, the bytes that must move at that of
a triad (a = b + c * d over arrays far larger than the cache), and the same products, lookups, Adam
and exponentials as bare calls of torch or numpy without an objective around them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from _record import write_result

from groupnoise import Groups
from groupnoise.core import collate
from groupnoise.core.candidates import SampledCandidates
from groupnoise.core.compiled import MIN_STEPS, training_kernels
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective, make_selection, make_weighting
from groupnoise.core.pair_matching import PairMatching
from groupnoise.recall.vectors import log_normalizers
from groupnoise.training.explicit_steps import find_explicit_step
from groupnoise.training.optimizer import make_optimizers

FLOAT_BYTES = 4
STEPS = {
    "step of the comparison": {"n_items": 24_000, "dim": 200, "batch": 200, "negatives": 100},
    "step of a long log": {"n_items": 20_000, "dim": 128, "batch": 512, "negatives": 256},
}
SIZE, N_BATCHES, N_QUERIES, N_TARGETS, QUERY_DIM = 5, 10, 2560, 100_000, 33


def best(action: Callable[[], object], rounds: int = 40) -> float:
    """Return the least processor seconds of an action."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return min(times)


def rates() -> dict[str, float]:
    """Return operations of a square product and bytes of a triad, each a second."""
    left, right = torch.randn(1024, 1024), torch.randn(1024, 1024)
    first, second, third = (torch.randn(1 << 24) for _ in range(3))
    product = best(lambda: left @ right)
    triad = best(lambda: torch.add(second, third, alpha=3.0, out=first), 15)
    return {
        "operations_per_second": 2 * 1024**3 / product,
        "bytes_per_second": 3 * FLOAT_BYTES * len(first) / triad,
    }


def long_tailed(n_items: int, batch: int) -> Groups:
    """Return groups whose items follow a long tail, enough for some batches."""
    generator = np.random.default_rng(0)
    chance = 1 / np.arange(1, n_items + 1) ** 0.8
    items = generator.choice(n_items, size=(N_BATCHES * batch, SIZE + 1), p=chance / chance.sum())
    return Groups.from_array(items[:, :SIZE], items[:, SIZE])


def measure_step(
    rate: dict[str, float],
    *,
    n_items: int,
    dim: int,
    batch: int,
    negatives: int,
    n_steps: int = 0,
) -> dict[str, Any]:
    """Return the time of a marginal step and of its unavoidable parts."""
    groups = long_tailed(n_items, batch)
    generator = torch.Generator().manual_seed(0)
    table = EmbeddingEncoder(n_items, dim, sparse=True, generator=generator)
    model = MatchingModel(table, table, n_targets=n_items)
    pair = PairMatching(SampledCandidates(n_items, negatives))
    objective = GroupObjective(make_selection("marginal"), make_weighting("sigmoid"))
    optimizers = make_optimizers(model, learning_rate=1e-3, weight_decay=1e-5)
    taken = find_explicit_step(model, pair, objective, optimizers, n_steps=n_steps)
    assert taken is not None

    def step() -> None:
        taken.loss(collate(groups, np.arange(batch)), generator)
        taken.descend()

    objects = torch.unique(torch.from_numpy(groups.objects[: SIZE * batch]))
    targets = torch.from_numpy(groups.targets[:batch])
    drawn = torch.randint(n_items, (negatives,), generator=generator)
    rows = torch.unique(torch.cat([objects, targets, drawn]))
    state = [torch.zeros(n_items, dim) for _ in range(3)]
    slopes = torch.rand(len(objects), negatives)

    def bare() -> None:
        vectors, candidates = state[0].index_select(0, objects), state[0].index_select(0, drawn)
        (vectors @ candidates.t()).exp_().sum(-1)
        gradient = torch.zeros(len(rows), dim)
        gradient[: len(objects)] += slopes @ candidates
        gradient[-negatives:] += slopes.t() @ vectors
        taken = [each.index_select(0, rows) for each in state]
        torch._fused_adam_(
            [taken[0]], [gradient], [taken[1]], [taken[2]], [], [torch.tensor(1.0)],
            lr=1e-3, beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False,
            maximize=False,
        )  # fmt: skip
        for each, changed in zip(state, taken, strict=True):
            each.index_copy_(0, rows, changed)

    operations = 3 * 2 * len(objects) * negatives * dim
    # Values and two moments of every row are read and written.
    moved = 2 * 3 * len(rows) * dim * FLOAT_BYTES
    with torch.no_grad():
        bare_seconds = best(bare, 100)
    return row(best(step, 100), bare_seconds, operations, moved, rate)


def measure_normalizers(rate: dict[str, float]) -> dict[str, Any]:
    """Return the time of the log-normalizers of an export, and of its products and exponentials."""
    generator = np.random.default_rng(0)
    queries = generator.standard_normal((N_QUERIES, QUERY_DIM), dtype=np.float32)
    targets = generator.standard_normal((N_TARGETS, QUERY_DIM), dtype=np.float32)

    def bare() -> None:
        for begin in range(0, N_QUERIES, 256):
            for first in range(0, N_TARGETS, 512):
                scores = queries[begin : begin + 256] @ targets[first : first + 512].T
                np.exp(scores, out=scores).sum(axis=1)

    operations = 2 * N_QUERIES * N_TARGETS * QUERY_DIM
    moved = FLOAT_BYTES * QUERY_DIM * (N_QUERIES + N_TARGETS)
    ours = best(lambda: log_normalizers(queries, targets), 3)
    return row(ours, best(bare, 3), operations, moved, rate)


def row(
    ours: float, bare: float, operations: float, moved: float, rate: dict[str, float]
) -> dict[str, Any]:
    """Return a row of the result file, in milliseconds."""
    return {
        "ours_ms": round(1e3 * ours, 2),
        "bare_ms": round(1e3 * bare, 2),
        "products_ms": round(1e3 * operations / rate["operations_per_second"], 2),
        "memory_ms": round(1e3 * moved / rate["bytes_per_second"], 2),
        "share_of_bare": round(bare / ours, 2),
    }


def main() -> None:
    """Measure the machine and every row, and write the result file."""
    torch.set_num_threads(1)
    rate = rates()
    rows = {}
    for name, sizes in STEPS.items():
        rows[name] = measure_step(rate, **sizes)
        if training_kernels(MIN_STEPS) is not None:
            rows[f"{name}, with numba"] = measure_step(rate, **sizes, n_steps=MIN_STEPS)
    rows["log-normalizers of an export"] = measure_normalizers(rate)
    for name, found in rows.items():
        print(name, found)
    configuration = {
        "steps": STEPS,
        "objects": SIZE,
        "normalizers": [N_QUERIES, N_TARGETS, QUERY_DIM],
        "seed": 0,
    }
    write_result("limits", {"configuration": configuration, "rates": rate, "rows": rows})


if __name__ == "__main__":
    main()
