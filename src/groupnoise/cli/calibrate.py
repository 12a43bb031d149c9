"""`groupnoise calibrate`: a model and data in, an honest model out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.cli.evaluate import check_held_out
from groupnoise.cli.options import DataOptions, reads_data
from groupnoise.core.words import counted
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.cli.sources import Found


@reads_data
def calibrate(
    model: Annotated[Path, typer.Argument(help="Folder written by `groupnoise fit`.")],
    data: Annotated[
        str, typer.Argument(help="Labelled data: that of the training, or other of its kind.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Model folder to write.")],
    options: DataOptions,
) -> None:
    """Make probabilities honest with groups that the model has not seen.

    Of the data of its training what was held out, of other data all. Where --truth names a column
    of right labels, single instances and rows are calibrated by it. What would be no gain on groups
    that it was not fitted on is left as it is; it is told what changes, and how many labels do.

    Example: groupnoise calibrate model bags.csv -o calibrated
    """
    from groupnoise.cli.sources import find_model_and_data
    from groupnoise.io.files import check_not_own_input, check_writable_folder
    from groupnoise.io.model_files import load_model
    from groupnoise.io.training_record import (
        CalibrationRecord,
        read_calibration_record,
        write_calibration_record,
        write_training_record,
    )

    check_not_own_input(output, data)
    check_writable_folder(output)
    fitted, found, record = find_model_and_data(model, data, options)
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
    before = _labels_answered(found, fitted, dataset)
    fitted.calibrate(*positional, truth=truth)
    # Loaded anew, for the model that was asked has forgotten the names of its columns.
    calibrated = load_model(model)
    calibrated._take_calibration(fitted)
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
            before.items(), _labels_answered(found, fitted, dataset).values(), strict=True
        )
    ]
    typer.echo(f"labels that change: {', '.join(changed)}")
    n_groups = found.setting.n_groups(dataset)
    seen = " held out of training" if learned is not None else ""
    judged = "calibrated" if is_taken else "left as it was"
    typer.echo(f"{judged} by {counted(n_groups, found.setting.units)}{seen}; saved to {output}")


def _labels_answered(found: Found, fitted: Any, dataset: Any) -> dict[str, list[str]]:
    """Return the labels that a model answers, by what they are of."""
    labels = found.setting.answer(fitted, dataset).columns["label"]
    if not hasattr(fitted, "predict_bags"):
        return {found.setting.units: labels}
    of_bags = [str(each) for each in fitted.predict_bags(dataset.bags).tolist()]
    return {found.setting.units: of_bags, "instances": labels}
