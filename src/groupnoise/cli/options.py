"""Options shared by commands, decorators that add them, and progress bars."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from rich.progress import Progress

    from groupnoise.core.arrays import ProgressCallback

SETTINGS = ("mil", "pll", "rs")
"""Values of `--setting`; implemented in `groupnoise.io.setting`."""
PANEL = "How DATA is read"

Word = str | None
Number = float | None
Flag = bool | None
Folder = Path | None
DATA_HELP = (
    "A file (its columns tell what it holds, unless --setting does), a folder written by "
    "`groupnoise data convert`, or a name from `groupnoise data list`."
)
SETTING_HELP = (
    "What the file holds: mil (bags), pll (candidate labels) or rs (clicks). Guessed by default."
)
VOTES_PANEL = "Columns of the votes"
HISTORIES_PANEL = "How --histories is read"
EVIDENCE_PANEL = "Features of the rows"

ModelFolder = Annotated[Path, typer.Argument(help="Folder written by `groupnoise fit`.")]
DataName = Annotated[str, typer.Argument(help="As in `groupnoise fit`.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Jobs = Annotated[int | None, typer.Option(help="Number of processes.", show_default="one per core")]
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.")]
Token = Annotated[
    str | None,
    typer.Option(
        envvar="GROUPNOISE_TOKEN", help="Required to listen on any address but this machine's."
    ),
]

echo_err = functools.partial(typer.echo, err=True)
"""Prints to the error stream, beside the answers."""

Command = Callable[..., Any]
Parameter = Callable[[str, bool], Any]
"""Makes the typer declaration of a parameter, from its name and whether it is a switch."""


def argument(help: str | None = None, **more: Any) -> Parameter:
    """Return a positional argument."""
    return lambda name, is_switch: typer.Argument(help=help, **more)


def option(help: str, *words: str, **more: Any) -> Parameter:
    """Return an option; short `words` are added to its name, long ones replace it."""

    def make(name: str, is_switch: bool) -> Any:
        is_named = any(word.startswith("--") for word in words)
        own = [f"--{name.replace('_', '-')}"] if (words or is_switch) and not is_named else []
        return typer.Option(*own, *words, help=help, **more)

    return make


def panel(title: str, **declared: str | Parameter) -> dict[str, Parameter]:
    """Return options for :func:`describe_options` that help groups under a title."""

    def titled(about: str | Parameter) -> Parameter:
        make = option(about) if isinstance(about, str) else about

        def make_titled(name: str, is_switch: bool) -> Any:
            declaration = make(name, is_switch)
            declaration.rich_help_panel = title
            return declaration

        return make_titled

    return {name: titled(about) for name, about in declared.items()}


def describe_options(**declared: str | Parameter) -> Callable[[Command], Command]:
    """Declare the parameters of a command; for most options a help text is enough."""

    def describe(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command, eval_str=True)
        found = dict(signature.parameters)
        for name, about in declared.items():
            make = option(about) if isinstance(about, str) else about
            declaration = make(name, found[name].default is False)
            annotation: Any = Annotated[found[name].annotation, declaration]
            found[name] = found[name].replace(annotation=annotation)
        _set_parameters(command, list(found.values()))
        return command

    return describe


def _set_parameters(command: Any, parameters: list[inspect.Parameter]) -> None:
    """Set the signature and annotations of a command, both of which typer reads."""
    command.__signature__ = inspect.Signature(parameters)
    command.__annotations__ = {each.name: each.annotation for each in parameters}


def _option(kind: Any, help: str, *words: str, panel: str = PANEL) -> Any:
    return Annotated[kind, typer.Option(*words, help=help, rich_help_panel=panel)]


COLUMNS = {
    "user": _option(Word, "rs: column of user ids."),
    "item": _option(Word, "rs: column of item ids."),
    "time": _option(Word, "rs: column that orders clicks."),
    "rating": _option(Word, "rs: column of ratings."),
    "min_rating": _option(Number, "rs: drop rows rated lower than this."),
    "only": _option(
        Word, "rs: rows to keep, such as event=cart,purchase, or user for rows with a user."
    ),
    "date_order": _option(Word, "rs: dmy or mdy, for ambiguous dates such as 03/02/2026."),
    "repeats": _option(Word, "rs: repeated clicks on an item: keep, merge_adjacent or keep_first."),
    "group": _option(Word, "mil: column of bag ids, or several such as machine,day."),
    "label": _option(Word, "mil: column of bag labels, or a pattern of 0/1 columns."),
    "candidates": _option(Word, "pll: column of candidate labels, or a pattern of 0/1 columns."),
    "labels": _option(Word, "mil: table of bag labels, for DATA with one file per bag."),
    "patient": _option(
        Word, "mil: column of patients (or other sources); their bags stay in one split."
    ),
    "split": _option(
        Word, "mil: column of the label table, or a separate table, saying train or test."
    ),
    "truth": _option(Word, "mil, pll: column of true labels, which `fit` never learns from."),
    "features": _option(Word, "mil, pll: feature columns, as a list or a pattern like 'f*'."),
    "label_separator": _option(Word, "mil, pll: separator of several labels in a cell."),
    "keep_label": _option(
        Word, "pll: labels to keep as written, such as '?', or Cat distinct from cat."
    ),
    "fill": _option(
        Word, "mil, pll: missing feature values: median fills them all, no refuses them."
    ),
}
"""Columns by role; roles that are not given are guessed, and the guess is printed."""
FORM = {
    "separator": _option(Word, "Column separator of text files; space for any whitespace."),
    "header": _option(Flag, "Whether text files start with column names.", "--header/--no-header"),
    "decimal": _option(Word, "Decimal mark: , or . (guessed where possible)."),
    "sheet": _option(Word, "Sheet of a workbook, by name or number; the first by default."),
    "encoding": _option(Word, "Text encoding other than UTF-8: cp1252, latin1, utf-16, ..."),
    "format": _option(Word, "Format, if not clear from the suffix: csv, tsv, text, ..."),
}
"""The format of the file."""
_of_votes = functools.partial(_option, Word, panel=VOTES_PANEL)
_of_evidence = functools.partial(_option, Word, panel=EVIDENCE_PANEL)
VOTES = {
    "annotators": _of_votes("Columns of the annotators, such as 'ann_*'."),
    "candidates": _of_votes("Column of candidate labels, or a pattern of 0/1 columns."),
    "votes": _of_votes("Second table: one vote per line."),
    "id": _of_votes("Column of DATA that --votes refers to rows by."),
    "row": _of_votes("One vote per line: row ids."),
    "annotator": _of_votes("One vote per line: annotators."),
    "label": _of_votes("One vote per line: the vote; or a question."),
    "confidence": _of_votes("One vote per line: confidence, 0 to 1."),
    "labels": _of_votes("All possible labels, separated by commas."),
    "label_separator": _of_votes("Separator of several labels in a cell."),
    "keep_label": _of_votes("Labels to keep as written, such as '?', or Cat distinct from cat."),
    "truth": _of_votes("Column of known true labels; empty where unknown."),
    "features": _of_evidence("Numeric columns, as a list or 'f*'."),
    "text": _of_evidence("Column of text."),
    "embedding": _of_evidence("A .npy file of one vector per row."),
    "embed": _of_evidence("Local sentence-transformers model for the text."),
}
"""The columns of a table of votes, and the features of its rows."""
HISTORY_PARTS = {part: f"histories_{part}" for part in ("user", "item", "time")}
HISTORIES = {
    name: _option(
        Word,
        f"Its {part} column; by default the same as in the training log.",
        panel=HISTORIES_PANEL,
    )
    for part, name in HISTORY_PARTS.items()
}
HISTORIES["histories_date_order"] = _option(
    Word, "dmy or mdy, for ambiguous dates.", panel=HISTORIES_PANEL
)
"""The columns of a second log."""
WHERE = {
    "setting": _option(Word, SETTING_HELP),
    "data_dir": _option(Folder, "Folder to search first for named data sets."),
}


@dataclass(frozen=True)
class DataOptions:
    """Options about DATA.

    `setting`: "mil", "pll" or "rs".
    `data_dir`: searched first for named data sets.
    `columns`, `form`: the options of `COLUMNS`, `VOTES` or `HISTORIES`, and of `FORM`, that were
        given.
    """

    setting: str | None = None
    data_dir: Path | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    form: dict[str, Any] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, Any]:
        """All given options about columns and format."""
        return {**self.columns, **self.form}


def with_data_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options about DATA; it gets them as one `options: DataOptions`.

    Options that the command declares itself under the same name are its own; one that declares
    `setting` itself reads files alone.
    """
    declares_setting = "setting" in inspect.signature(command).parameters
    where = {} if declares_setting else WHERE
    return _with_options(command, {**where, **COLUMNS, **FORM})


