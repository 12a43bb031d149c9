"""`groupnoise evaluate`: score a model on data."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.options import (
    AsJson,
    DataName,
    DataOptions,
    ModelFolder,
    check_output,
    describe_options,
    echo_err,
    option,
    with_data_options,
)
from groupnoise.cli.sources import LoadedData, load_model_and_data, warn_if_split_differs
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, ParameterError

if TYPE_CHECKING:
    from groupnoise.clicks.evaluation.recall_metrics import Interval
    from groupnoise.io.folders.training_record import TrainingRecord
    from groupnoise.io.setting import Evaluation

PARTS = ("held-out", "all")
DEFAULT_AT = "10"
MAJORITY_NOTE = (
    "majority: the most frequent label of the data scored here, as the model does not record "
    "the label frequencies of its training data"
)
MIN_OF_CLASS, MAX_FEW = 3, 5
"""Groups of a class needed for reliable figures, and classes listed otherwise."""
MIN_GROUPS = 10
"""Groups needed for reliable figures."""
MAX_CLASSES = 20
"""Classes whose figures are printed at most; `--json` has all."""


@with_data_options
@describe_options(
    on=option(
        "On the training data: score held-out groups or all.",
        show_default="held-out",
    ),
    protocol=option(
        "rs: which clicks to predict: last, leave_one_out, authors, time:0.9, "
        "time:2016-05-31:successive, cold_users.",
        show_default="that of fit, or last",
    ),
    at="rs: cutoffs of HIT, NDCG and MRR, separated by commas.",
    against="rs: second model to compare on the same targets, per user.",
    per_user="rs: write one row per target to this .parquet, .csv or .jsonl file.",
    page="Also write an HTML page of figures and (mil, pll) risk-coverage curves.",
    seed=option("rs: random seed of sampled negatives and intervals.", min=0),
)
def evaluate(
    model: ModelFolder,
    data: DataName,
    options: DataOptions,
    on: str | None = None,
    protocol: str | None = None,
    at: str = DEFAULT_AT,
    against: Path | None = None,
    per_user: Path | None = None,
    page: Path | None = None,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Score a model on new data, or on the held-out part of its training data.

    Bags are scored per bag and, where true labels are known, per instance; rows by their
    candidates and true labels; histories by their last click, or the clicks of a protocol.
    """
    from groupnoise.core.checks import check_choice
    from groupnoise.io.answer_files import check_format, write_columns
    from groupnoise.io.files import write_text
    from groupnoise.io.folders.model_files import weights_digest
    from groupnoise.io.folders.training_record import read_training_record
    from groupnoise.io.setting import evaluation_record
    from groupnoise.pages import evaluation_page

    if on is not None:
        check_choice("--on", on, PARTS)
    if per_user is not None:
        check_format(per_user, "--per-user")
    check_output(per_user)
    check_output(page)
    fitted, found, record = load_model_and_data(model, data, options)
    fingerprint = found.setting.fingerprint(found.dataset)
    learned = None if record is None else record.of_log(fingerprint)
    part = on or ("held-out" if learned is not None else "all")
    if protocol is None and learned is not None and part == "held-out":
        protocol = learned.protocol or None
    options_given = _evaluation_options(found, protocol, at, against, per_user)
    asked = options_given.get("protocol")
    if asked is not None:
        part = _check_protocol(learned, asked, on, model)
    elif part == "held-out":
        check_held_out(learned, model, data)
    rows = learned.rows if learned is not None and part == "held-out" else None
    if rows is not None and "split" in options.given:
        warn_if_split_differs(found, rows)
    if not found.setting.judged_by_protocol:
        options_given["shares"] = {} if record is None else record.shares
    result = found.setting.evaluate(fitted, found.dataset, rows, seed=seed, **options_given)
    warnings = _small_sample_notes(result, found.setting.units, part)
    result = replace(result, notes=(*warnings, *result.notes))
    ahead: dict[str, Interval] = {}
    if against is not None:
        ahead = _compare_models(result, against, found, learned, rows, seed, options_given)
    trained_on: int | None = 0
    other_trained_on: int | None = 0
    count_learned = partial(_count_learned, found, result, fingerprint, asked)
    if part != "held-out":
        trained_on = count_learned(model, record)
    known_names = (
        {} if learned is not None else _count_known_names(found, trained_on, model, record)
    )
    if against is not None and rows is None:
        other_trained_on = count_learned(against, read_training_record(against))
    if per_user is not None:
        write_columns(per_user, {name: cells.tolist() for name, cells in result.rows.items()})
    if getattr(fitted, "calibration_groups_", None):
        _warn_if_calibrated_on(model, found, result, rows)
    about_groups = _describe_groups(found, result, part, trained_on, record, known_names)
    about_groups += f", {asked}" if asked is not None else ""
    if page is not None:
        title = f"{model.name} on {found.dataset.name}"
        write_text(page, evaluation_page(result, title=title, about=about_groups))
    if as_json:
        about: dict[str, Any] = {"model": str(model), "weights": weights_digest(model)}
        about |= {"data": found.dataset.name, "on": part}
        about |= {} if asked is None else {"protocol": asked}
        if ahead:
            about[f"ahead of {against}"] = {name: list(each) for name, each in ahead.items()}
            about["other_trained_on"] = other_trained_on
        if warnings:
            about["warnings"] = list(warnings)
        if any(known_names.values()):
            about["named_as_trained"] = known_names
        answer = {**about, "trained_on": trained_on, **evaluation_record(result)}
        typer.echo(json.dumps(answer, indent=2))
        return
    of_scored = [MAJORITY_NOTE] if options_given.get("shares") == {} else []
    for sentence in (about_groups, *result.notes, *of_scored):
        typer.echo(sentence)
    _show(result)
    _show_ahead(ahead, against)
    for name, path in (("rows", per_user), ("page", page)):
        if path is not None:
            typer.echo(f"{name}: {path}")


