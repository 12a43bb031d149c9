"""`groupnoise fit`: data in, a model folder out; checkpoints, and several workers."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.core.arrays import ProgressCallback
from groupnoise.exceptions import ParameterError, TrainingStopped
from groupnoise.training.distributed.environment import is_first, is_worker, n_restarts

if TYPE_CHECKING:
    from groupnoise.io.named import Dataset
    from groupnoise.training.checkpoints import Checkpoints
    from groupnoise.training.workers import Workers

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def read_checkpoints(folder: Path | None, every: str, resume: bool) -> Checkpoints | None:
    """Return what the options --checkpoint, --checkpoint-every and --resume ask for."""
    from groupnoise.training.checkpoints import Checkpoints

    if folder is None:
        if resume:
            raise ParameterError("--resume needs --checkpoint, the folder to go on from.")
        return None
    number = re.fullmatch(r"(\d+(?:\.\d+)?) *(s|m|h|steps?)", every)
    if number is None or (number[2].startswith("step") and "." in number[1]):
        raise ParameterError(f"--checkpoint-every takes 30s, 5m, 1h or 200steps; got {every!r}.")
    by_steps = number[2].startswith("step")
    return Checkpoints(
        folder,
        every_seconds=None if by_steps else float(number[1]) * SECONDS[number[2]],
        every_steps=int(number[1]) if by_steps else None,
        resume=resume or n_restarts() > 0,
        report=partial(typer.echo, err=True),
    )


@contextmanager
def stopping(checkpoints: Checkpoints | None) -> Iterator[None]:
    """Inside the block signals save the training; the command to go on with is then shown."""
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
            typer.echo(f"{stopped.where}; go on with: {_command_to_resume()}", err=True)
        raise typer.Exit(128 + number) from None


def _command_to_resume() -> str:
    words = ["groupnoise", *sys.argv[1:]]
    return shlex.join(words if "--resume" in words else [*words, "--resume"])


LAUNCHERS = ("torchrun", "ray")


def start_workers(count: int, max_restarts: int, launcher: str, *, saves: bool) -> None:
    """Run this command as several workers and exit, unless it is one of them or trains alone.

    Parameters
    ----------
    count : int
        How many workers --workers asks for.
    max_restarts : int
        How often they may be started anew.
    launcher : {"torchrun", "ray"}
        What starts them.
    saves : bool
        Whether the training saves itself, so that there is something to go on from.
    """
    from groupnoise.core.checks import check_choice, check_count

    check_count("--workers", count)
    check_choice("--launcher", launcher, LAUNCHERS)
    if max_restarts and not saves:
        raise ParameterError("--max-restarts needs --checkpoint, the folder to go on from.")
    if max_restarts and launcher == "ray":
        raise ParameterError("--max-restarts goes with torchrun; run Ray's job again to go on.")
    if is_worker() or (count == 1 and not max_restarts):
        return
    from groupnoise.training.distributed.launcher import launch, launch_on_ray

    if launcher == "ray":
        launch_on_ray("groupnoise", sys.argv[1:], workers=count)
    else:
        launch("groupnoise", sys.argv[1:], workers=count, max_restarts=max_restarts)
    raise typer.Exit


@contextmanager
def join_workers() -> Iterator[Workers]:
    """Inside the block this process trains with the others that torchrun started, if any."""
    from groupnoise.training.workers import OneWorker

    if not is_worker():
        yield OneWorker()
        return
    from groupnoise.training.distributed.launcher import process_group
    from groupnoise.training.distributed.workers import TorchWorkers

    with process_group():
        if n_restarts() and is_first():
            typer.echo(f"a worker was lost; start {n_restarts() + 1} of all workers", err=True)
        yield TorchWorkers()


NOT_BY_PARAM = {
    "random_state": "--seed decides all randomness",
    "on_epoch": "it is a function, for use from Python",
}
"""Parameters of estimators that no word sets, and why."""


def fit(
    data: Annotated[
        str,
        typer.Argument(
            help="A name from `groupnoise data list`, a folder that `groupnoise data convert` "
            "wrote, or a file with --setting."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model folder to write.")],
    method: Annotated[str, typer.Option(help="See `groupnoise methods`.")] = "max-matching",
    setting: Annotated[
        str | None, typer.Option(help="Read a file as mil, pll or rs; columns are guessed.")
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", help="A parameter, as name=value; repeat for more."),
    ] = None,
    paper: Annotated[
        bool, typer.Option("--paper", help="Start from the paper's settings (max-matching).")
    ] = False,
    validation: Annotated[
        float, typer.Option(help="Share of the groups held out to choose the best epoch.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Decides all randomness.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Searched first for named data sets.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Save the training here while it runs; Ctrl-C and SIGTERM save too."),
    ] = None,
    checkpoint_every: Annotated[
        str, typer.Option(help="How often: 30s, 5m, 1h or 200steps.")
    ] = "5m",
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from --checkpoint, if anything is saved there.")
    ] = False,
    out_of_core: Annotated[
        Path | None,
        typer.Option(help="rs: keep the windows in this folder, not in memory; made if needed."),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="Processes on this machine that share the training.")
    ] = 1,
    max_restarts: Annotated[
        int, typer.Option(help="Start the workers anew this often after one is lost.")
    ] = 0,
    launcher: Annotated[
        str, typer.Option(help="What starts the workers: torchrun, or ray on a Ray cluster.")
    ] = "torchrun",
) -> None:
    """Train a method on data and save the model.

    Example: groupnoise fit digit-candidates -o runs/digits -p max_epochs=20
    """
    from groupnoise.cli.holdout import hold_out
    from groupnoise.cli.out_of_core import cut_on_disk, explaining_lack_of_memory, open_log
    from groupnoise.cli.sources import find_data, setting_of
    from groupnoise.core.checks import check_fraction
    from groupnoise.io.files import check_not_own_input, check_writable_folder
    from groupnoise.training.distributed.environment import is_worker
    from groupnoise.training.saver import training_alone

    check_fraction("--validation", validation)
    check_not_own_input(output, data)
    if not is_worker():  # workers would remove each other's trial files
        check_writable_folder(output)
    start_workers(workers, max_restarts, launcher, saves=checkpoint is not None)
    checkpoints = read_checkpoints(checkpoint, checkpoint_every, resume)
    if out_of_core is not None and method != "max-matching":
        raise ParameterError(f"--out-of-core goes with max-matching; {method} trains in memory.")
    make_estimator = partial(_make_estimator, method, param or [], paper, seed)
    with explaining_lack_of_memory(data, out_of_core):
        if out_of_core is None:
            dataset, _ = find_data(data, setting, data_dir)
            estimator = make_estimator(setting_of(dataset))
            training, validate = hold_out(dataset, validation, seed)
        else:
            estimator = make_estimator("rs")  # a misspelt parameter is refused before long work
            clicks = open_log(data, setting, data_dir, out_of_core, quiet)
            dataset = clicks
            training, validate = cut_on_disk(
                clicks, estimator, out_of_core, validation, seed, quiet
            )
        # Held until the checkpoints are gone, or another training would find them finished.
        with stopping(checkpoints), join_workers() as team, training_alone(checkpoints, team):
            with _progress(quiet or team.rank > 0) as show:
                _train(estimator, training, validate, show, checkpoints, team)
            if team.rank > 0:
                return
            estimator.save(output)
            if checkpoints is not None:
                checkpoints.clear()
    typer.echo(f"{method} on {dataset.name}: saved to {output}{_best(estimator)}")


def _make_estimator(method: str, pairs: list[str], paper: bool, seed: int, setting: str) -> Any:
    """Return the estimator of a method with the parameters given as `name=value` words."""
    from groupnoise.reproduce.methods import find_method, import_class, parameters_of

    entry = find_method(method, setting)
    estimator_class = import_class(entry)
    settings = read_parameters(pairs, parameters_of(entry))
    if "random_state" in parameters_of(entry):
        settings["random_state"] = seed
    if paper and not hasattr(estimator_class, "paper"):
        raise ParameterError(f"--paper goes with max-matching; {method} has no such preset.")
    return (estimator_class.paper if paper else estimator_class)(**settings)


def read_parameters(pairs: list[str], known: dict[str, Any]) -> dict[str, Any]:
    """Turn `name=value` words into parameters, refusing names the method does not have."""
    from difflib import get_close_matches

    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise ParameterError(f"--param takes name=value; got {pair!r}.")
        if name in NOT_BY_PARAM:
            raise ParameterError(f"--param {name!r} cannot be given here: {NOT_BY_PARAM[name]}.")
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}."
            raise ParameterError(f"--param {name!r} is no parameter of this method{hint}")
        try:
            settings[name] = json.loads(text)
        except json.JSONDecodeError:
            settings[name] = text  # plain words need no quotes
    return settings


def _train(
    estimator: Any,
    dataset: Dataset,
    validate: Any,
    show: ProgressCallback,
    checkpoints: Checkpoints | None,
    team: Workers,
) -> None:
    from groupnoise.cli.holdout import training_arguments
    from groupnoise.core.feature_names import name_columns

    positional, named = training_arguments(dataset)
    accepted = inspect.signature(estimator.fit).parameters
    if "validate" in accepted and validate is not None:
        named["validate"] = validate
    if checkpoints is not None:
        if "checkpoint" not in accepted:
            raise ParameterError("--checkpoint goes with max-matching; baselines train in one go.")
        named["checkpoint"] = checkpoints
    if team.count > 1:
        if "workers" not in accepted:
            raise ParameterError(
                "--workers goes with max-matching; baselines train in one process."
            )
        named["workers"] = team
    if "on_epoch" in accepted:
        named["on_epoch"] = show
    elif "on_epoch" in estimator.get_params():
        estimator.set_params(on_epoch=show)
    estimator.fit(*positional, **{k: v for k, v in named.items() if k in accepted})
    names = getattr(dataset, "feature_names", None)
    if names is not None:
        name_columns(estimator, names)


@contextmanager
def _progress(quiet: bool) -> Iterator[ProgressCallback]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("training"),
        BarColumn(),
        TextColumn("epoch {task.completed}/{task.total}"),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(record: dict[str, Any]) -> None:
            words = f"loss {record['loss']:.4f}" if "loss" in record else ""
            if record.get("validation") is not None:
                words += f", validation {record['validation']:.4f}"
            bar.update(
                task,
                completed=record["epoch"],
                total=record.get("n_epochs"),
                description=words,
            )

        yield show


def _best(estimator: Any) -> str:
    history = getattr(estimator, "history_", None)
    epoch = getattr(history, "best_epoch", None)
    if epoch is None or history is None:
        return ""
    value = history.records[epoch - 1]["validation"]
    return f" (best epoch {epoch} of {len(history)}, validation {value:.4f})"
