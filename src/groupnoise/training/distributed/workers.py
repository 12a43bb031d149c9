"""The workers of a training: started by torchrun or Ray, their process group, and what they do."""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ProcessFailure,
    get_error_handler,
)
from torch.distributed.rendezvous import rendezvous
from torch.distributed.run import parse_args, run

from groupnoise.core.arrays import IntArray
from groupnoise.core.checks import require
from groupnoise.core.model import MatchingModel
from groupnoise.core.threads import available_cores, n_restarts
from groupnoise.exceptions import GroupNoiseError, TrainingError
from groupnoise.training.distributed.sharded import ShardedItemModel
from groupnoise.training.workers import Workers

PACKAGE = "groupnoise"
"""The module that every worker runs."""
REFUSED = 2
"""Exit code after an error that is explained in one sentence."""

ERROR_FILE = "TORCHELASTIC_ERROR_FILE"
"""Names the file that a worker leaves the reason of its failure in."""

TIMEOUT = timedelta(minutes=30)
"""How long a worker waits for the others: the first one validates and saves alone."""


@contextmanager
def process_group() -> Iterator[None]:
    """Join the group of processes that torchrun (or Ray) described in the environment.

    Yields
    ------
    None

    Raises
    ------
    TrainingError
        If the other workers cannot be reached, or one of them is lost later.
    """
    try:
        store, rank, count = next(iter(rendezvous("env://", timeout=TIMEOUT)))
        # Where attempts share the store of an agent, keys that a killed attempt left there must not
        # be met. A store of their own has none, and a machine that came back counts from nought.
        is_shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        attempt = n_restarts() if is_shared else 0
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


def launch(arguments: Sequence[str], *, workers: int, max_restarts: int) -> None:
    """Run `groupnoise arguments` as several workers on this machine and wait for them.

    Each gets its part of the cores. `max_restarts`: how often all are started anew after one was
    lost. Raises SystemExit if this process was told to end by a signal, after the workers did.
    """
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, available_cores() // workers)))
    # The agent lists exit codes and advice for developers; one sentence of ours says it better.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    options = ["--standalone", f"--nproc-per-node={workers}", f"--max-restarts={max_restarts}"]
    try:
        run(parse_args([*options, "-m", PACKAGE, *arguments]))
    except SignalException as stopped:
        sys.exit(128 + stopped.sigval)
    except ChildFailedError as error:
        rank, failure = min(error.failures.items(), key=lambda each: _failure_order(each[1]))
        raise TrainingError(_sentence(rank, workers, failure)) from None


def record_failure(error: Exception) -> None:
    """Leave the sentence of an error where torchrun looks for the reason of a failure."""
    get_error_handler().record_exception(error)


def _failure_order(failure: ProcessFailure) -> int:
    """Order failures from cause to consequence.

    Whoever loses a killed worker fails too, and the agent ends with SIGTERM who is left.
    """
    if failure.exitcode == -signal.SIGTERM:
        return 2
    return 0 if failure.exitcode < 0 else 1


def _sentence(rank: int, workers: int, failure: ProcessFailure) -> str:
    if failure.exitcode < 0:
        name = signal.Signals(-failure.exitcode).name
        return (
            f"worker {rank} of {workers} was killed by {name}, and no restart is left; fit with "
            "--checkpoint and --max-restarts to resume by itself after a loss."
        )
    message: Any = failure.message  # declared as text, but structured where an error was recorded
    if failure.exitcode == REFUSED and isinstance(message, dict):
        _, _, sentence = message["message"].partition(": ")
        return str(sentence)
    return f"worker {rank} of {workers} ended with exit code {failure.exitcode}."


def launch_on_ray(arguments: Sequence[str], *, workers: int) -> None:
    """Run `groupnoise arguments` as workers of a Ray cluster, a core each, and wait for them.

    The cluster is the one that `RAY_ADDRESS` names, or one started for the purpose on this machine.
    Data, checkpoints and the model must lie where every machine reaches them.
    """
    ray = require("ray", extra="ray")
    ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=True, configure_logging=False)
    try:
        worker = ray.remote(num_cpus=1)(_Worker)
        team = [worker.remote() for _ in range(workers)]
        host, port = ray.get(team[0].address.remote())
        meeting = {"MASTER_ADDR": host, "MASTER_PORT": str(port), "WORLD_SIZE": str(workers)}
        running = [
            each.run.remote({**meeting, "RANK": str(rank)}, list(arguments))
            for rank, each in enumerate(team)
        ]
        while running:
            done, running = ray.wait(running)
            # The first failure ends the training: the others would only wait for who is gone.
            for failure in filter(None, ray.get(done)):
                raise TrainingError(failure)
    except ray.exceptions.RayError as error:
        raise TrainingError(f"Ray lost a worker ({type(error).__name__}).") from None
    finally:
        ray.shutdown()


class _Worker:
    """One worker of the cluster."""

    def address(self) -> tuple[str, int]:
        """Return where the other workers can meet this one."""
        with socket.socket() as free:
            free.bind(("", 0))
            return socket.gethostbyname(socket.gethostname()), free.getsockname()[1]

    def run(self, environment: dict[str, str], arguments: list[str]) -> str | None:
        """Run the command in a process of its own; return why it failed, if it did."""
        with tempfile.TemporaryDirectory() as folder:
            reason = Path(folder) / "error.json"
            process = subprocess.run(
                [sys.executable, "-m", PACKAGE, *arguments],
                env={**os.environ, **environment, ERROR_FILE: str(reason), "OMP_NUM_THREADS": "1"},
            )
            if process.returncode == 0:
                return None
            if reason.is_file():
                recorded = json.loads(reason.read_text(encoding="utf-8"))
                return str(recorded["message"]["message"].partition(": ")[2])
            return f"worker {environment['RANK']} ended with exit code {process.returncode}."


