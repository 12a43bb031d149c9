"""`groupnoise fit`: train a model and save it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.methods import AUTO_METHOD, check_method, choose_best_method, make_estimator
from groupnoise.cli.options import (
    DATA_HELP,
    DataOptions,
    Seed,
    argument,
    check_conflicts,
    describe_options,
    echo_err,
    option,
    panel,
    with_data_options,
)
from groupnoise.cli.sources import LoadedData, load_data, read_item_table, with_guessed_setting
from groupnoise.cli.training import (
    adjust_batch_size,
    convert_memory_errors,
    cut_windows_on_disk,
    forward_warnings,
    holds_bags,
    join_workers,
    open_bags,
    open_log,
    read_checkpoints,
    save_on_signals,
    show_decisions,
    start_workers,
    training_progress,
)
from groupnoise.cli.updates import item_summary, update_model
from groupnoise.core.threads import is_first, is_worker
from groupnoise.core.words import counted
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.io.folders.training_record import TrainingRecord
    from groupnoise.training.checkpoints import Checkpoints


@with_data_options
@describe_options(
    data=argument(DATA_HELP),
    output=option("Model folder to write.", "-o"),
    method="Method to train, see `groupnoise methods`; auto also tries baselines on held-out "
    "training groups and keeps whichever is ahead.",
    param=option("Parameter of the method, as name=value; repeatable.", "-p"),
    paper="Start from the paper's settings (max-matching).",
    validation=option(
        "Fraction of groups held out of training, for `evaluate`.",
        show_default="0.1; with --from 0",
    ),
    learn_truth="mil, pll: column of known true labels to learn from, empty where unknown; mil: or "
    "a file that `review` exported. (--truth is for evaluation and never learned from.)",
    protocol="rs: hold out by an evaluation protocol instead of --validation: "
    "leave_one_out, time:0.9, cold_users, ...",
    budget=option("Time limit for choosing settings: 90s, 2m, 1h.", show_default="auto"),
    quiet=option("No progress; the decision in one line.", "-q"),
    **panel(
        "Recommenders (rs): item features and updates",
        items="Table of item features; also lets items without clicks be recommended.",
        from_model=option("Update this model; DATA holds the new clicks.", "--from"),
        old="With --from: the log it was trained on before (recommended).",
        decay="With --from: factor for the counts of earlier clicks.",
        forget_items="With --from: file of item ids to drop, one per line.",
    ),
    **panel(
        "Long runs and data larger than memory",
        checkpoint="Save checkpoints here, also on Ctrl-C and SIGTERM.",
        checkpoint_every="How often to save: 30s, 5m, 1h or 200steps.",
        resume="Resume from --checkpoint, if anything is saved there.",
        out_of_core="Folder to keep bags (mil) or windows (rs) on disk in.",
        workers="Training processes on this machine.",
        max_restarts="Restarts of the workers after one is lost.",
        launcher="What starts the workers: torchrun, or ray on a Ray cluster.",
    ),
)
def fit(
    data: str,
    output: Path,
    options: DataOptions,
    method: str = "max-matching",
    param: list[str] | None = None,
    paper: bool = False,
    validation: float | None = None,
    learn_truth: str | None = None,
    protocol: str | None = None,
    budget: str | None = None,
    items: Path | None = None,
    from_model: Path | None = None,
    old: str | None = None,
    decay: float = 1.0,
    forget_items: Path | None = None,
    seed: Seed = 0,
    quiet: bool = False,
    checkpoint: Path | None = None,
    checkpoint_every: str = "5m",
    resume: bool = False,
    out_of_core: Path | None = None,
    workers: int = 1,
    max_restarts: int = 0,
    launcher: str = "torchrun",
) -> None:
    """Train a model, choosing settings on held-out groups, and save it.

    Example: groupnoise fit bags.csv -o model
    """
    from groupnoise.core.checks import check_fraction

    is_new, is_auto, is_shared = from_model is None, method == AUTO_METHOD, workers > 1
    if validation is None:
        validation = 0.1 if is_new else 0.0
    check_fraction("--validation", validation)
    check_fraction("--decay", decay)
    pairs = [*(param or []), *([f"budget={budget}"] if budget is not None else [])]
    if is_new and not is_auto:
        check_method(method, pairs, options.setting)  # before torch is loaded
    is_otherwise = param or paper or protocol or budget or checkpoint or out_of_core or is_shared
    check_conflicts(
        {
            "--from keeps the settings of the model, in one process; leave out --param, --paper, "
            "--protocol, --budget, --checkpoint, --out-of-core and --workers.": (
                not is_new and is_otherwise
            ),
            "--old, --decay and --forget-items go with --from, a fitted model.": (
                is_new and (old or forget_items or decay != 1.0)
            ),
            f"--out-of-core goes with max-matching; {method} trains in memory.": (
                out_of_core and method != "max-matching"
            ),
            "--protocol divides a log in memory; leave out --out-of-core.": (
                out_of_core and protocol
            ),
            "--learn-truth needs the data in memory; leave out --out-of-core.": (
                out_of_core and learn_truth
            ),
            "--method auto compares methods at their defaults, in one process; name a method to "
            "give --param, --paper or --workers.": is_auto and (param or paper or is_shared),
        }
    )
    is_replaced = _check_model_folder(output, data)
    if from_model is not None:
        update_model(
            data, output, options, model=from_model, old=old, items=items, decay=decay,
            forget_items=forget_items, validation=validation, seed=seed,
        )  # fmt: skip
        return
    start_workers(workers, max_restarts, launcher, saves=checkpoint is not None)
    checkpoints = read_checkpoints(checkpoint, checkpoint_every, resume, quiet)
    request = _Request(
        data, options, method, pairs, paper, validation, learn_truth, protocol, budget, items,
        seed, quiet, out_of_core,
    )  # fmt: skip
    with convert_memory_errors(data, out_of_core):
        task = _prepare(request)
        record = _train(task, output, checkpoints)
    if record is not None:
        _report_saved(task, record, f"{output}{', in place of the model there' * is_replaced}")


def _check_model_folder(output: Path, data: str) -> bool:
    """Refuse an output that cannot be written; return whether a model there is replaced."""
    from groupnoise.io.files import (
        MODEL,
        check_not_own_input,
        check_replaceable,
        check_writable_folder,
    )

    check_not_own_input(output, data)
    is_replaced = check_replaceable(output, MODEL)
    if is_replaced and is_first():
        echo_err(
            f"{output} holds a model, which this one replaces when its training has ended; until "
            "then, and if it fails, the old one stays whole."
        )
    if not is_worker():  # workers would remove each other's probe files
        check_writable_folder(output)
    return is_replaced


@dataclass(frozen=True)
class _Request:
    """The parameters of `fit`; `pairs`: those of the method, as name=value."""

    data: str
    options: DataOptions
    method: str
    pairs: list[str]
    paper: bool
    validation: float
    learn_truth: str | None
    protocol: str | None
    budget: str | None
    items: Path | None
    seed: int
    quiet: bool
    out_of_core: Path | None


@dataclass(frozen=True)
class _Task:
    """An estimator and its training data."""

    request: _Request
    method: str
    estimator: Any
    found: LoadedData
    training: Any
    held_out: Any
    protocol: str | None


def _prepare(request: _Request) -> _Task:
    """Read the data, hold out groups, and make the estimator."""
    method, learn_truth, folder = request.method, request.learn_truth, request.out_of_core
    from_review = learn_truth is not None and Path(learn_truth).is_file()
    options = request.options
    if learn_truth is not None and not from_review:
        options = _with_truth(options, learn_truth)

    def fits_setting(setting: str) -> None:
        if method != AUTO_METHOD:
            check_method(method, request.pairs, setting)

    if folder is None:
        found = load_data(request.data, options, check=fits_setting)
    else:
        options = with_guessed_setting(request.data, options)
        if not holds_bags(request.data, options):
            return _log_on_disk(request, options, folder)
        found = open_bags(request.data, options, folder)
    held_out, training, protocol = _hold_out(found, request)
    if method == AUTO_METHOD:
        method, estimator = choose_best_method(
            found, training, request.budget, request.seed, request.quiet
        )
    else:
        estimator = make_estimator(method, request.pairs, request.paper, request.seed, found)
    if learn_truth is not None and from_review:
        training = _apply_review_answers(found, training, learn_truth)
    return _Task(request, method, estimator, found, training, held_out, protocol)


def _log_on_disk(request: _Request, options: DataOptions, folder: Path) -> _Task:
    """Cut a log into windows on disk."""
    found = open_log(request.data, options, folder, request.quiet)
    estimator = make_estimator(request.method, request.pairs, request.paper, request.seed, found)
    held_out = found.setting.hold_out(found.dataset, request.validation, request.seed)
    training = cut_windows_on_disk(found.dataset, estimator, folder, held_out, request.quiet)
    return _Task(request, request.method, estimator, found, training, held_out, request.protocol)


def _train(task: _Task, output: Path, checkpoints: Checkpoints | None) -> TrainingRecord | None:
    """Train and save the model; return its record, None in further workers."""
    from groupnoise.io.folders.training_record import (
        TrainingRecord,
        training_entry,
        write_training_record,
    )
    from groupnoise.training.saver import exclusive_training  # loads torch

    request, estimator, found = task.request, task.estimator, task.found
    setting = found.setting
    # Locked until the checkpoints are removed, or another training would find them finished.
    with (
        save_on_signals(checkpoints),
        join_workers() as team,
        exclusive_training(checkpoints, team),
    ):
        sentence = adjust_batch_size(estimator, team.count, found.dataset)
        if sentence is not None and team.rank == 0:
            echo_err(sentence)
        with (
            training_progress(request.quiet or team.rank > 0) as show,
            forward_warnings(estimator),
        ):
            setting.fit(
                estimator,
                task.training,
                on_epoch=show,
                item_features=_read_items(request.items, estimator, task.method, found),
                checkpoint=checkpoints,
                workers=team if team.count > 1 else None,
                truth=_true_labels(setting, task.training, request.learn_truth),
            )
        if team.rank > 0:
            return None
        estimator.save(output)
        record = TrainingRecord.of(
            setting, found.dataset, task.held_out, found.options, task.protocol or ""
        )
        contents = setting.summary(found.dataset)
        kept = _held_out_words(record, found)
        entry = training_entry("trained on", found.source, contents, kept)
        record = replace(record, trainings=[entry])
        write_training_record(output, record)
        if checkpoints is not None:
            checkpoints.clear()
    return record


def _report_saved(task: _Task, record: TrainingRecord, place: str) -> None:
    """Print the decisions, and what was trained on and held out."""
    show_decisions(task.estimator, task.request.quiet)
    for sentence in task.found.setting.advice(task.estimator):
        typer.echo(sentence, err=True)
    if task.request.items is not None:
        typer.echo(item_summary(task.request.items, task.estimator))
    use = " by `groupnoise evaluate`" if record.protocol else ", for `groupnoise evaluate`"
    after = f"{_held_out_words(record, task.found)}{use if record.held_out else ''}"
    typer.echo(f"{task.method} on {task.found.dataset.name}: saved to {place} ({after})")


def _with_truth(options: DataOptions, column: str) -> DataOptions:
    """Return options with the column of true labels to learn from."""
    if options.columns.get("truth", column) != column:
        raise ParameterError(
            "--learn-truth and --truth name two columns of right labels; name one: rows that are "
            "held out are evaluated by the column that the others learn from."
        )
    return replace(options, columns={**options.columns, "truth": column})


def _apply_review_answers(found: LoadedData, training: Any, path: str) -> Any:
    """Return training bags with the answers of a review."""
    from groupnoise.bags.reading.labels import apply_review_answers

    if found.setting.name != "mil":
        raise ParameterError(
            "--learn-truth takes a file that `review` exported about bags; of "
            f"{found.setting.units}, fit the export itself, with --learn-truth answer."
        )
    taught = apply_review_answers(training, path)
    n_silent = len(training.bags) - len(taught.bags)
    if n_silent and is_first():
        echo_err(
            f"left out {counted(n_silent, 'bags')} of which no object carries the label, by "
            "the answers"
        )
    return taught


def _true_labels(setting: Any, training: Any, column: str | None) -> list[str | None] | None:
    """Return the true labels to learn from, and print their number."""
    if column is None:
        return None
    known: list[str | None] | None = setting.known_labels(training)
    if known is None:
        raise ParameterError(
            f"--learn-truth is for labels of rows and instances, not {setting.units}."
        )
    n_known = sum(label is not None for label in known)
    if is_first():
        echo_err(f"learning from {counted(n_known, 'right labels')} of {column!r}")
    return known


def _hold_out(found: LoadedData, request: _Request) -> tuple[Any, Any, str | None]:
    """Return the held-out groups, the training data, and the protocol in its normal spelling."""
    import numpy as np

    if request.protocol is None:
        held_out = found.setting.hold_out(found.dataset, request.validation, request.seed)
        return held_out, found.setting.without(found.dataset, held_out), None
    split = found.setting.split_by_protocol(found.dataset, request.protocol)
    for note in split.notes:
        echo_err(note)
    return np.unique(split.test.users), split.train, split.protocol.word


def _read_items(items: Path | None, estimator: Any, method: str, found: LoadedData) -> Any:
    """Return the table of items; refuse it if the method does not use items."""
    if items is None:
        return None
    from sklearn.utils.validation import has_fit_parameter

    if not has_fit_parameter(estimator, "item_features"):
        raise ParameterError(f"--items goes with max-matching on clicks; {method} reads no items.")
    return read_item_table(items, found.dataset.item_ids, found.options.get("item"))


def _held_out_words(record: TrainingRecord, found: LoadedData) -> str:
    if not record.held_out:
        return "nothing held out"
    of = f"{len(record.held_out)} of {record.n_groups}"
    if record.protocol:
        return f"{record.protocol}: {of} users to be asked about"
    return found.setting.held_out_words.format(f"{of} {found.setting.units}")