def _evaluation_options(
    found: LoadedData, protocol: str | None, at: str, against: Path | None, per_user: Path | None
) -> dict[str, Any]:
    """Return the options for click logs, refusing them for other data."""
    given = {"--protocol": protocol, "--against": against, "--per-user": per_user}
    asked = [name for name, value in given.items() if value is not None]
    asked += ["--at"] if at != DEFAULT_AT else []
    if not found.setting.judged_by_protocol:
        if asked:
            raise ParameterError(
                f"{asked[0]} is for click logs (rs); {found.dataset.name} is "
                f"{found.setting.name} data."
            )
        return {}
    from groupnoise.clicks.evaluation.splits import ClickProtocol

    words = [word.strip() for word in at.split(",")]
    if not all(word.isdigit() and int(word) > 0 for word in words):
        raise ParameterError(f"--at takes lengths of a list such as 5,10,50; got {at!r}.")
    options_given: dict[str, Any] = {"at": tuple(dict.fromkeys(map(int, words)))}
    if protocol is not None:
        options_given["protocol"] = ClickProtocol.parse(protocol).word
    return options_given


def _check_protocol(
    record: TrainingRecord | None, protocol: str, on: str | None, model: Path
) -> str:
    """Return whether the targets of a protocol were held out; refuse those trained on."""
    if record is None:
        return "all"
    if record.protocol == protocol:
        return "held-out"
    if on != "all":
        held = f"--protocol {record.protocol}" if record.protocol else "another part of it"
        raise ParameterError(
            f"{model} was trained on this log with {held} held out, so it has seen the targets of "
            f"{protocol}; fit it with --protocol {protocol}, or say --on all."
        )
    return "all"


