"""Options of `fit`: `--checkpoint`, `--workers` and `--out-of-core`, and its progress."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.data import conversion_progress
from groupnoise.cli.options import DataOptions, echo_err, progress_bars
from groupnoise.cli.sources import LoadedData, check_columns, load_data
from groupnoise.core.threads import is_first, is_worker, n_restarts
from groupnoise.exceptions import DataError, ParameterError, TrainingStopped

if TYPE_CHECKING:
    from groupnoise.core.arrays import IntArray, ProgressCallback
    from groupnoise.io.datasets import ClickDataset
    from groupnoise.training.checkpoints import Checkpoints
    from groupnoise.training.workers import Workers

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
LAUNCHERS = ("torchrun", "ray")
MIN_GROUPS_EACH = 1024
"""Groups per step and worker below which communication costs more than it saves."""
MIN_STEPS = 100
"""Steps per epoch that larger batches must leave."""
SHUFFLE_POOL = 1_000_000
"""Windows shuffled at a time by default; 40 MB of memory."""
WORTH_A_SENTENCE = 60.0
"""Seconds of a training from which its duration is announced."""


def read_checkpoints(
    folder: Path | None, every: str, resume: bool, quiet: bool = False
) -> Checkpoints | None:
    """Return the checkpoints of --checkpoint, --checkpoint-every, --resume and --quiet."""
    from groupnoise.training.checkpoints import Checkpoints

    if folder is None:
        if resume:
            raise ParameterError("--resume needs --checkpoint, the folder to resume from.")
        return None
    number = re.fullmatch(r"(\d+(?:\.\d+)?) *(s|m|h|steps?)", every)
    if number is None or (number[2].startswith("step") and "." in number[1]):
        raise ParameterError(f"--checkpoint-every takes 30s, 5m, 1h or 200steps; got {every!r}.")
    by_steps = number[2].startswith("step")
    if resume and not quiet and is_first() and not (folder.is_dir() and any(folder.iterdir())):
        echo_err(f"nothing is saved in {folder}, so the training begins")
    checkpoints = Checkpoints(
        folder,
        every_seconds=None if by_steps else float(number[1]) * SECONDS[number[2]],
        every_steps=int(number[1]) if by_steps else None,
        resume=resume or n_restarts() > 0,
        report=echo_err,
    )
    checkpoints.announces_resume = not quiet
    return checkpoints


@contextmanager
def save_on_signals(checkpoints: Checkpoints | None) -> Iterator[None]:
    """Inside the block signals save the training; the command to resume is then printed."""
    from groupnoise.training.checkpoints import stop_on_signals

    if checkpoints is None:
        yield
        return
    try:
        with stop_on_signals(checkpoints):
            yield
    except TrainingStopped as stopped:
        number = stopped.signal_number or signal.SIGINT
        if is_first():
            words = ["groupnoise", *sys.argv[1:]]
            again = shlex.join(words if "--resume" in words else [*words, "--resume"])
            echo_err(f"{stopped.where}; resume with: {again}")
        raise typer.Exit(128 + number) from None


def start_workers(count: int, max_restarts: int, launcher: str, *, saves: bool) -> None:
    """Run this command as several workers and exit, unless it is a worker or trains alone."""
    from groupnoise.core.checks import check_choice, check_count

    check_count("--workers", count)
    check_choice("--launcher", launcher, LAUNCHERS)
    if max_restarts and not saves:
        raise ParameterError("--max-restarts needs --checkpoint, the folder to resume from.")
    if max_restarts and launcher == "ray":
        raise ParameterError("--max-restarts goes with torchrun; run Ray's job again to resume.")
    if is_worker() or (count == 1 and not max_restarts):
        return
    from groupnoise.training.distributed.workers import launch, launch_on_ray

    if launcher == "ray":
        launch_on_ray(sys.argv[1:], workers=count)
    else:
        launch(sys.argv[1:], workers=count, max_restarts=max_restarts)
    raise typer.Exit


@contextmanager
def join_workers() -> Iterator[Workers]:
    """Yield the workers that torchrun started, this process among them."""
    from groupnoise.training.workers import Workers

    if not is_worker():
        yield Workers()
        return
    from groupnoise.training.distributed.workers import TorchWorkers, process_group

    with process_group():
        if n_restarts() and is_first():
            echo_err(f"a worker was lost; start {n_restarts() + 1} of all workers")
        yield TorchWorkers()


def adjust_batch_size(estimator: Any, count: int, dataset: Any) -> str | None:
    """Raise the automatic batch size of a recommender so that several workers pay off.

    Returns a message about the batch size; None if it is large enough. `batch_size` of the
    unfitted `estimator` is set if it is "auto" and the log is long enough for `count` workers.
    """
    from groupnoise.clicks.windows.training import CLICK_VALUES, WindowTraining

    if count == 1 or not isinstance(estimator, WindowTraining):
        return None
    asked = estimator.get_params()["batch_size"]
    batch_size: int = CLICK_VALUES["batch_size"] if asked == "auto" else asked
    paying = count * MIN_GROUPS_EACH
    if batch_size >= paying:
        return None
    if asked == "auto" and dataset.histories.n_objects >= MIN_STEPS * paying:
        estimator.set_params(batch_size=paying)
        return (
            f"batch_size={paying}, for {count} workers would be slower than one process with the "
            f"usual {batch_size}; -p batch_size={batch_size} keeps that."
        )
    return (
        f"batch_size={batch_size} is little work for {count} workers, who will be slower than one "
        f"process; -p batch_size={paying} pays where memory or time is short."
    )


def open_log(data: str, options: DataOptions, folder: Path, quiet: bool) -> LoadedData:
    """Return click histories on disk; a log is converted inside `folder`."""
    from groupnoise.clicks.reading.oddities import bot_warnings
    from groupnoise.clicks.reading.streaming import clicks_on_disk
    from groupnoise.io.folders.data_folder import is_data_folder
    from groupnoise.io.setting import find_setting

    clicks = find_setting("rs")
    if options.setting == clicks.name and not is_data_folder(data):
        with conversion_progress(quiet or not is_first()) as show:
            dataset = clicks_on_disk(
                data,
                folder / "clicks",
                wait=not is_first(),
                report=echo_err,
                progress=show,
                **options.given,
            )
        if is_first():
            for sentence in bot_warnings(dataset):
                echo_err(sentence.replace("audit DATA", f"audit {data}"))
        return LoadedData(dataset, clicks, data, options=options.given, is_file=True)
    found = None
    if options.setting in (None, clicks.name):
        found = load_data(data, options)
    if found is None or found.setting is not clicks:
        raise ParameterError(
            f"--out-of-core goes with click logs (rs) and bags (mil) in files; {data} is neither."
        )
    return found


def open_bags(data: str, options: DataOptions, folder: Path) -> LoadedData:
    """Return bags on disk; files are copied once into `folder`."""
    from groupnoise.bags.streaming import bags_on_disk
    from groupnoise.io.setting import find_setting

    setting = find_setting("mil")
    check_columns(setting, options)
    guesses: list[str] = []
    dataset = bags_on_disk(
        data, folder / "bags", wait=not is_first(), report=guesses.append, **options.given
    )
    if guesses:
        echo_err("; ".join(guesses))
    return LoadedData(dataset, setting, data, options=options.given, is_file=True)


def holds_bags(data: str, options: DataOptions) -> bool:
    """Tell whether DATA is files of bags, or a converted folder of bags."""
    from groupnoise.io.datasets import BagDataset
    from groupnoise.io.folders.data_folder import is_data_folder, open_groups

    if is_data_folder(data):
        return isinstance(open_groups(data), BagDataset)
    return options.setting == "mil" and Path(data).exists()


def cut_windows_on_disk(
    dataset: ClickDataset, estimator: Any, folder: Path, held_out: IntArray, quiet: bool
) -> ClickDataset:
    """Return training windows on disk, cut inside `folder`, without held-out clicks.

    These are left out while cutting, as a copy of the log without them would be as large as it.
    """
    from groupnoise.clicks.windows.stored import windows_on_disk

    if estimator.shuffle_pool is None:
        estimator.set_params(shuffle_pool=SHUFFLE_POOL)
    with conversion_progress(quiet or not is_first()) as show:
        windows = windows_on_disk(
            dataset.histories,
            folder / "windows",
            size=estimator.group_size,
            min_size=estimator.min_window,
            held_out=held_out,
            wait=not is_first(),
            progress=show,
        )
    return replace(dataset, histories=windows.groups, is_stray=None, notes={}, timestamps=None)


@contextmanager
def convert_memory_errors(data: str, folder: Path | None) -> Iterator[None]:
    """Raise a failed allocation inside the block as DataError with a remedy."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # torch has no exception class for it.
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        remedy = (
            "click logs (rs) and bags (mil) are trained on from disk with --out-of-core DIR"
            if folder is None
            else "lower shuffle_pool, batch_size or dim with --param"
        )
        raise DataError(f"there is not enough memory to train on {data}; {remedy}.") from None


