"""`groupnoise audit`: data in, what looks wrong in it out, as tables and as a page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.core.arrays import ProgressCallback
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.audit.attachments import Attachments
    from groupnoise.audit.issues import GroupIssues
    from groupnoise.io.named import Dataset

DEFAULT_FOLDS = 5
FITTING_FOR_AUDITS = {"mil": {"background": True, "absent_strength": 1.0}}
"""An audit asks which instances match nothing, so they get somewhere to go."""


def audit(
    data: Annotated[str, typer.Argument(help="As in `groupnoise fit`.")],
    model: Annotated[
        Path | None,
        typer.Option(help="Judge with this model; with --folds, refit one with its parameters."),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            help="Judge every group by a model that was trained on the other folds.",
            show_default=f"{DEFAULT_FOLDS} without --model",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the tables and report.html.")
    ] = Path("runs/audit"),
    clean: Annotated[
        Path | None,
        typer.Option(help="Write a cleaned copy of the data to this folder, for `groupnoise fit`."),
    ] = None,
    table_format: Annotated[
        str, typer.Option("--format", help="Form of the tables: csv, parquet or json.")
    ] = "csv",
    setting: Annotated[
        str | None, typer.Option(help="Read a file as mil, pll or rs; columns are guessed.")
    ] = None,
    images: Annotated[
        list[str] | None,
        typer.Option(help="Column of picture paths to show, beside the data; repeat for more."),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of text or titles to show.")] = None,
    items: Annotated[
        Path | None,
        typer.Option(help="rs: table of items, ids first, that has the --images and --text."),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", help="A parameter of max-matching, as name=value."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides all randomness.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(help="Searched first for named data sets.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the folder of --clean.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Find what looks wrong in data: groups, labels, candidates and clicks, ranked.

    Example: groupnoise audit digit-bags -o runs/audit --clean runs/clean
    """
    from groupnoise.audit.clean import cleaned_copy
    from groupnoise.audit.find import find_group_issues
    from groupnoise.audit.issues import TABLE_FORMATS
    from groupnoise.audit.page import write_audit_page
    from groupnoise.cli.sources import find_data, find_model_and_data
    from groupnoise.core.checks import check_choice, check_count
    from groupnoise.io.data_folder import write_groups
    from groupnoise.io.files import check_not_own_input, check_writable_folder
    from groupnoise.reproduce.facts import spell_command

    check_choice("--format", table_format, TABLE_FORMATS)
    if folds is not None:
        check_count("--folds", folds, least=2)
    if output.is_file():
        raise ParameterError(f"--output must be a folder; {output} is a file.")
    if clean is not None and clean.exists() and not overwrite:
        raise ParameterError(f"{clean} exists already; add --overwrite or give another name.")
    for folder in (output, clean):
        if folder is not None:
            check_writable_folder(folder)
    check_not_own_input(output, data)
    n_folds = DEFAULT_FOLDS if folds is None and model is None else folds
    _check_one_source_of_parameters(model, param)
    if model is not None and n_folds is None:
        estimator, dataset = find_model_and_data(model, data, setting, data_dir)
    else:
        dataset, _ = find_data(data, setting, data_dir)
        estimator = _template(dataset, model, param or [], seed)
    attachments = _attachments(data, dataset, setting, images or [], text, items)
    with _progress(quiet) as show:
        issues = find_group_issues(
            estimator, dataset, n_folds=n_folds, random_state=seed, on_progress=show
        )
    how = _how(n_folds, model)
    _write_tables(output, issues, table_format)
    write_audit_page(
        output / "report.html",
        issues,
        dataset,
        attachments=attachments,
        how=how,
        command=spell_command(sys.argv[1:]),
    )
    if clean is not None:
        write_groups(clean, cleaned_copy(dataset, issues), overwrite=overwrite)
    _show(issues, how, output, clean)


def _check_one_source_of_parameters(model: Path | None, param: list[str] | None) -> None:
    if model is not None and param:
        raise ParameterError("--param goes with fitting; the model of --model has its own.")


def _template(dataset: Dataset, model: Path | None, param: list[str], seed: int) -> Any:
    """Return the estimator whose clones will be fitted."""
    from groupnoise.cli.fit import read_parameters
    from groupnoise.cli.sources import setting_of
    from groupnoise.io.models import load_model
    from groupnoise.reproduce.methods import find_method, import_class, parameters_of

    if model is not None:
        return load_model(model)
    setting = setting_of(dataset)
    entry = find_method("max-matching", setting)
    settings = {**FITTING_FOR_AUDITS.get(setting, {}), "random_state": seed}
    settings.update(read_parameters(param, parameters_of(entry)))
    return import_class(entry)(**settings)


def _attachments(
    data: str,
    dataset: Dataset,
    setting: str | None,
    images: list[str],
    text: str | None,
    items: Path | None,
) -> Attachments | None:
    """Return pictures and text from columns of the user's own; None leaves those of the data."""
    from groupnoise.audit.attachments import read_item_attachments, read_row_attachments
    from groupnoise.io.datasets import ClickDataset

    if not images and text is None:
        if items is not None:
            raise ParameterError("--items needs --text or --images: which columns to show.")
        return None
    if isinstance(dataset, ClickDataset):
        if items is None:
            raise ParameterError("--images and --text of clicks come from a table of --items.")
        return read_item_attachments(items, dataset.item_ids, images=images, text=text)
    if setting is None:
        raise ParameterError("--images and --text name columns of a file; give it with --setting.")
    return read_row_attachments(data, setting, images=images, text=text)


def _how(n_folds: int | None, model: Path | None) -> str:
    if n_folds is not None:
        return f"Each was judged by a model trained on the other {n_folds - 1} of {n_folds} folds."
    return f"The model in {model} judged; what it was trained on it may have memorised."


def _write_tables(output: Path, issues: GroupIssues, table_format: str) -> None:
    """Write both tables and every ranked list, and the counts as JSON."""
    from groupnoise.io.files import write_json

    for table in ("groups", "objects"):
        issues.write(output / f"{table}.{table_format}", table)
    for kind in issues.kinds:
        issues.write_list(output / "lists" / f"{kind.name}.{table_format}", kind.name)
    write_json(output / "summary.json", issues.summary())


@contextmanager
def _progress(quiet: bool) -> Iterator[ProgressCallback]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as bar:
        tasks = {stage: bar.add_task(stage, total=None) for stage in ("fitting", "judging")}

        def show(record: dict[str, Any]) -> None:
            bar.update(tasks[record["stage"]], completed=record["done"], total=record["total"])

        yield show


def _show(issues: GroupIssues, how: str, output: Path, clean: Path | None) -> None:
    counts = issues.summary()
    typer.echo(f"{counts['groups']} groups, {counts['objects']} objects. {how}")
    for kind in issues.kinds:
        typer.echo(f"{counts[kind.name]:>9}  {kind.title}")
    typer.echo(f"tables and report.html are in {output}")
    if clean is not None:
        typer.echo(f"the cleaned copy is in {clean}")
