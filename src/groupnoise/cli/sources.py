"""What commands take as DATA and MODEL: names, folders and files, told apart here alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupnoise.cli.options import HISTORY_PARTS, DataOptions, echo_err, option_name
from groupnoise.exceptions import DataError, MissingColumnError, ParameterError

if TYPE_CHECKING:
    from groupnoise.clicks.items.table import ItemRows
    from groupnoise.clicks.reading.log import Histories
    from groupnoise.io.folders.training_record import TrainingRecord
    from groupnoise.io.registry import DatasetEntry
    from groupnoise.io.setting import Setting
    from groupnoise.io.tables.table import Table


@dataclass(frozen=True)
class LoadedData:
    """Data that a command was given."""

    dataset: Any
    setting: Setting[Any]
    source: str
    entry: DatasetEntry | None = None
    options: dict[str, Any] = field(default_factory=dict)
    is_file: bool = False

    def table(self) -> Table:
        """Return the rows of the file itself, with all its columns."""
        from groupnoise.io.tables.array_files import ARRAY_FORMATS
        from groupnoise.io.tables.sources import find_source
        from groupnoise.io.tables.table import read_table

        said = ("separator", "header", "sheet", "encoding")
        form = {key: value for key, value in self.options.items() if key in said}
        if not self.is_file:
            raise ParameterError(
                f"{self.source} is no file of your own, so it has no further columns."
            )
        encoding = form.pop("encoding", None)
        source = find_source(self.source, format=self.options.get("format"), encoding=encoding)
        if source.format in ARRAY_FORMATS or self.dataset.source_rows is None:
            raise ParameterError(f"{self.source} holds arrays, which have no further columns.")
        return read_table(source, decimal=".", **form)  # cells as they are written


def load_data(
    name: str,
    options: DataOptions,
    *,
    expected: Setting[Any] | None = None,
    remembered: dict[str, Any] | None = None,
    check: Callable[[str], None] | None = None,
    **reader_options: Any,
) -> LoadedData:
    """Load a file, a converted folder or a named set.

    `name`: what the user gave as DATA. `expected`: what a file is read as where the user does not
    say it. `remembered`: how the data of a model was read; what the user says goes first, and what
    a file does not have is forgotten. `check`: told the setting of a file before it is read.
    `reader_options`: `feature_names` and `labels_needed` of the reader.
    """
    from groupnoise.io.files import ARTIFACT, KINDS, MODEL, manifest_format
    from groupnoise.io.folders.data_folder import is_data_folder
    from groupnoise.io.registry import list_datasets
    from groupnoise.io.setting import find_setting

    path = Path(name)
    if path.is_dir() and (form := manifest_format(path)) in (MODEL, ARTIFACT):
        raise DataError(
            f"{name} is {KINDS[form]}, not data; give a table, converted data, or a name."
        )
    if path.is_dir() and is_data_folder(name):
        return _load_stored(name, options)
    if options.setting is not None:
        if not path.exists() and any(entry.name == name for entry in list_datasets()):
            raise DataError(f"{name} is a set known by name; leave out --setting, which it has.")
        expected = find_setting(options.setting)
    elif not path.exists() and not is_pattern(name):
        return _load_named(name, options, check)
    if expected is None:
        expected, options = _guess_setting(name, options)
    if check is not None:
        check(expected.name)
    said = {"remembered": remembered, **reader_options}
    try:
        return read_file(name, expected, options, **said)
    except MissingColumnError:
        told = None if remembered else _guess_columns(name, options)
        if told is None:
            raise
    return read_file(name, expected, told, **said)


def _load_named(name: str, options: DataOptions, check: Callable[[str], None] | None) -> LoadedData:
    """Load a named set; parameters as in `load_data`."""
    from groupnoise.io.named import load_dataset
    from groupnoise.io.registry import find_dataset
    from groupnoise.io.setting import setting_of

    known = find_dataset(name)  # first: a file that is not there has no options to complain of
    _check_no_options(name, "a set known by name", options)
    if check is not None:
        check(known.setting)
    dataset = load_dataset(name, data_dir=options.data_dir)
    return LoadedData(dataset, setting_of(dataset), name, known)


def _load_stored(name: str, options: DataOptions) -> LoadedData:
    from groupnoise.io.datasets import Windows
    from groupnoise.io.folders.data_folder import open_groups
    from groupnoise.io.setting import setting_of

    stored = open_groups(name)
    if isinstance(stored, Windows):
        raise DataError(
            f"{name} holds windows; give the click log they were cut from, with --out-of-core DIR "
            "if its windows do not fit in memory."
        )
    setting = setting_of(stored)
    if options.setting not in (None, setting.name):
        raise DataError(f"{name} holds {setting.name} data, not {options.setting} data.")
    _check_no_options(name, "a folder of converted data", options)
    return LoadedData(stored, setting, name)


def _guess_setting(name: str, options: DataOptions) -> tuple[Setting[Any], DataOptions]:
    """Return what a file holds, with the columns its cells told, and say so on the error stream."""
    from groupnoise.bags.reading.folder import is_bag_folder
    from groupnoise.io.columns.setting_guess import guess_setting
    from groupnoise.io.setting import find_setting

    if "labels" in options.columns:
        return find_setting("mil"), options
    if is_bag_folder(name):
        echo_err("read as bags (--setting mil), because it has one file per bag")
        return find_setting("mil"), options
    guess = guess_setting(name, given=options.columns, **options.form)
    echo_err(guess.sentence)
    told = {**guess.columns, **options.columns}
    return find_setting(guess.setting), replace(options, columns=told)


def _guess_columns(name: str, options: DataOptions) -> DataOptions | None:
    """Return options with the columns that cells tell of a setting that was given, if they do."""
    from groupnoise.io.columns.setting_guess import guess_setting

    if options.setting is None:
        return None
    try:
        guess = guess_setting(name, given=options.columns, setting=options.setting, **options.form)
    except DataError:
        return None  # what is missing is told better by who missed it
    echo_err(guess.sentence)
    return replace(options, columns={**guess.columns, **options.columns})


def with_guessed_setting(name: str, options: DataOptions) -> DataOptions:
    """Return options that say what a file holds, by its head alone, so that it need not be read."""
    from groupnoise.io.folders.data_folder import is_data_folder

    is_file = is_pattern(name) or (Path(name).exists() and not is_data_folder(name))
    if options.setting is not None or not is_file:
        return options
    setting, told = _guess_setting(name, options)
    return replace(told, setting=setting.name)


def is_pattern(name: str) -> bool:
    """Tell whether a name is a glob or an address, which no set known by name is."""
    return "://" in name or any(mark in name for mark in "*?[")


def load_model_and_data(
    model: Path, name: str, options: DataOptions, *, needs_labels: bool = True
) -> tuple[Any, LoadedData, TrainingRecord | None]:
    """Load a model and data for it, whose features are matched by name where both have names.

    The model knows its setting and how its own file was read, so that need not be said again.
    """
    from groupnoise.io.datasets import select_features
    from groupnoise.io.feature_ranges import FeatureRanges
    from groupnoise.io.folders.model_files import load_model
    from groupnoise.io.folders.training_record import read_training_record
    from groupnoise.io.setting import find_setting, setting_of_model

    fitted = load_model(model)
    record = read_training_record(model)
    own = setting_of_model(fitted)
    if options.setting is not None and find_setting(options.setting) is not own:
        raise DataError(
            f"{model} was trained on {own.name} data, but {options.setting} data was given."
        )
    has_names = hasattr(fitted, "feature_names_in_")
    names: Any = fitted.feature_names_in_.tolist() if has_names else None
    remembered = {} if record is None else record.options
    try:
        found = load_data(
            name,
            options,
            expected=own,
            remembered=remembered,
            feature_names=names,
            labels_needed=needs_labels,
            **own.reader_options(fitted),
        )
    except MissingColumnError as error:
        learned = remembered.get(error.part)
        if error.part in options.columns or not isinstance(learned, str):
            raise
        raise MissingColumnError(
            f"{model} is of {own.units} and learned the {error.part} {learned!r}; {error}",
            error.part,
            error.columns,
        ) from None
    if found.setting is not own:
        raise DataError(
            f"{model} was trained on {own.name} data, but {found.setting.name} data was given."
        )
    if has_names:
        found = replace(found, dataset=select_features(found.dataset, names))
        # The names have served: rows go on as plain arrays, whose lack of them would be warned of.
        del fitted.feature_names_in_
    features = own.features(found.dataset)
    if record is not None and features is not None and "fill" not in remembered:
        # Readers of tables tell it column by column.
        ranges = FeatureRanges.unpacked(record.ranges)
        if (sentence := ranges.about_units(features, name, str(model))) is not None:
            echo_err(f"warning: {sentence}.")
    return fitted, found, record


def _check_no_options(name: str, kind: str, options: DataOptions) -> None:
    if options.given:
        option = option_name(next(iter(options.given)))
        raise ParameterError(f"{option} is for files; {name} is {kind}.")


def check_columns(setting: Setting[Any], options: DataOptions) -> None:
    """Refuse options that name columns of another setting."""
    for column in options.columns:
        if column not in setting.column_options:
            raise ParameterError(
                f"{option_name(column)} names nothing in {setting.name} data; there are "
                f"{', '.join(option_name(each) for each in setting.column_options)}."
            )


def read_file(
    path: str,
    setting: Setting[Any],
    options: DataOptions,
    *,
    remembered: dict[str, Any] | None = None,
    report: Callable[[str], None] | None = None,
    **reader_options: Any,
) -> LoadedData:
    """Read a user's own file and say in one line what was guessed, on the error stream."""
    from groupnoise.clicks.reading.oddities import CLICK_WARNINGS
    from groupnoise.core.label_typos import TYPING_ERROR
    from groupnoise.io.columns.roles import read_like_training_file
    from groupnoise.io.feature_ranges import OTHER_UNITS

    check_columns(setting, options)
    guesses: list[str] = []
    read = partial(setting.read, path, **reader_options)
    dataset, used = read_like_training_file(read, options.given, remembered or {}, guesses.append)
    tell = report or echo_err
    if remembered:  # who fitted the model has been told, and read the log so
        guesses = [each for each in guesses if not any(words in each for words in CLICK_WARNINGS)]
    # What a user may have to correct, or to say otherwise, stands on a line of its own.
    signs = (TYPING_ERROR, OTHER_UNITS, " --")
    advised = [each for each in guesses if any(sign in each for sign in signs)]
    guessed = [sentence for sentence in guesses if sentence not in advised]
    for line in ("; ".join(guessed), *advised):
        if line:
            tell(line.replace("audit DATA", f"audit {path}"))
    columns = {key: value for key, value in (dataset.columns or {}).items() if value}
    # "median" was asked for; what the medians are is what further files are filled with.
    used = {key: value for key, value in used.items() if key != "fill"}
    return LoadedData(dataset, setting, path, options={**columns, **used}, is_file=True)


