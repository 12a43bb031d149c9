"""The process group: how the workers of one training find each other, and how they part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from groupnoise.exceptions import GroupNoiseError, TrainingError

TIMEOUT = timedelta(minutes=30)
"""How long a worker waits for the others: the first one validates and saves alone."""


@contextmanager
def process_group() -> Iterator[None]:
    """Join the group of processes that torchrun (or Ray) described in the environment.

    Raises
    ------
    TrainingError
        If the other workers cannot be reached, or one of them is lost later.
    """
    try:
        store, rank, count = next(iter(rendezvous("env://", timeout=TIMEOUT)))
        # Elastic attempts share one store; keys that a killed attempt left there must not be met.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        own_store = dist.PrefixStore(f"attempt-{attempt}", store)  # type: ignore[attr-defined]
        dist.init_process_group(
            "gloo", store=own_store, rank=rank, world_size=count, timeout=TIMEOUT
        )
    except (dist.DistError, ValueError, OSError) as error:
        raise TrainingError(
            f"this worker cannot reach the others ({error}); check the rendezvous address and "
            "that the machines may connect to each other."
        ) from None
    try:
        yield
        # Whoever serves the store must not leave while others still read from it.
        dist.barrier()
    except RuntimeError as error:
        if isinstance(error, GroupNoiseError) or "gloo" not in str(error):
            raise
        raise TrainingError(
            "the connection to another worker was lost; it failed or was killed."
        ) from None
    finally:
        dist.destroy_process_group()
