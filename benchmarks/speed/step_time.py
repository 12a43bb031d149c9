"""Time of a training step: ours against the same objective arranged as the authors' code does it.

That arrangement gives every group negatives of its own, normalizes every object over them, holds
objects against the contexts of the negatives, and updates the whole table with dense Adam. A second
row is their public training loop, written down again: negatives are drawn group by group in Python,
every context is summed over an array of (groups, objects and negatives, objects, dim). All run in
one process, one step of each after the other, after a warm-up; figures are medians: on one thread
of processor time, which other work on the machine changes little, on several of the clock, which
asks for an idle machine (`--threads 1` leaves them out). Threads wait as every command lets them,
and ours, a small step, takes one of them as it does in a fit. Where numba is installed, ours is
also taken with the loops that it compiles for a long training.

Run: python benchmarks/speed/step_time.py
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.update(OMP_WAIT_POLICY="PASSIVE", GOMP_SPINCOUNT="0")  # as every command waits

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

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
from groupnoise.core.threads import configure_threads, threads_for
from groupnoise.training.explicit_steps import find_explicit_step
from groupnoise.training.optimizer import make_optimizers

DIM, BATCH, SIZE, N_ITEMS, N_NEGATIVES = 200, 200, 5, 24_000, 100
WARM_UP, STEPS = 10, 50
TARGETS = [("max", 100, (18.0, 15.0)), ("marginal", 100, (16.0, 12.0)), ("max", 500, (10.0, 10.0))]
"""Selection, our negatives, and how many times faster the project wants to be on one thread and
on several."""


def batches(n_batches: int = 10) -> Groups:
    generator = np.random.default_rng(0)
    chance = 1 / np.arange(1, N_ITEMS + 1) ** 0.8
    chance /= chance.sum()
    n_groups = n_batches * BATCH
    items = generator.choice(N_ITEMS, size=(n_groups, SIZE + 1), p=chance)
    return Groups.from_array(items[:, :SIZE], items[:, SIZE])


def plain_step(groups: Groups, selection: str) -> Callable[[int], None]:
    """Return a step in the authors' arrangement, written from its description."""
    table = nn.Embedding(N_ITEMS, DIM)
    optimizer = torch.optim.Adam(table.parameters(), lr=1e-3, weight_decay=1e-5)
    scale = DIM**-0.5

    def context_score(queries: Tensor, group: Tensor) -> Tensor:
        attention = (queries @ group.transpose(1, 2) * scale).detach().softmax(-1)
        return ((attention @ group) * queries).sum(-1) * scale

    def step(number: int) -> None:
        rows = slice(number % 10 * BATCH, (number % 10 + 1) * BATCH)
        objects = torch.from_numpy(groups.objects.reshape(-1, SIZE)[rows])
        targets = torch.from_numpy(groups.targets[rows])
        negatives = torch.randint(N_ITEMS, (BATCH, N_NEGATIVES))
        vectors = table(objects)  # (batch, size, dim)
        candidates = table(torch.cat([targets[:, None], negatives], 1))
        log_pair = (vectors @ candidates.transpose(1, 2) * scale).log_softmax(-1)[..., 0]
        own = context_score(vectors, vectors)
        others = context_score(table(torch.randint(N_ITEMS, (BATCH, N_NEGATIVES))), vectors)
        baselines = others.unsqueeze(1).expand(-1, SIZE, -1)
        log_weight = torch.cat([own.unsqueeze(-1), baselines], -1).log_softmax(-1)[..., 0]
        scores = log_pair + log_weight
        score = scores.max(-1).values if selection == "max" else scores.logsumexp(-1)
        optimizer.zero_grad()
        (-score.mean()).backward()
        optimizer.step()

    return step


def public_step(groups: Groups) -> Callable[[int], None]:
    """Return a step of the authors' public training loop, hard max, with these shapes."""
    table = nn.Embedding(N_ITEMS, DIM)
    optimizer = torch.optim.Adam(table.parameters(), lr=1e-3, weight_decay=1e-5)
    scale = DIM**-0.5
    others = 1 - torch.cat([torch.eye(SIZE), torch.zeros(N_NEGATIVES, SIZE)])
    objects, targets = groups.objects.reshape(-1, SIZE), groups.targets
    generator = np.random.default_rng(0)

    def step(number: int) -> None:
        rows = range(number % 10 * BATCH, (number % 10 + 1) * BATCH)
        drawn = [(objects[row], generator.integers(1, N_ITEMS, N_NEGATIVES)) for row in rows]
        clicked, negatives = (torch.from_numpy(np.stack(each)) for each in zip(*drawn, strict=True))
        positives = torch.from_numpy(targets[rows.start : rows.stop])[:, None]
        vectors, strangers = table(clicked), table(negatives)
        candidates = table(torch.cat([positives, negatives], 1))
        log_pair = (vectors @ candidates.transpose(1, 2) * scale).log_softmax(-1)[..., 0]
        everyone = torch.cat([vectors, strangers], 1)
        attention = ((everyone @ vectors.transpose(1, 2) * scale) * others).softmax(-1).detach()
        contexts = (vectors.unsqueeze(1) * attention.unsqueeze(-1)).sum(-2)
        weights = vectors @ contexts.transpose(1, 2) * scale
        own = torch.diagonal(weights[..., :SIZE], dim1=1, dim2=2).unsqueeze(-1)
        log_weight = torch.cat([own, weights[..., SIZE:]], -1).log_softmax(-1)[..., 0]
        optimizer.zero_grad()
        (-(log_pair + log_weight).max(-1).values.mean()).backward()
        optimizer.step()

    return step