def logsumexp_over_workers(log_normalizers: Tensor, *, counts: bool = True) -> Tensor:
    """Return the log-sum-exp over workers of each entry, the same on every worker.

    Its gradient is that of the sum of all workers' losses. `counts`: whether this worker's objects
    count; one that was lent a row calls without adding to it.
    """
    return _LogSumExp.apply(log_normalizers, counts)  # type: ignore[no-untyped-call]


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_normalizers: Tensor, counts: bool) -> Tensor:
        if not counts:
            log_normalizers = torch.full_like(log_normalizers, -torch.inf)
        largest = log_normalizers.clone()
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        total = (log_normalizers - largest).exp()
        dist.all_reduce(total)
        result = total.log_().add_(largest)
        ctx.save_for_backward(log_normalizers, result)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        log_normalizers, result = ctx.saved_tensors
        everyones = upstream.clone()
        dist.all_reduce(everyones)
        return everyones * (log_normalizers - result).exp(), None


class TorchWorkers(Workers):
    """The processes of the default group; make it inside :func:`process_group`.

    Gradients of parameters that every worker holds are summed in one all-reduce per kind of
    number after the backward pass. `DistributedDataParallel` would average over workers, which is
    the mean over groups only while all parts are equally large, and hides the sum in hooks that
    know nothing of sparse shards; the parts of the loss here add up to the exact mean.
    """

    def __init__(self) -> None:
        self._has_part = True

    @property
    def rank(self) -> int:
        """Which of the workers this one is."""
        return dist.get_rank()

    @property
    def count(self) -> int:
        """How many workers there are."""
        return dist.get_world_size()

    def rows(self, batch_rows: IntArray) -> IntArray:
        """Return every count-th row of the batch.

        Neighbours in a batch are alike in size, so the parts cost about the same. A batch too
        short to give everyone a row lends its first one out: all must take part in the lookups.

        Parameters
        ----------
        batch_rows : int64 ndarray of shape (groups,)
            The rows of the whole batch.

        Returns
        -------
        int64 ndarray
            This worker's rows; never none.
        """
        own = batch_rows[self.rank :: self.count]
        self._has_part = len(own) > 0
        return own if self._has_part else batch_rows[:1]

    def loss(self, per_group: Tensor, batch_rows: IntArray) -> Tensor:
        """Return this worker's part of the mean over the whole batch; 0 for a lent row.

        Parameters
        ----------
        per_group : Tensor of shape (own groups,)
            The losses of the groups that :meth:`rows` returned.
        batch_rows : int64 ndarray of shape (groups,)
            The rows of the whole batch.

        Returns
        -------
        Tensor of shape ()
            Adds up to the mean over all workers.
        """
        return per_group.sum() * (self._has_part / len(batch_rows))

    def sum(self, *values: float) -> tuple[float, ...]:
        """Return each value summed over all workers, the same on every one.

        Parameters
        ----------
        *values : float
            One number per quantity.

        Returns
        -------
        tuple of float
            The sums.
        """
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return tuple(total.tolist())

    def logsumexp(self, log_normalizers: Tensor) -> Tensor:
        """Return the log-sum-exp over workers of each entry, with its gradient.

        Parameters
        ----------
        log_normalizers : Tensor of any shape
            The log-sum-exps over this worker's objects.

        Returns
        -------
        Tensor of the same shape
            The log-sum-exps over the objects of all workers.
        """
        return logsumexp_over_workers(log_normalizers, counts=self._has_part)

    def sync(self, model: MatchingModel) -> None:
        """Sum the gradients of parameters that every worker holds; shards have theirs already.

        Parameters
        ----------
        model : MatchingModel
            The model under training, its gradients computed.
        """
        if isinstance(model, ShardedItemModel):
            return
        parameters = [each for each in model.parameters() if each.grad is not None]
        sparse = [each for each in parameters if each.grad.is_sparse]  # type: ignore[union-attr]
        for parameter in sparse:
            dist.all_reduce(parameter.grad)
        dense = [each for each in parameters if not each.grad.is_sparse]  # type: ignore[union-attr]
        for _, alike in groupby(sorted(dense, key=_dtype_name), key=_dtype_name):
            _sum_gradients(list(alike))

    def wait(self) -> None:
        """Return once every worker has come here."""
        dist.barrier()

    def item_model(self, n_items: int, dim: int, **options: Any) -> MatchingModel:
        """Return a model of items whose tables are split by rows among the workers.

        Parameters
        ----------
        n_items : int
            Size of the catalogue.
        dim : int
            Number of dimensions of the vectors.
        **options : Any
            As in :func:`groupnoise.core.model.item_model`.

        Returns
        -------
        MatchingModel
            This worker's part of it.
        """
        return ShardedItemModel(n_items, dim, **options)

    def gather(self, model: MatchingModel) -> MatchingModel:
        """Return the model that answers alone: gathered on the first worker, as it is elsewhere.

        Parameters
        ----------
        model : MatchingModel
            What was trained.

        Returns
        -------
        MatchingModel
            With all rows on the first worker.
        """
        if not isinstance(model, ShardedItemModel):
            return model
        return model.gather() or model


def _dtype_name(parameter: nn.Parameter) -> str:
    return str(parameter.dtype)


def _sum_gradients(parameters: list[nn.Parameter]) -> None:
    gradients = [each.grad for each in parameters if each.grad is not None]
    together = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(together)
    sizes = [gradient.numel() for gradient in gradients]
    for gradient, total in zip(gradients, together.split(sizes), strict=True):
        gradient.copy_(total.view_as(gradient))
