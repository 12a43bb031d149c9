"""`groupnoise calibrate`: a model and data it has not seen in, honest probabilities out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from groupnoise.cli.options import DataOptions, reads_data
from groupnoise.exceptions import ParameterError


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

    Of the data of its training what was held out, of other data all. Which label is likeliest
    does not change.

    Example: groupnoise calibrate model bags.csv -o calibrated
    """
    from groupnoise.cli.evaluate import check_held_out
    from groupnoise.cli.sources import find_model_and_data
    from groupnoise.io.files import check_not_own_input, check_writable_folder
    from groupnoise.io.model_files import load_model
    from groupnoise.io.training_record import write_training_record

    check_not_own_input(output, data)
    check_writable_folder(output)
    fitted, found, record = find_model_and_data(model, data, options)
    if not hasattr(fitted, "calibrate"):
        raise ParameterError(
            f"{model} holds a {type(fitted).__name__}, whose probabilities are not calibrated; "
            "max-matching on bags (mil) and candidate labels (pll) is."
        )
    dataset = found.dataset
    is_same = record is not None and record.fingerprint == found.setting.fingerprint(dataset)
    if is_same:
        check_held_out(record, is_same, model, data)
        assert record is not None
        dataset = found.setting.subset(dataset, record.rows)
    positional, _ = found.setting.arguments(dataset)
    fitted.calibrate(*positional)
    # Loaded anew, for the model that was asked has forgotten the names of its columns.
    calibrated = load_model(model)
    calibrated.calibration_temperature_ = fitted.calibration_temperature_
    calibrated.save(output)
    if record is not None:
        write_training_record(output, record)
    n_groups = found.setting.n_groups(dataset)
    seen = " held out of training" if is_same else ""
    typer.echo(
        f"temperature {fitted.calibration_temperature_:.3f} from {n_groups} "
        f"{found.setting.units}{seen}; saved to {output}"
    )
