"""`groupnoise audit`: find what looks wrong in data, as tables and a page."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.methods import read_parameters
from groupnoise.cli.options import (
    DataName,
    DataOptions,
    Quiet,
    Seed,
    check_conflicts,
    counted_bars,
    describe_options,
    echo_err,
    option,
    with_data_options,
)
from groupnoise.cli.sources import LoadedData, load_data, load_model_and_data
from groupnoise.cli.training import reissue_warnings
from groupnoise.core.words import counted
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.audit.evidence import Attachments
    from groupnoise.audit.issues import GroupIssues

DEFAULT_FOLDS = 5
MAX_SHOWN_USERS = 5
"""Suspicious users that are printed; the list beside the page has more."""


@with_data_options
@describe_options(
    model="Audit with this model; with --folds, refit it with its parameters.",
    folds=option(
        "Judge every group by a model trained on the other folds.",
        show_default=f"{DEFAULT_FOLDS} without --model",
    ),
    output=option("Folder for the tables and report.html.", "-o"),
    clean="Write a cleaned copy of the data: a folder for `groupnoise fit`, or a file in "
    "the format of DATA, such as clean.csv.",
    drop_users="rs: drop only users that look like bots or repeat-clickers from the cleaned copy.",
    drop_clicks=option(
        "rs: with --drop-users, drop stray clicks too.",
        "--drop-clicks",
    ),
    table_format=option("Format of the tables: csv, parquet or json.", "--tables"),
    images="Column of picture paths to show; repeatable.",
    text="Column of text or titles to show.",
    items="rs: table of items (ids first) with the --images and --text columns.",
    param=option("Parameter of max-matching, as name=value; repeatable.", "-p"),
    overwrite="Overwrite --clean.",
)
def audit(
    data: DataName,
    options: DataOptions,
    model: Path | None = None,
    folds: int | None = None,
    output: Path = Path("runs/audit"),
    clean: Path | None = None,
    drop_users: bool = False,
    drop_clicks: bool = False,
    table_format: str = "csv",
    images: list[str] | None = None,
    text: str | None = None,
    items: Path | None = None,
    param: list[str] | None = None,
    seed: Seed = 0,
    overwrite: bool = False,
    quiet: Quiet = False,
) -> None:
    """Rank what looks wrong in data: groups, labels, candidates and clicks.

    Example: groupnoise audit digit-bags -o runs/audit --clean runs/clean
    """
    from groupnoise.audit.clean import FORMS
    from groupnoise.core.checks import check_choice, check_count
    from groupnoise.io.answer_files import TABLE_FORMATS
    from groupnoise.io.files import (
        check_not_own_input,
        check_writable_file,
        check_writable_folder,
    )

    check_choice("--tables", table_format, TABLE_FORMATS)
    if folds is not None:
        check_count("--folds", folds, least=2)
    check_conflicts(
        {
            f"--output must be a folder; {output} is a file.": output.is_file(),
            f"{clean} exists already; add --overwrite or give another name.": (
                clean and clean.exists() and not overwrite
            ),
            "--param goes with fitting; the model of --model has its own.": model and param,
        }
    )
    check_writable_folder(output)
    check_not_own_input(output, data)
    if clean is not None:
        check_not_own_input(clean, data)
        (check_writable_file if clean.suffix in FORMS else check_writable_folder)(clean)
    if model is not None:
        estimator, found, _ = load_model_and_data(model, data, options)
    else:
        found = load_data(data, options)
        estimator = _make_estimator(found, param or [], seed)
    if (drop_users or drop_clicks) and (clean is None or found.setting.name != "rs"):
        flag = "--drop-users" if drop_users else "--drop-clicks"
        raise ParameterError(f"{flag} is for the cleaned copy (--clean) of a click log.")
    attachments = _attachments(found, images or [], text, items)
    n_folds = DEFAULT_FOLDS if folds is None and model is None else folds
    issues = _find_issues(estimator, found, n_folds, seed, quiet)
    if n_folds is None:
        how = f"The model in {model} judged; what it was trained on it may have memorised."
    else:
        how = f"Each was judged by a model trained on the other {n_folds - 1} of {n_folds} folds."
    is_again = (output / "report.html").exists()
    _write_report(output, found, issues, table_format, attachments, how)
    cleaned = None
    if clean is not None:
        cleaned = _write_clean(clean, found, issues, overwrite, (drop_users, drop_clicks))
    _show(issues, how, output, is_again)
    if clean is not None and cleaned is not None:
        _show_cleaned(clean, cleaned, issues, (drop_users, drop_clicks))


def _find_issues(
    estimator: Any, found: LoadedData, n_folds: int | None, seed: int, quiet: bool
) -> Any:
    """Return the issues found out of fold, or by the given model."""
    from groupnoise.audit.find import find_group_issues

    with (
        counted_bars(("fitting", "judging"), quiet) as show,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        issues = find_group_issues(
            estimator, found.dataset, n_folds=n_folds, random_state=seed, on_progress=show
        )
    reissue_warnings(caught, issues.warnings)
    return issues


def _write_report(
    output: Path,
    found: LoadedData,
    issues: GroupIssues,
    table_format: str,
    attachments: Attachments | None,
    how: str,
) -> None:
    from groupnoise.audit.page import write_audit_page
    from groupnoise.io.files import staged_folder
    from groupnoise.reproduce.provenance import spell_command

    with staged_folder(output) as staged:
        _write_tables(staged, issues, table_format)
        write_audit_page(
            staged / "report.html", issues, found.dataset, attachments=attachments, how=how,
            command=spell_command(sys.argv[1:]),
        )  # fmt: skip


def _make_estimator(found: LoadedData, param: list[str], seed: int) -> Any:
    from groupnoise.reproduce.methods import find_method, import_class, parameters_of

    setting = found.setting
    entry = find_method("max-matching", setting.name)
    settings = {**setting.audit_parameters, "random_state": seed}
    labels = setting.class_names(found.dataset)
    settings.update(read_parameters(param, parameters_of(entry), labels=labels))
    return import_class(entry)(**settings)


def _attachments(
    found: LoadedData, images: list[str], text: str | None, items: Path | None
) -> Attachments | None:
    """Return pictures and texts from columns; None uses those of the data set."""
    from groupnoise.audit.evidence import read_item_attachments, read_row_attachments

    if not images and text is None:
        if items is not None:
            raise ParameterError("--items needs --text or --images: which columns to show.")
        return None
    if not found.setting.answers_rows:
        if items is None:
            raise ParameterError("--images and --text of clicks come from a table of --items.")
        return read_item_attachments(items, found.dataset.item_ids, images=images, text=text)
    rows = found.setting.row_labels(found.dataset)
    if not found.is_file or rows is None:
        raise ParameterError("--images and --text name columns of a file; give it with --setting.")
    return read_row_attachments(found.table(), rows.rows, images=images, text=text)


def _write_clean(
    path: Path, found: LoadedData, issues: GroupIssues, overwrite: bool, drops: tuple[bool, bool]
) -> tuple[str, bool]:
    """Write the cleaned copy as a folder or a file; return what it lacks.

    `drops`: whether to drop suspicious users, and stray clicks.
    """
    from groupnoise.audit.clean import (
        FORMS,
        cleaned_copy,
        cleaned_table,
        describe_changes,
        write_cleaned_table,
    )
    from groupnoise.io.folders.data_folder import write_groups

    users, clicks = drops
    cleaned = cleaned_copy(
        found.dataset, issues, drop_users=users, drop_clicks=clicks if users else None
    )
    about = describe_changes(found.dataset, cleaned)
    if path.suffix not in FORMS:
        write_groups(path, cleaned, overwrite=overwrite)
        return about
    table = found.table()
    mark = "\t" if path.suffix == ".tsv" else table.separator
    write_cleaned_table(
        path,
        cleaned_table(
            table, found.dataset, cleaned, label_separator=found.options.get("label_separator")
        ),
        separator=mark or ("\t" if path.suffix == ".txt" else ","),
        header=found.options.get("header", True),
        has_mark=table.has_mark,
    )
    return about


def _write_tables(output: Path, issues: GroupIssues, table_format: str) -> None:
    from groupnoise.io.files import write_json

    for table in ("groups", "objects"):
        issues.write(output / f"{table}.{table_format}", table)
    for kind in issues.kinds:
        issues.write_list(output / "lists" / f"{kind.name}.{table_format}", kind.name)
    said = {"warnings": list(issues.warnings)} if issues.warnings else {}
    write_json(output / "summary.json", {**issues.summary(), **said})


def _show(issues: GroupIssues, how: str, output: Path, is_again: bool) -> None:
    from groupnoise.audit.page import CHANCE_WARNING, judged_summary

    counts = issues.summary()
    typer.echo(f"{judged_summary(issues)} {how}")
    for sentence in issues.warnings:
        typer.echo(f"warning: {CHANCE_WARNING}: {sentence}")
    for kind in issues.kinds:
        typer.echo(f"{counts[kind.name]:>9}  {kind.title}")
    for user, why in _worst_users(issues):
        typer.echo(f"{'':>11}{user}: {why}")
    instead = "; they replace those of an earlier audit" if is_again else ""
    typer.echo(f"tables and report.html are in {output}{instead}")


def _show_cleaned(
    clean: Path, cleaned: tuple[str, bool], issues: GroupIssues, drops: tuple[bool, bool]
) -> None:
    """Print what the cleaned copy lacks and keeps; parameters as in `_write_clean`."""
    (lacks, is_much), (drop_users, drop_clicks) = cleaned, drops
    typer.echo(f"the cleaned copy is in {clean}; it lacks {lacks}")
    n_users = len(issues.users["source"]) if issues.users and not drop_users else 0
    if n_users:
        alike = "looks like a bot" if n_users == 1 else "look like bots"
        kept = f"it keeps the clicks of {counted(n_users, 'users')} that {alike}"
        typer.echo(f"{kept}; --drop-users drops them alone, with --drop-clicks stray clicks too")
    n_stray = issues.summary()["stray_click"] if drop_users and not drop_clicks else 0
    if n_stray:
        typer.echo(f"it keeps {counted(n_stray, 'stray clicks')}; --drop-clicks drops them too")
    if is_much:
        echo_err(
            "warning: that is a lot; look at report.html before you train on the copy, or compare "
            "both with `groupnoise evaluate` on data that was not cleaned."
        )


def _worst_users(issues: GroupIssues) -> list[tuple[Any, str]]:
    """Return the most suspicious users with the reasons."""
    if not issues.users:
        return []
    listed = issues.list_of("suspicious_user", MAX_SHOWN_USERS)
    return list(zip(listed["source"].tolist(), listed["why"].tolist(), strict=True))