def with_click_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options about a click log, as one `options: DataOptions`."""
    parts = ("user", "item", "time", "rating", "min_rating", "only", "date_order")
    columns = {name: COLUMNS[name] for name in parts}
    return _with_options(command, {**columns, **FORM})


def with_vote_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options about a table of votes, as one `options: DataOptions`."""
    return _with_options(command, {**VOTES, **FORM})


def with_history_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that has `--histories` the options about that log, and about a table's form.

    It gets them as one `options: DataOptions`.
    """
    return _with_options(command, {**HISTORIES, **FORM})


def with_table_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options about the form of a file, as one `options: DataOptions`."""
    return _with_options(command, FORM)


def _with_options(command: Callable[..., Any], offered: dict[str, Any]) -> Callable[..., Any]:
    """Return a command whose signature has further options, which it gets as `options`."""
    signature = inspect.signature(command, eval_str=True)
    own = {name: p for name, p in signature.parameters.items() if name != "options"}
    shared = {name: kind for name, kind in offered.items() if name not in own}

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        declared = {name: given.pop(name) for name in shared}
        options = DataOptions(
            setting=declared.get("setting"),
            data_dir=declared.get("data_dir"),
            columns={
                name: value
                for name, value in declared.items()
                if value is not None and name not in WHERE and name not in FORM
            },
            form={name: declared[name] for name in FORM if declared.get(name) is not None},
        )
        return command(**given, options=options)

    only_by_name = inspect.Parameter.KEYWORD_ONLY
    parameters = [p.replace(kind=only_by_name) for p in own.values()]
    parameters += [
        inspect.Parameter(name, only_by_name, default=None, annotation=kind)
        for name, kind in shared.items()
    ]
    _set_parameters(run, parameters)
    return run


