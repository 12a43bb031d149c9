"""What a training costs on paper: memory per worker, seconds per step, hours, machines.

Counted is what grows: products and exponentials of the softmax, rows moved through memory, rows
moved between workers. `docs/distributed.md` sets the estimate beside measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from groupnoise.core.checks import check_count

FLOAT = 4
MOMENTS = 2
PASSES = 3
"""Matrix products of a step: logits, gradient of the objects, gradient of the candidates."""
MESSAGES = 5
"""Collective calls of a step: counts, ids, rows, gradients, and the sum of the loss."""


@dataclass(frozen=True, kw_only=True)
class TrainingSize:
    """How much there is to learn, and from how much.

    Parameters
    ----------
    n_groups : int
        Groups seen in an epoch: about one for every click.
    n_items : int
        Size of the catalogue.
    dim : int
        Width of the vectors.
    size : int, default=5
        Objects of a group.
    n_epochs : int, default=6
        Passes over the groups.
    batch_size : int, default=8192
        Groups of a step, over all workers.
    n_negatives : int, default=1024
        Candidates drawn for a step.
    shared : bool, default=True
        Whether objects and targets share one table.
    """

    n_groups: int
    n_items: int
    dim: int
    size: int = 5
    n_epochs: int = 6
    batch_size: int = 8192
    n_negatives: int = 1024
    shared: bool = True


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a machine can do; the rates of one worker are measured by `benchmarks/speed/workers.py`.

    Parameters
    ----------
    memory : float
        Bytes that workers may use.
    workers : int
        Processes that run side by side, each on its own cores.
    flops : float
        Single-precision operations per second of one worker, in matrix products.
    entries : float
        Softmax entries per second that one worker exponentiates and differentiates.
    row_bytes : float
        Bytes of looked-up rows per second that one worker reads, differentiates and updates.
    network : float
        Bytes per second that a worker sends and receives.
    latency : float
        Seconds of one small collective call.
    base_memory : float, default=500000000.0
        Bytes of a worker before it holds any data.
    base_seconds : float, default=0.0
        Seconds of a worker besides its steps: to start, to find its data and to save.
    """

    memory: float
    workers: int
    flops: float
    entries: float
    row_bytes: float
    network: float
    latency: float
    base_memory: float = 5e8
    base_seconds: float = 0.0


@dataclass(frozen=True)
class Cost:
    """An estimate.

    `workers`: how many were assumed.
    `machines`: how many machines they need, by cores and by memory.
    `bytes_per_worker`: tables, moments, ids and the process itself; groups are mapped from disk.
    `bytes_to_save`: what the first worker holds besides, while it writes the model.
    `seconds_per_step`: computing and exchanging one batch.
    `hours`: the whole training.
    """

    workers: int
    machines: int
    bytes_per_worker: float
    bytes_to_save: float
    seconds_per_step: float
    hours: float


def table_bytes(size: TrainingSize, workers: int) -> int:
    """Return the bytes of one worker's rows: vectors, biases, their moments and decay marks."""
    rows = math.ceil(size.n_items / workers)
    n_tables = 1 if size.shared else 2
    numbers = (n_tables * size.dim + 1) * (1 + MOMENTS) * FLOAT
    return rows * (numbers + 8 * (n_tables + 1))


def _n_distinct(n_draws: float, n_items: int) -> float:
    """Return how many items some clicks fall on, were all clicked alike; no more ever do."""
    return -n_items * math.expm1(-n_draws / n_items)


def estimate_cost(size: TrainingSize, machine: Machine, *, workers: int) -> Cost:
    """Return what a training with sampled candidates costs.

    Examples
    --------
    >>> size = TrainingSize(n_groups=10**9, n_items=10**8, dim=64)
    >>> machine = Machine(
    ...     memory=256e9,
    ...     workers=16,
    ...     flops=1e11,
    ...     entries=3e8,
    ...     row_bytes=2e8,
    ...     network=1e9,
    ...     latency=1e-4,
    ... )
    >>> cost = estimate_cost(size, machine, workers=64)
    >>> cost.machines, round(cost.bytes_per_worker / 1e9, 1)
    (4, 3.3)
    """
    check_count("workers", workers)
    groups = size.batch_size / workers
    looked_up = groups * (size.size + 1) + size.n_negatives
    row = (size.dim + 1) * FLOAT
    entries = _n_distinct(groups * size.size, size.n_items) * size.n_negatives
    computing = (
        2 * PASSES * entries * size.dim / machine.flops
        + entries / machine.entries
        + looked_up * row / machine.row_bytes
    )
    exchanging = 0.0
    if workers > 1:
        elsewhere = looked_up * row * (1 - 1 / workers)
        exchanging = MESSAGES * machine.latency + 2 * elsewhere / machine.network
    steps = size.n_epochs * math.ceil(size.n_groups / size.batch_size)
    catalogue = 16 * size.n_items  # ids and popularity, which every worker knows
    held = machine.base_memory + table_bytes(size, workers) + catalogue
    by_memory = math.ceil(workers * held / machine.memory)
    return Cost(
        workers=workers,
        machines=max(math.ceil(workers / machine.workers), by_memory),
        bytes_per_worker=held,
        bytes_to_save=size.n_items * (size.dim * (1 if size.shared else 2) + 1) * FLOAT,
        seconds_per_step=computing + exchanging,
        hours=(machine.base_seconds + steps * (computing + exchanging)) / 3600,
    )