@contextmanager
def training_progress(quiet: bool) -> Iterator[ProgressCallback]:
    """Yield a callback for epochs, with one bar per trial and member."""
    columns = ("epoch {task.completed}/{task.total}", "{task.fields[words]}", "left")
    with progress_bars(*columns, quiet=quiet) as bar:
        task = bar.add_task("training", total=None, words="")

        def show(record: dict[str, Any]) -> None:
            words = f"loss {record['loss']:.4f}" if "loss" in record else ""
            if record.get("validation") is not None:
                words += f", validation {record['validation']:.4f}"
            phase = "training"
            if "trial" in record:
                phase = f"trying {record.get('option', record['trial'])}"
            elif "member" in record:
                phase = f"training member {record['member']}"
            if record.get("expected_seconds", 0.0) >= WORTH_A_SENTENCE and not quiet:
                minutes = record["expected_seconds"] / 60
                bar.console.print(
                    f"training {record['option']!r} on all of it takes about {minutes:.0f} min",
                    highlight=False,
                )
            if record["epoch"] <= bar.tasks[task].completed:
                bar.reset(task)  # the remaining time is per training
            done, of = record["epoch"], record.get("n_epochs")
            bar.update(task, description=phase, completed=done, total=of, words=words)

        yield show


@contextmanager
def forward_warnings(estimator: Any) -> Iterator[None]:
    """Forward warnings of a training, except those in its decisions, which are printed anyway."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    reissue_warnings(caught, getattr(getattr(estimator, "decisions_", None), "warnings", ()))


def reissue_warnings(caught: Sequence[warnings.WarningMessage], known: Sequence[str]) -> None:
    """Issue caught warnings again, except known ones."""
    for each in caught:
        if str(each.message) not in known:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def show_decisions(estimator: Any, quiet: bool) -> None:
    """Print the decisions of a training; only headline and warnings if `quiet`."""
    decisions = getattr(estimator, "decisions_", None)
    if decisions is None:
        return
    if quiet:
        if decisions.trials:
            typer.echo(decisions.headline())
        for sentence in decisions.warnings:
            echo_err(f"warning: {sentence}")
        return
    from rich.console import Console

    from groupnoise.decisions.record import render_decisions

    Console(highlight=False).print(render_decisions(decisions))
