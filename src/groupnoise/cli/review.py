"""`groupnoise review` and `resolve`: review doubtful rows, and aggregate votes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.options import (
    DataOptions,
    Host,
    Port,
    Quiet,
    Seed,
    Token,
    argument,
    check_output,
    counted_bars,
    describe_options,
    echo_err,
    option,
    with_vote_options,
)
from groupnoise.cli.sources import is_pattern, load_data
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError

if TYPE_CHECKING:
    from groupnoise.review.questions import Questions

    Ask = Callable[[Mapping[int, str]], Questions]


@with_vote_options
@describe_options(
    data=argument("As in `groupnoise resolve`, or bags."),
    setting="mil: ask which object of a bag carries its label; --label, --labels and "
    "--features then mean the same as in `groupnoise fit`.",
    group="mil: column of bag ids.",
    images="Columns of picture paths; found by suffix by default.",
    budget="mil: time limit for choosing settings, for each of five models.",
    answers="File to keep the answers in; DATA.answers.jsonl by default.",
)
def review(
    data: str,
    options: DataOptions,
    setting: str | None = None,
    group: str | None = None,
    images: str | None = None,
    budget: str = "5s",
    answers: Path | None = None,
    host: Host = "127.0.0.1",
    port: Port = 8001,
    token: Token = None,
    seed: Seed = 0,
) -> None:
    """Resolve votes or candidates, then review the most doubtful rows on a local page.

    Every answer is saved at once, so a restart continues where you stopped. With bags (a folder, or
    --setting mil) it asks which object carries the label.
    """
    from groupnoise.core.checks import check_choice, require

    for package in ("fastapi", "uvicorn", "prometheus_client"):
        require(package, extra="serve")
    if setting is not None:
        check_choice("--setting", setting, ("mil", "pll"))

    from groupnoise.recall.http.server import bind
    from groupnoise.review.desk import Desk
    from groupnoise.review.http import check_access, serve_desk

    settings = check_access(host, port, token)
    bound, address = bind(host, port)  # before anything long begins
    is_bags = setting == "mil" or (setting is None and (group is not None or Path(data).is_dir()))
    ask = (
        _bag_questions(data, options, group, images, budget, seed)
        if is_bags
        else _row_questions(data, vote_options(options), images, seed)
    )
    kept = answers or Path(f"{Path(data).name}.answers.jsonl")
    desk = Desk(ask({}), kept, relearn=ask)
    done = desk.progress()
    typer.echo(f"{done['answered']} of {done['total']} answered; answers go to {kept}")
    bound.listen()
    typer.echo(f"listening on {address}")
    serve_desk(desk, settings, bound)
    done = desk.progress()
    typer.echo(f"{done['answered']} of {done['total']} answered, kept in {kept}")
    desk.close()
    if done["learning"]:
        # A training thread would abort the shutdown of the interpreter.
        sys.stdout.flush()
        os._exit(0)


def _row_questions(data: str, reading: dict[str, Any], images: str | None, seed: int) -> Ask:
    """Return a function from the answers so far to questions about rows."""
    from groupnoise.audit.evidence import picture_columns, picture_paths
    from groupnoise.io.tables.table import Table
    from groupnoise.review.questions import RowQuestions
    from groupnoise.votes.resolution import resolve

    def ask(known: Mapping[int, str]) -> RowQuestions:
        report = None if known else echo_note
        with counted_bars(("training",), quiet=bool(known)) as show:
            found = resolve(
                data, **reading, known=known, random_state=seed, report=report, on_progress=show
            )
        table = Table(found.rows, "rows", data, str)
        columns = picture_columns(table, images)
        pictures = picture_paths(found.rows, columns, Path(data).parent) if columns else None
        questions = RowQuestions(found, pictures, reading.get("truth"))
        if report is not None:
            if columns and images is None:
                report(f"took {', '.join(columns)} as picture paths")
            for name in questions.hidden:
                report(f"column {name!r} is not shown: who answers shall not see the truth")
        return questions

    return ask


def _bag_questions(
    data: str, options: DataOptions, group: str | None, images: str | None, budget: str, seed: int
) -> Ask:
    """Return a function from the answers so far to questions about bags."""
    from groupnoise.review.bag_questions import BagQuestions, BagViews, object_responsibilities

    columns = dict(options.columns)
    if group is not None:
        columns["group"] = group
    is_file = Path(data).exists() or is_pattern(data)
    found = load_data(data, replace(options, setting="mil" if is_file else None, columns=columns))
    if found.setting.name != "mil":
        raise DataError(f"{data} holds {found.setting.name} data; --setting mil is for bags.")
    table = None
    if found.is_file and found.dataset.source_rows is not None:
        table = found.table()
    views = BagViews.of(found.dataset, data, table, images)

    def ask(known: Mapping[int, str]) -> BagQuestions:
        report = None if known else echo_note
        if report is not None:
            report(
                "five models are trained, each on bags that it is not asked about, after a search "
                f"of {budget} at most"
            )
        with counted_bars(("training",), quiet=bool(known)) as show:
            responsibilities = object_responsibilities(
                found.dataset, known=known, budget=budget, seed=seed, report=report,
                on_progress=show,
            )  # fmt: skip
        return BagQuestions(found.dataset, responsibilities, views)

    return ask


@with_vote_options
@describe_options(
    data=argument("Table, or JSON export of Label Studio or Argilla."),
    output=option("File to write: .csv, .jsonl, .parquet or .xlsx.", "-o"),
    sort="Write the rows most worth reviewing first.",
    reliability="JSON file for each annotator's confusion matrix with intervals.",
    folds="Number of cross-validation folds.",
    rounds="Rounds of combining votes and features; 2 by default, 3 for candidates.",
    members="Networks averaged per fold (candidates).",
    checkpoint="Folder for finished fits; the same command resumes from there.",
)
def resolve(
    data: str,
    output: Path,
    options: DataOptions,
    sort: bool = False,
    reliability: Path | None = None,
    folds: int = 5,
    rounds: int | None = None,
    members: int = 1,
    seed: Seed = 0,
    checkpoint: Path | None = None,
    quiet: Quiet = False,
) -> None:
    """Give every row one label with a probability, and rank the rows worth reviewing.

    Keeps every column of DATA. Labels are out of fold: no row is judged by a model trained on it.
    """
    from groupnoise.core.checks import check_count
    from groupnoise.io.answer_files import check_format
    from groupnoise.io.files import write_json
    from groupnoise.votes.explanations import summary_lines
    from groupnoise.votes.resolution import resolve as run

    check_count("--folds", folds, least=2)
    if rounds is not None:
        check_count("--rounds", rounds)
    check_count("--members", members)
    check_format(output)
    for path in (output, reliability):
        check_output(path, data)
    with counted_bars(("training",), quiet) as show:
        found = run(
            data,
            **vote_options(options),
            n_folds=folds,
            n_rounds=rounds,
            n_members=members,
            random_state=seed,
            checkpoint=checkpoint,
            report=echo_note,
            on_progress=show,
        )
    found.save(output, sort=sort)
    if reliability is not None and found.reliability is not None:
        write_json(reliability, found.reliability.as_records())
    for sentence in summary_lines(found.reliability, found.alpha, found.columns["probability"]):
        typer.echo(sentence)
    typer.echo(f"{counted(found.votes.n_rows, 'rows')} written to {output}")


def vote_options(options: DataOptions) -> dict[str, Any]:
    """Return options about votes as keywords of `groupnoise.votes.resolve`."""
    reading = options.given
    if "labels" in reading:
        reading["labels"] = [each.strip() for each in reading["labels"].split(",")]
    return reading


def echo_note(sentence: str) -> None:
    """Print a note on the error stream."""
    echo_err(f"note: {sentence}")
