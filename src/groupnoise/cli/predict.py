"""`groupnoise predict` and `calibrate`: predictions, and calibration of a model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.evaluate import check_held_out
from groupnoise.cli.options import (
    DataName,
    DataOptions,
    ModelFolder,
    argument,
    check_output,
    describe_options,
    echo_err,
    option,
    with_data_options,
)
from groupnoise.cli.sources import LoadedData, load_model_and_data
from groupnoise.core.words import counted
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.core.arrays import IntArray

SOURCE = "source"
"""What `--to` is for answers that go into the files which the features come from."""


@with_data_options
@describe_options(
    output=option("File (.csv, .jsonl, .parquet, .xlsx); with --to, a folder.", "-o"),
    keep="Column (or pattern) of DATA to copy beside the answers; repeatable.",
    bags="mil: one row per bag, with its labels and their probabilities.",
    to="mil: a file per bag, with coordinates: csv, h5 or geojson; source adds to the .h5 files.",
    top="rs: number of items to recommend.",
    exclude_seen="rs: leave out items already in the history.",
)
def predict(
    model: ModelFolder,
    data: DataName,
    options: DataOptions,
    output: Path | None = None,
    keep: list[str] | None = None,
    bags: bool = False,
    to: str | None = None,
    top: int = 10,
    exclude_seen: bool = True,
) -> None:
    """Predict a label per instance or row, or the next items per history.

    DATA needs no labels; where it has candidate labels, the best candidate is written too. Ids
    are copied beside the answers. An instance is judged within its bag and is "background" where
    that is more likely than every class. With positive and negative bags, the probability from
    which an instance counts as positive was chosen by `fit` for balanced accuracy and is printed;
    it is often far below a half, because positive instances are rare.
    """
    from groupnoise.io.answer_files import check_format, write_columns

    if to is not None:
        if bags:
            raise ParameterError("--bags writes one table and --to a file per bag; give one.")
        _write_per_bag(model, data, options, output, to, keep)
        return
    if output is None:
        raise ParameterError("give the file to write, with --output (-o).")
    check_format(output)
    check_output(output, data)
    fitted, found, _ = load_model_and_data(model, data, options, needs_labels=False)
    if bags:
        _write_bags(fitted, found, output, keep)
        return
    if keep and not found.setting.answers_rows:
        raise ParameterError(
            f"--keep goes with answers about rows; those about {found.setting.units} are of none."
        )
    kept = _columns_to_keep(found, keep or []) if found.setting.answers_rows else {}
    answers = found.setting.answer(fitted, found.dataset, top=top, exclude_seen=exclude_seen)
    for note in answers.notes:
        echo_err(note)
    columns = answers.columns
    if answers.rows is not None:
        columns = _add_columns(columns, kept, answers.rows)
    write_columns(output, columns)
    n_rows = len(next(iter(columns.values()), []))
    typer.echo(f"{counted(n_rows, 'rows')} written to {output}")


def _write_bags(fitted: Any, found: LoadedData, output: Path, keep: Sequence[str] | None) -> None:
    from groupnoise.bags.object_predictions import predict_bags_table
    from groupnoise.io.answer_files import write_columns

    if found.setting.name != "mil":
        raise ParameterError(f"--bags is for bags; {found.source} is {found.setting.name} data.")
    if keep:
        raise ParameterError("--keep goes with answers about rows; leave out --bags.")
    columns = predict_bags_table(fitted, found.dataset)
    write_columns(output, columns)
    n_without = sum(not labels for labels in columns["labels"])
    without = f"; {n_without} without a label (empty cell)" if n_without else ""
    typer.echo(f"{counted(len(columns['bag']), 'bags')} written to {output}{without}")


def _write_per_bag(
    model: Path,
    data: str,
    options: DataOptions,
    output: Path | None,
    form: str,
    keep: Sequence[str] | None,
) -> None:
    """Write predictions of objects to a file per bag."""
    from groupnoise.bags.embedding.sources import find_sources
    from groupnoise.bags.object_predictions import FORMS, predict_objects, write_object_predictions
    from groupnoise.bags.reading.folder import is_bag_folder
    from groupnoise.bags.source_predictions import write_into_sources
    from groupnoise.core.checks import check_choice
    from groupnoise.io.files import check_not_own_input

    check_choice("--to", form, (*FORMS, SOURCE))
    if keep:
        raise ParameterError("--keep goes with one table of answers; leave out --to.")
    if (output is None) != (form == SOURCE):
        raise ParameterError(
            f"--to {form} writes into the files of DATA; leave out --output."
            if form == SOURCE
            else f"--to {form} needs the folder to write, with --output (-o)."
        )
    if output is not None:
        check_not_own_input(output, data)
    fitted, found, _ = load_model_and_data(model, data, options, needs_labels=False)
    if found.setting.name != "mil":
        raise ParameterError(f"--to is for bags; {data} is {found.setting.name} data.")
    answers = predict_objects(fitted, found.dataset)
    if output is None:
        if not (found.is_file and is_bag_folder(data, found.options.get("labels"), False)):
            raise ParameterError(f"{data} has no .h5 file per bag, which --to source writes into.")
        files = write_into_sources(data, answers, found.options.get("labels"))
        typer.echo(f"added to {counted(len(files), 'files')} of {data}, as group 'groupnoise'")
        return
    side = find_sources(data, None).size
    size = None if side is None else (side, side)
    files = write_object_predictions(output, answers, form, size=size)
    typer.echo(f"{counted(len(files), 'files')} written to {output}")


def _columns_to_keep(found: LoadedData, requested: Sequence[str]) -> dict[str, list[Any]]:
    """Return the columns of the input to write beside predictions: ids and --keep."""
    from groupnoise.io.columns.exclusions import is_id_name
    from groupnoise.io.columns.features import find_name_column
    from groupnoise.io.columns.roles import match_columns

    data = found.dataset
    has_rows = found.is_file and data.columns is not None and data.source_rows is not None
    if not requested and not has_rows:
        return {}
    table = found.table()
    names = table.frame.columns
    matched = (
        match_columns("column to keep", list(requested), names, table.origin) if requested else []
    )
    ids = [name for name in names if is_id_name(name)]
    parts = [
        [part] if isinstance(part, str) else part or [] for part in (data.columns or {}).values()
    ]
    words = None if ids else find_name_column(table, {name for part in parts for name in part})
    ids += [] if words is None else [words]
    kept = dict.fromkeys([*(name for name in ids if name not in matched), *matched])
    return {name: table.frame[name].to_list() for name in kept}


def _add_columns(
    answers: dict[str, list[Any]], kept: dict[str, list[Any]], rows: IntArray
) -> dict[str, list[Any]]:
    """Add columns of the input to the predictions, by source row."""
    from groupnoise.io.answer_files import rename_input_columns

    called = rename_input_columns(list(kept), answers)
    beside = {called[name]: [cells[row] for row in rows.tolist()] for name, cells in kept.items()}
    return answers | beside


@with_data_options
@describe_options(
    data=argument("Labelled data: the training data, or more of its kind."),
    output=option("Model folder to write.", "-o"),
)
def calibrate(model: ModelFolder, data: str, output: Path, options: DataOptions) -> None:
    """Recalibrate probabilities on groups that the model has not seen.

    Uses the held-out part of the training data, or all of other data. Where --truth names a column
    of true labels, instances and rows are calibrated on it. A change that does not help on further
    held-out groups is dropped; the output says what changed and how many labels did.

    Example: groupnoise calibrate model bags.csv -o calibrated
    """
    from groupnoise.io.files import check_not_own_input, check_writable_folder
    from groupnoise.io.folders.model_files import load_model
    from groupnoise.io.folders.training_record import (
        CalibrationRecord,
        read_calibration_record,
        write_calibration_record,
        write_training_record,
    )

    check_not_own_input(output, data)
    check_writable_folder(output)
    fitted, found, record = load_model_and_data(model, data, options)
    if not hasattr(fitted, "calibrate"):
        raise ParameterError(
            f"{model} holds a {type(fitted).__name__}, whose probabilities are not calibrated; "
            "max-matching on bags (mil) and candidate labels (pll) is."
        )
    dataset = found.dataset
    learned = None if record is None else record.of_log(found.setting.fingerprint(dataset))
    if learned is not None:
        check_held_out(learned, model, data)
        dataset = found.setting.subset(dataset, learned.rows)
    positional, _ = found.setting.arguments(dataset)
    truth = found.setting.known_labels(dataset) if "truth" in options.columns else None
    before = _predicted_labels(found, fitted, dataset)
    fitted.calibrate(*positional, truth=truth)
    # Loaded again: the first copy has lost the names of its columns.
    calibrated = load_model(model)
    calibrated._copy_calibration(fitted)
    is_taken = any(trial.is_taken for trial in fitted.calibration_trials_)
    calibrated_by = read_calibration_record(model)
    if is_taken:
        calibrated_by = CalibrationRecord.of(found.setting, dataset, calibrated_by)
    calibrated.save(output)
    if record is not None:
        write_training_record(output, record)
    if calibrated_by is not None:
        write_calibration_record(output, calibrated_by)
    for trial in fitted.calibration_trials_:
        typer.echo(str(trial))
    changed = [
        f"{sum(one != other for one, other in zip(then, now, strict=True))} of "
        f"{counted(len(now), units)}"
        for (units, then), now in zip(
            before.items(), _predicted_labels(found, fitted, dataset).values(), strict=True
        )
    ]
    typer.echo(f"labels that change: {', '.join(changed)}")
    n_groups = found.setting.n_groups(dataset)
    seen = " held out of training" if learned is not None else ""
    groups = f"{counted(n_groups, found.setting.units)}{seen}"
    judged = f"calibrated by {groups}" if is_taken else f"{groups} gave no reason to change it"
    typer.echo(f"{judged}; saved to {output}")


def _predicted_labels(found: LoadedData, fitted: Any, dataset: Any) -> dict[str, list[str]]:
    labels = found.setting.answer(fitted, dataset).columns["label"]
    if not hasattr(fitted, "predict_bags"):
        return {found.setting.units: labels}
    of_bags = [str(each) for each in fitted.predict_bags(dataset.bags).tolist()]
    return {found.setting.units: of_bags, "instances": labels}
