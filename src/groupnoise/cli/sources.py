"""Loading the DATA and MODEL of commands: names, folders and files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupnoise.cli.options import HISTORY_PARTS, DataOptions, echo_err, option_name
from groupnoise.core.words import Topic, topic_of
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
    """A loaded data set with its setting and source."""

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
        return read_table(source, decimal=".", **form)  # keep cells as written


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

    `name`: DATA on the command line. `expected`: the setting of a file unless the user gives one.
    `remembered`: reader options of a model's training file, as for `read_like_training_file`.
    `check`: called with the setting of a file before it is read. `reader_options`: `feature_names`
    and `labels_needed` of the reader.
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

    known = find_dataset(name)  # first, so that a missing file is reported as such
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
    """Return the guessed setting and columns of a file, and print the guess."""
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
    """Return options with columns guessed from cells for a given setting, if possible."""
    from groupnoise.io.columns.setting_guess import guess_setting

    if options.setting is None:
        return None
    try:
        guess = guess_setting(name, given=options.columns, setting=options.setting, **options.form)
    except DataError:
        return None  # the reader's own error is better
    echo_err(guess.sentence)
    return replace(options, columns={**guess.columns, **options.columns})


def with_guessed_setting(name: str, options: DataOptions) -> DataOptions:
    """Return options with the setting guessed from the first lines of a file."""
    from groupnoise.io.folders.data_folder import is_data_folder

    is_file = is_pattern(name) or (Path(name).exists() and not is_data_folder(name))
    if options.setting is not None or not is_file:
        return options
    setting, told = _guess_setting(name, options)
    return replace(told, setting=setting.name)


def is_pattern(name: str) -> bool:
    """Tell whether a name is a glob or an address, and so not a named set."""
    return "://" in name or any(mark in name for mark in "*?[")


def load_model_and_data(
    model: Path, name: str, options: DataOptions, *, needs_labels: bool = True
) -> tuple[Any, LoadedData, TrainingRecord | None]:
    """Load a model and data for it, with features matched by name if both have names.

    The setting and reader options of the training file are used by default.
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
        # Features are plain arrays from here on; scikit-learn would warn about missing names.
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
    """Refuse column options of other settings."""
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
    """Read a file and print the guesses on the error stream."""
    from groupnoise.io.columns.roles import read_like_training_file

    check_columns(setting, options)
    guesses: list[str] = []
    read = partial(setting.read, path, **reader_options)
    dataset, used = read_like_training_file(read, options.given, remembered or {}, guesses.append)
    tell = report or echo_err
    if remembered:  # the training log was read the same way, and `fit` has warned
        guesses = [each for each in guesses if topic_of(each) is not Topic.CLICKS]
    # Messages that call for a correction or an option are printed on lines of their own.
    urgent = (Topic.TYPO, Topic.UNITS)
    advised = [each for each in guesses if " --" in each or topic_of(each) in urgent]
    guessed = [sentence for sentence in guesses if sentence not in advised]
    for line in ("; ".join(guessed), *advised):
        if line:
            tell(line.replace("audit DATA", f"audit {path}"))
    columns = {key: value for key, value in (dataset.columns or {}).items() if value}
    # "median" was asked for; what the medians are is what further files are filled with.
    used = {key: value for key, value in used.items() if key != "fill"}
    return LoadedData(dataset, setting, path, options={**columns, **used}, is_file=True)


def log_options(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the options with which the click log of a model was read."""
    parts = (*HISTORY_PARTS, "only", "date_order", "repeats", "encoding")
    if isinstance(columns.get("min_rating"), (int, float)):  # ratings alone change nothing
        parts = (*parts, "rating", "min_rating")
    return {part: columns[part] for part in parts if isinstance(columns.get(part), (str, float))}


def item_column_of(model: Path) -> str | None:
    """Return the item column of a model's log, None if unrecorded."""
    from groupnoise.io.folders.training_record import read_training_record

    record = read_training_record(model)
    return None if record is None else log_options(record.options).get("item")


def read_item_table(items: Path, item_ids: Any, in_log: str | None) -> ItemRows:
    """Read a table of items, and print which column holds their ids."""
    from groupnoise.clicks.items.table import read_item_rows
    from groupnoise.core.threads import is_first

    report = echo_err if is_first() else None
    return read_item_rows(items, item_ids, in_log=in_log, report=report)


def read_histories_for(model: Path, source: str, options: DataOptions) -> Histories:
    """Read `--histories` with the options of the user, or else of the model's log."""
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
    """Warn if --split holds out other groups than `fit` did, which are scored."""
    asked, scored = set(found.setting.hold_out(found.dataset, 0.1, 0).tolist()), set(rows.tolist())
    if asked != scored:
        units, n_trained = found.setting.units, len(asked - scored)
        echo_err(
            f"warning: --split holds out other {units} than `fit` did, which trained on "
            f"{n_trained} of its {len(asked)}; scored are the {len(scored)} that `fit` held out"
        )