def _compare_models(
    result: Evaluation,
    against: Path,
    found: LoadedData,
    record: TrainingRecord | None,
    rows: Any,
    seed: int,
    options_given: dict[str, Any],
) -> dict[str, Interval]:
    """Return paired differences to another model with the same held-out clicks."""
    from groupnoise.clicks.evaluation.evaluate import paired_differences
    from groupnoise.io.folders.model_files import load_model
    from groupnoise.io.folders.training_record import read_training_record

    theirs = read_training_record(against)
    if rows is not None and record is not None:
        theirs = None if theirs is None else theirs.of_log(record.fingerprint)
        held = (record.protocol, record.held_out)
        if theirs is None or (theirs.protocol, theirs.held_out) != held:
            raise ParameterError(
                f"{against} did not hold out the same clicks of {found.dataset.name}; fit both "
                "with the same --protocol, or with the same --validation and --seed."
            )
    other = found.setting.evaluate(
        load_model(against), found.dataset, rows, seed=seed, **options_given
    )
    return paired_differences(result, other, seed=seed)


def _show_ahead(ahead: dict[str, Interval], against: Path | None) -> None:
    if not ahead:
        return
    typer.echo(f"\nahead of {against}, 95 % interval over users")
    for name, found in ahead.items():
        level = ", level" if found.low <= 0 <= found.high else ""
        typer.echo(f"{name:<28}{found.mean:>8.4f}  [{found.low:.4f}, {found.high:.4f}]{level}")


def check_held_out(record: TrainingRecord | None, model: Path, data: str) -> None:
    """Refuse to score held-out groups if there are none; `record`: of these data, if any."""
    if record is None:
        raise ParameterError(
            f"{data} is not the data that {model} was trained on, so none of it was held out; "
            "leave out --on."
        )
    if not record.held_out:
        raise DataError(
            f"{model} was trained on all of {data}, nothing was held out; give other data, fit "
            "with --validation 0.1, or say --on all."
        )


def _count_learned(
    found: LoadedData,
    result: Evaluation,
    fingerprint: str,
    protocol: str | None,
    model: Path,
    record: TrainingRecord | None,
) -> int | None:
    """Return how many scored groups were trained on, and warn; None if unrecorded."""
    if record is None:
        return None
    learned, n_groups = record.of_log(fingerprint), result.counts["groups"]
    if learned is None:
        scored = found.setting.scored(found.dataset, result)
        n_learned = record.n_trained_among(found.setting, scored)
    elif protocol is None:
        n_learned = max(0, n_groups - len(learned.held_out))
    else:  # under another protocol than that of the training any target may have been trained on
        n_learned = 0 if learned.protocol == protocol else n_groups
    if n_learned:
        echo_err(
            f"warning: {model} learned from {n_learned} of the "
            f"{counted(n_groups, found.setting.units)} scored, so these figures flatter it."
        )
    return n_learned


def _count_known_names(
    found: LoadedData, n_trained: int | None, model: Path, record: TrainingRecord | None
) -> dict[str, int]:
    """Return how many groups share "names" or "patients" with the training data, and warn."""
    if record is None:
        return {}
    marked = record.named_as_trained(found.setting, found.dataset)
    counts = {part: int(is_so.sum()) for part, is_so in marked.items()}
    units = counted(found.setting.n_groups(found.dataset), found.setting.units)
    n_named, n_of_patients = (counts.get(part, 0) for part in ("names", "patients"))
    if (n_others := n_named - (n_trained or 0)) > 0:
        echo_err(
            f"warning: {n_others} of the {units} scored have names of those that {model} learned "
            "from, and other values; if they are the same, these figures flatter it."
        )
    if n_of_patients > max(n_named, n_trained or 0):
        echo_err(
            f"warning: {n_of_patients} of the {units} scored come from patients that {model} "
            "learned from, so these figures flatter it."
        )
    return counts