def log_options(columns: dict[str, Any]) -> dict[str, Any]:
    """Return how the click log was read that a model learned, of what it says of its data."""
    parts = (*HISTORY_PARTS, "only", "date_order", "repeats", "encoding")
    if isinstance(columns.get("min_rating"), (int, float)):  # ratings alone change nothing
        parts = (*parts, "rating", "min_rating")
    return {part: columns[part] for part in parts if isinstance(columns.get(part), (str, float))}


def item_column_of(model: Path) -> str | None:
    """Return what the log of a model calls its items, None where the model does not say."""
    from groupnoise.io.folders.training_record import read_training_record

    record = read_training_record(model)
    return None if record is None else log_options(record.options).get("item")


def read_item_table(items: Path, item_ids: Any, in_log: str | None) -> ItemRows:
    """Read a table of what is known of items, and say which column was taken as their ids."""
    from groupnoise.clicks.items.table import read_item_rows
    from groupnoise.core.threads import is_first

    report = echo_err if is_first() else None
    return read_item_rows(items, item_ids, in_log=in_log, report=report)


def read_histories_for(model: Path, source: str, options: DataOptions) -> Histories:
    """Read `--histories` as the user says, otherwise as the log that a model learned was read."""
    from groupnoise.clicks.reading.log import read_histories
    from groupnoise.io.columns.roles import read_like_training_file
    from groupnoise.io.folders.training_record import read_training_record

    record = read_training_record(model)
    try:
        found, _ = read_like_training_file(
            partial(read_histories, source),
            {name.removeprefix("histories_"): value for name, value in options.columns.items()},
            log_options({} if record is None else record.options),
            echo_err,
        )
    except MissingColumnError as error:
        part = error.part
        option = option_name(HISTORY_PARTS[part]) if part in HISTORY_PARTS else f"--{part}"
        said = str(error).replace(f"`{part}` (--{part})", option)
        raise MissingColumnError(said, part) from None
    except DataError as error:
        raise DataError(str(error).replace("--date-order", "--histories-date-order")) from None
    return found


def warn_if_split_differs(found: LoadedData, rows: Any) -> None:
    """Say that a split which holds out others than `fit` did is not what is scored."""
    asked, scored = set(found.setting.hold_out(found.dataset, 0.1, 0).tolist()), set(rows.tolist())
    if asked != scored:
        units, n_trained = found.setting.units, len(asked - scored)
        echo_err(
            f"warning: --split holds out other {units} than `fit` did, which trained on "
            f"{n_trained} of its {len(asked)}; scored are the {len(scored)} that `fit` held out"
        )
