"""The exact softmax at size: one million targets, forward and backward, in bounded memory.

The whole objective is run (pair matching over all targets, group weighting, selection) on one
shared table. Its rate counts the products of the normalizer: one forward, and three backward, of
which one computes the logits again instead of keeping them. It is held against the rate of torch's
own product of two square matrices, measured before and after in the same process.

Run: python benchmarks/speed/exact_softmax.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from _memory import extra_megabytes
from _record import write_result

from groupnoise import Groups
from groupnoise.core import collate
from groupnoise.core.batching import GroupBatch
from groupnoise.core.candidates import FullCandidates
from groupnoise.core.chunked_softmax import log_normalizer
from groupnoise.core.encoders import EmbeddingEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective, make_selection, make_weighting
from groupnoise.core.pair_matching import PairMatching

N_TARGETS, DIM, N_GROUPS, SIZE = 1_000_000, 64, 512, 5
REPEATS, SQUARE = 1, 2048
PRODUCTS = 4
"""One forward and three backward, each of 2 * queries * targets * dim operations."""


def model_and_batch(n_targets: int) -> tuple[MatchingModel, GroupBatch]:
    generator = np.random.default_rng(0)
    items = generator.integers(n_targets, size=(N_GROUPS, SIZE + 1))
    batch = collate(Groups.from_array(items[:, :SIZE], items[:, SIZE]), np.arange(N_GROUPS))
    table = EmbeddingEncoder(n_targets, DIM, generator=torch.Generator().manual_seed(0))
    return MatchingModel(table, table, n_targets=n_targets), batch


def step(model: MatchingModel, batch: GroupBatch) -> None:
    """Compute the loss and its gradient."""
    pair = PairMatching(FullCandidates(model.n_targets))
    objective = GroupObjective(make_selection("marginal"), make_weighting("sigmoid"))
    model.zero_grad()
    objective(pair(model, batch, torch.Generator())).per_group.mean().backward()


def best_seconds(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest run; of one thread its own, whatever else runs."""
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    seconds = []
    for _ in range(REPEATS):
        started = clock()
        work()
        seconds.append(clock() - started)
    return min(seconds)


def square_rate() -> float:
    """Return billions of operations per second of a product of two square matrices."""
    left, right = torch.randn(2, SQUARE, SQUARE)
    return 2 * SQUARE**3 / best_seconds(lambda: left @ right) / 1e9


def difference_from_dense() -> float:
    """Return the largest difference of value or gradient from the dense formula, in float64."""
    generator = torch.Generator().manual_seed(0)
    leaves = [
        torch.randn(n, 8, generator=generator, dtype=torch.float64).requires_grad_()
        for n in (3000, 2000)  # several chunks
    ]
    chunked = log_normalizer(*leaves)
    dense = (leaves[0] @ leaves[1].t()).logsumexp(-1)
    pairs = zip(
        [chunked, *torch.autograd.grad(chunked.sum(), leaves)],
        [dense, *torch.autograd.grad(dense.sum(), leaves)],
        strict=True,
    )
    return max((left - right).detach().abs().max().item() for left, right in pairs)


def main() -> None:
    figures: dict[str, dict[str, float]] = {}
    step(*model_and_batch(1000))  # libraries load and threads start before anything is measured
    model, batch = model_and_batch(N_TARGETS)
    megabytes = extra_megabytes(lambda: step(model, batch))
    n_queries = len(torch.unique(batch.objects))
    for n_threads in sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(n_threads)
        before = square_rate()
        seconds = best_seconds(lambda: step(model, batch))
        reference = max(before, square_rate())
        rate = PRODUCTS * 2 * n_queries * N_TARGETS * DIM / seconds / 1e9
        figures[f"threads {n_threads}"] = {
            "seconds": round(seconds, 2),
            "billions_of_operations_per_second": round(rate, 1),
            "of_a_square_product": round(reference, 1),
            "share": round(rate / reference, 2),
        }
        print(n_threads, figures[f"threads {n_threads}"])
    difference = difference_from_dense()
    print(f"extra memory {megabytes} MB, largest difference from dense {difference:.1e}")
    write_result(
        "exact_softmax",
        {
            "configuration": {
                "targets": N_TARGETS,
                "dim": DIM,
                "groups": N_GROUPS,
                "objects": SIZE,
                "distinct_objects": n_queries,
                "products_counted": PRODUCTS,
                "seed": 0,
            },
            "wanted": {"extra_megabytes_below": 600, "share_at_least": 0.6},
            "extra_megabytes": megabytes,
            "gradient_megabytes_of_these": N_TARGETS * DIM * 4 / 2**20,
            "largest_difference_from_dense": difference,
            "figures": figures,
        },
    )


if __name__ == "__main__":
    main()