def _warn_if_calibrated_on(model: Path, found: LoadedData, result: Evaluation, rows: Any) -> None:
    """Warn if probabilities are scored on groups used for calibration."""
    from groupnoise.io.folders.training_record import read_calibration_record

    record, units = read_calibration_record(model), found.setting.units
    flattered = "calibration error and log loss flatter it."
    if record is None:
        echo_err(f"warning: {model} was calibrated on unrecorded {units}; if on these, {flattered}")
        return
    setting, dataset = found.setting, found.dataset
    scored = setting.scored(dataset, result) if rows is None else setting.subset(dataset, rows)
    n_seen = record.n_among(setting, scored)
    if n_seen:
        echo_err(
            f"warning: {model} was calibrated on {n_seen} of the "
            f"{counted(result.counts['groups'], units)} scored, so {flattered}"
        )


def _describe_groups(
    found: LoadedData,
    result: Evaluation,
    part: str,
    trained_on: int | None,
    record: TrainingRecord | None,
    known_names: dict[str, int],
) -> str:
    n_groups = result.counts["groups"]
    n_users = result.counts.get("users_asked", n_groups)
    asked = counted(n_groups, found.setting.units)
    if n_users < n_groups:  # several targets of a user are no further users
        asked = f"{counted(n_groups, 'targets')} of {counted(n_users, 'users')}"
    groups = f"{found.dataset.name}: {asked}"
    if part == "held-out":
        return f"{groups}, held out of training"
    if trained_on is None or record is None:
        return f"{groups}; the model does not say what it was trained on"
    whole = " with the click asked for" if found.setting.judged_by_protocol else ""
    if trained_on:
        return f"{groups}, {trained_on} of them trained on{whole}"
    by_name = f", but {n_named} by their names" if (n_named := known_names.get("names")) else ""
    return f"{groups}, none of them trained on{whole}, compared by their values{by_name}"


def _small_sample_notes(result: Evaluation, units: str, part: str) -> tuple[str, ...]:
    """Return notes on unreliable figures of few groups."""
    n_groups = result.counts.get("users_asked", result.counts["groups"])
    if n_groups >= MIN_GROUPS:
        n_of = {name: found.get(units, MIN_OF_CLASS) for name, found in result.per_class.items()}
        few = [f"{name} ({n})" for name, n in n_of.items() if n < MIN_OF_CLASS]
        if not few:
            return ()
        shown = ", ".join([*few[:MAX_FEW], "..."] if len(few) > MAX_FEW else few)
        return (
            f"few {units} have {shown}: figures of these classes, and means over classes, are "
            "unreliable",
        )
    remedy = "hold out more (`fit --validation 0.3`) or give other data"
    return (
        f"of {counted(n_groups, units)}: says little, as do all figures of fewer than "
        f"{MIN_GROUPS}; {remedy if part == 'held-out' else 'give more data'}",
    )


def _show(result: Evaluation) -> None:
    longest = max(26, *(len(name) for name in result.metrics)) + 2
    if result.baseline:
        typer.echo(f"{'':<{longest}}{'model':>8}{result.baseline_name:>12}")
    for name, value in result.metrics.items():
        other = result.baseline.get(name)
        cell = f"{other:>12.4f}" if other is not None else " " * 12 * bool(result.baseline)
        ends = result.intervals.get(name)
        spread = "" if ends is None else f"   [{ends[0]:.4f}, {ends[1]:.4f}]"
        typer.echo((f"{name:<{longest}}{value:>8.4f}{cell}" + spread).rstrip())
    if not result.per_class:
        return
    figures = list(dict.fromkeys(name for found in result.per_class.values() for name in found))
    width = max(5, min(24, max(map(len, result.per_class))))
    widths = [max(7, len(name) + 2) for name in figures]
    titles = [name.rjust(n) for name, n in zip(figures, widths, strict=True)]
    typer.echo(f"\n{result.breakdown:<{width}}" + "".join(titles))
    for number, (label, found) in enumerate(result.per_class.items()):
        if number == MAX_CLASSES:
            typer.echo(f"... and {len(result.per_class) - number} more; see --json")
            break
        cells = [_cell(found.get(name)).rjust(n) for name, n in zip(figures, widths, strict=True)]
        typer.echo(f"{label[:width]:<{width}}" + "".join(cells))


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.3f}"