def check_output(path: Path | None, *read: Path | str) -> None:
    """Refuse a file that cannot be written, and print that its folder will be created.

    `path`: None if nothing is written. `read`: inputs, which must not be overwritten.
    """
    from groupnoise.io.files import check_not_own_input, check_writable_file

    if path is None:
        return
    for source in read:
        check_not_own_input(path, source)
    check_writable_file(path)
    if not path.parent.exists():
        typer.echo(f"the folder {path.parent} is not there and will be made", err=True)


def check_conflicts(conflicts: dict[str, object]) -> None:
    """Raise the first message whose combination of options is given."""
    for sentence, is_given in conflicts.items():
        if is_given:
            raise ParameterError(sentence)


def option_name(name: str) -> str:
    """Return the name of an option on the command line."""
    declared = get_args((COLUMNS | VOTES | HISTORIES | FORM)[name])[1].param_decls
    return declared[0] if declared else f"--{name.replace('_', '-')}"


def progress_bars(*columns: str, quiet: bool = False, transient: bool = True) -> Progress:
    """Return progress bars on the error stream, with further columns.

    `columns`: "count", "left" (time), "elapsed", "bytes", or text with fields of the task.
    """
    from rich import progress
    from rich.console import Console

    known = {
        "count": progress.MofNCompleteColumn,
        "left": progress.TimeRemainingColumn,
        "elapsed": progress.TimeElapsedColumn,
        "bytes": progress.DownloadColumn,
    }
    words = (known[each]() if each in known else progress.TextColumn(each) for each in columns)
    shown = (progress.TextColumn("{task.description}"), progress.BarColumn(), *words)
    return progress.Progress(
        *shown, console=Console(stderr=True), disable=quiet, transient=transient
    )


@contextmanager
def counted_bars(stages: Sequence[str], quiet: bool = False) -> Iterator[ProgressCallback]:
    """Yield a callback for records of `stage`, `done` and `total`, with one bar per stage.

    The bars vanish at the end.
    """
    bars = progress_bars("count", "left", quiet=quiet)
    bars.disable |= not bars.console.is_terminal  # elsewhere it would leave an empty line
    with bars as bar:
        tasks = {stage: bar.add_task(stage, total=None) for stage in stages}

        def show(record: dict[str, Any]) -> None:
            bar.update(tasks[record["stage"]], completed=record["done"], total=record["total"])

        yield show