def our_parts(
    selection: str, n_negatives: int, generator: torch.Generator
) -> tuple[MatchingModel, PairMatching, GroupObjective, list[Optimizer]]:
    """Return model, pair matching, objective and optimizers."""
    table = EmbeddingEncoder(N_ITEMS, DIM, sparse=True, generator=generator)
    model = MatchingModel(table, table, n_targets=N_ITEMS)
    return (
        model,
        PairMatching(SampledCandidates(N_ITEMS, n_negatives)),
        GroupObjective(make_selection(selection), make_weighting("sigmoid")),
        make_optimizers(model, learning_rate=1e-3, weight_decay=1e-5),
    )


def our_step(
    groups: Groups, selection: str, n_negatives: int, *, n_steps: int = 0
) -> Callable[[int], None]:
    """Return a step as a training of so many steps takes it."""
    generator = torch.Generator().manual_seed(0)
    taken = find_explicit_step(*our_parts(selection, n_negatives, generator), n_steps=n_steps)
    assert taken is not None

    def step(number: int) -> None:
        rows = np.arange(number % 10 * BATCH, (number % 10 + 1) * BATCH)
        with threads_for(BATCH * SIZE * DIM * n_negatives):
            taken.loss(collate(groups, rows), generator)
            taken.descend()

    return step


def alternate(
    steps: dict[str, Callable[[int], None]], clock: Callable[[], float]
) -> dict[str, float]:
    """Return the median milliseconds of each step, one of each after the other.

    Each finds the caches as the other left them, which favours neither.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(WARM_UP + STEPS):
        for name, step in steps.items():
            started = clock()
            step(number)
            if number >= WARM_UP:
                times[name].append(1000 * (clock() - started))
    return {name: round(statistics.median(values), 2) for name, values in times.items()}


def compare(groups: Groups, n_threads: int) -> dict[str, dict[str, float]]:
    """Return the times and their ratio for each target of the project."""
    comparisons = {}
    for selection, n_negatives, wanted in TARGETS:
        steps = {
            "authors_arrangement_ms": plain_step(groups, selection),
            "ours_ms": our_step(groups, selection, n_negatives),
        }
        if training_kernels(MIN_STEPS) is not None:
            steps["compiled_ms"] = our_step(groups, selection, n_negatives, n_steps=MIN_STEPS)
        if selection == "max" and n_negatives == N_NEGATIVES:
            steps["authors_loop_ms"] = public_step(groups)
        medians = alternate(steps, time.process_time if n_threads == 1 else time.perf_counter)
        ratios = {
            f"{theirs}_ratio{'' if ours == 'ours_ms' else '_compiled'}": round(
                medians[f"{theirs}_ms"] / medians[ours], 1
            )
            for theirs in ("authors_arrangement", "authors_loop")
            for ours in ("ours_ms", "compiled_ms")
            if f"{theirs}_ms" in medians and ours in medians
        }
        name = f"{selection}, ours with {n_negatives} negatives"
        comparisons[name] = {**medians, **ratios, "wanted": wanted[n_threads > 1]}
        print(f"{name:<36}", comparisons[name])
    return comparisons


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", help="By default one and all.")
    arguments = parser.parse_args()
    configure_threads()
    torch.manual_seed(0)
    groups = batches()
    comparisons = {}
    for n_threads in arguments.threads or sorted({1, torch.get_num_threads()}):
        torch.set_num_threads(n_threads)
        print("threads:", n_threads)
        comparisons[f"threads {n_threads}"] = compare(groups, n_threads)
    configuration = {
        "dim": DIM,
        "batch": BATCH,
        "objects": SIZE,
        "items": N_ITEMS,
        "negatives_of_the_authors_arrangement": N_NEGATIVES,
        "steps_counted": STEPS,
    }
    load = round(os.getloadavg()[0], 1)
    result = {"configuration": configuration, "comparisons": comparisons, "load": load}
    write_result("step_time", result)


if __name__ == "__main__":
    main()
