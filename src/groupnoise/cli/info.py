"""`groupnoise info` and `groupnoise doctor`: describe a model, and check the installation."""

from __future__ import annotations

import importlib.util
import json
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.options import AsJson, ModelFolder, describe_options, option
from groupnoise.core.words import counted
from groupnoise.exceptions import ModelFileError

if TYPE_CHECKING:
    from groupnoise.io.folders.training_record import TrainingRecord

EXTRAS = {
    "data": ("pyarrow",),
    "recall": ("faiss",),
    "fast": ("numba",),
    "serve": ("fastapi", "uvicorn", "prometheus_client"),
    "plots": ("matplotlib", "PIL"),
    "fetch": ("pooch",),
    "h5": ("h5py",),
    "images": ("PIL",),
    "spreadsheet": ("openpyxl",),
    "zarr": ("zarr",),
    "text": ("sentence_transformers",),
    "vision": ("timm", "open_clip"),
    "client": ("httpx",),
    "onnx": ("onnx",),
    "mlflow": ("mlflow", "pandas"),
    "hub": ("huggingface_hub",),
    "ray": ("ray",),
}
CORE = ("torch", "numpy", "scipy", "scikit-learn", "safetensors")

MAX_MEMBERS = 5
MAX_CLASSES = 12
MAX_UPDATES = 5
"""Settings, classes and updates shown without `--all`."""
ABOUT = {"mil": "bags", "pll": "candidate labels", "rs": "clicks"}
WORDS: dict[str, dict[Any, str]] = {
    "likelihood": {
        "noisy_or": "some instance carries each label of its bag",
        "max": "the strongest instance decides for its bag",
        "soft_max": "the strongest instances decide for their bag",
        "odds": "the odds of all instances are summed",
        "average": "all instances are averaged",
        "mixture": "a fraction of the instances of a bag carries its label",
        "inherited": "every instance has the label of its bag",
        "label_set": "the exact probability of the bag's label set",
        "matching": "the paper's max-matching",
        "statistics": "the bag as a whole: mean, spread and range",
    },
    "encoder": {
        "identity": "linear",
        "linear": "linear",
        "mlp": "a small network",
        "kernel": "a kernel",
        "trees": "trees",
        "random trees": "extremely randomized trees",
        "recurrence": "a network that reads clicks in order",
        "deep recurrence": "a deeper network that reads clicks in order",
        None: "item embeddings",
    },
    "shared": {
        True: "one item embedding table",
        False: "separate embeddings for clicked and for next items",
    },
    "scaling": {
        "standard": "standardized features",
        "power": "features transformed to a normal distribution",
        "pieces": "binned features",
        "landmarks": "similarity to some of the instances",
        "rms": "features scaled without centring",
        "l2": "rows scaled to unit length",
    },
    "background": {True: "instances may be background"},
}
"""Explanations of values by parameter."""


@describe_options(
    show_all=option("Show every parameter and every setting that was tried.", "--all"),
    as_json=option("Print the whole manifest.", "--json"),
)
def info(model: ModelFolder, show_all: bool = False, as_json: bool = False) -> None:
    """Show what a model is, what it was trained on and what `fit` decided."""
    from groupnoise.io.folders.model_files import read_model_manifest, weights_path
    from groupnoise.io.folders.training_record import read_training_record

    manifest = read_model_manifest(model)
    if as_json:
        typer.echo(json.dumps(manifest, indent=2))
        return
    kind = _part(model, manifest, "kind", str)
    weights = weights_path(model, {"weights": _part(model, manifest, "weights", dict)})
    history = _part(model, manifest, "history", list)
    record = read_training_record(model)
    about = "" if record is None else f" of {ABOUT.get(record.setting, record.setting)}"
    typer.echo(f"{model}: {kind}{about}{_answers(model, manifest)}")
    n_updates = _show_trainings(record, show_all)
    _show_columns(record, _part(model, manifest, "fitted", dict), show_all)
    has_weights = weights.is_file()
    size = f"{weights.stat().st_size / 1e6:.1f} MB" if has_weights else "which is missing"
    epochs = f"; {counted(len(history), 'epochs')}" if history else ""
    version = manifest.get("groupnoise_version")
    by = f"; groupnoise {version}" if version else ""
    typer.echo(f"weights: {weights.name}, {size}{epochs}{by}")
    fitted = _part(model, manifest, "fitted", dict)
    n_groups = fitted.get("calibration_groups")
    if n_groups:
        temperature = _part(model, fitted, "calibration_temperature", float)
        told = "" if temperature == 1.0 else f": temperature {temperature:.3f}"
        typer.echo(f"calibrated by {counted(n_groups, 'groups')}{told}")
    if "decisions" in manifest:
        _show_decisions(_part(model, manifest, "decisions", dict), n_updates, show_all)
    _show_parameters(model, manifest, show_all, seeded=record is not None)


def _show_columns(record: TrainingRecord | None, fitted: dict[str, Any], show_all: bool) -> None:
    """Print the columns of a model's file by role."""
    from groupnoise.io.columns.names import NAMED_PARTS

    options = {} if record is None else record.options
    parts = [(part, options[part]) for part in NAMED_PARTS if options.get(part)]
    phrases = [
        f"{part} {', '.join([each] if isinstance(each, str) else each)}" for part, each in parts
    ]
    names = [str(each) for each in fitted.get("feature_names_in") or []]
    if names:
        n_shown = len(names) if show_all else MAX_CLASSES
        left = f", ... ({len(names)} in all)" * (len(names) > n_shown)
        phrases.append(f"features {', '.join(names[:n_shown])}{left}")
    if phrases:
        typer.echo(f"columns: {'; '.join(phrases)}")


def _answers(model: Path, manifest: dict[str, Any]) -> str:
    """Return the classes of a classifier, and how many features it reads."""
    holder = manifest if "classes" in manifest else _part(model, manifest, "fitted", dict)
    if "classes" not in holder:
        return ""
    try:
        names = [str(each) for each in holder["classes"]["values"]]
        n_features = int(holder["n_features_in"])
    except (KeyError, TypeError, ValueError):
        raise ModelFileError(f"{model} does not name its classes; restore or refit it.") from None
    shown = ", ".join(names[:MAX_CLASSES]) + ", ..." * (len(names) > MAX_CLASSES)
    return f"; {counted(len(names), 'classes')} ({shown}), {counted(n_features, 'features')}"


def _show_trainings(record: TrainingRecord | None, show_all: bool) -> int:
    """Print the trainings of a model; return the number of updates."""
    if record is None:
        typer.echo("what it was trained on is not recorded: it was saved from Python")
        return 0
    if not record.trainings:
        typer.echo(f"trained on {record.name}: {counted(record.n_groups, 'groups')}")
    first, updates = record.trainings[:1], record.trainings[1:]
    n_hidden = 0 if show_all else max(0, len(updates) - MAX_UPDATES)
    for each in (*first, *updates[n_hidden:]):
        if n_hidden and each is updates[n_hidden]:
            typer.echo(f"... {counted(n_hidden, 'earlier updates')}, which --all shows")
        typer.echo(
            f"{each['step']} {each['data']}, {each['ended']}: {each['contents']}; {each['result']}"
        )
    return len(record.added)


def _show_decisions(record: dict[str, Any], n_updates: int, show_all: bool) -> None:
    """Print the chosen settings, the reasons and their held-out score."""
    from groupnoise.decisions.record import Decisions

    decisions = Decisions.from_record(record)
    n_taken, n_tried = len(decisions.taken), len({each.option for each in decisions.trials})
    tried = f"tried {counted(n_tried, 'settings')}"
    first = "the first fit (updates keep its settings), which" if n_updates else "fit, which"
    typer.echo(f"\ndecided by {first} {tried}")
    rows = decisions.table() if n_tried else []
    n_shown = len(rows) if show_all else min(n_taken, MAX_MEMBERS)
    for row in rows[:n_shown]:
        weight = f"{row['weight']:.0%}" if row["weight"] else ""
        score = "" if row["score"] is None else f"{row['score']:.4f}"
        columns = f"{weight:>4} {score:>8} " if show_all else f"{weight:>4} " * (n_taken > 1)
        words = (row["option"], explained(row["parameters"]), row["note"])
        typer.echo(f"  {columns}{': '.join(each for each in words if each)}")
    if rows and n_taken > n_shown:
        rest = sum(row["weight"] for row in rows[n_shown:])
        typer.echo(f"  {rest:>4.0%} {counted(n_taken - n_shown, 'others')}, which --all shows")
    for sentence in decisions.reasons:
        typer.echo(f"  {sentence}")
    if decisions.reached is not None:
        simple = "".join(
            f"; baseline {name} {value:.3f}" for name, value in decisions.baselines.items()
        )
        when = " before the updates" if n_updates else ""
        told = f"{decisions.whose_score}{when}: {decisions.reached:.3f}{simple}"
        typer.echo(f"held-out score {told} ({decisions.criterion})")
    for sentence in decisions.warnings:
        typer.echo(f"warning: {sentence}")


def _show_parameters(model: Path, manifest: dict[str, Any], show_all: bool, seeded: bool) -> None:
    """Show the parameters that are not at their defaults, or all of them.

    `seeded`: whether `groupnoise fit` made the model, whose `--seed` is 0 unless one is given.
    """
    from groupnoise.reproduce.methods import parameters_of_class

    parameters = _part(model, manifest, "parameters", dict)
    chosen = _part(model, manifest, "trade_off", dict)
    defaults = json.loads(json.dumps(parameters_of_class(manifest["kind"])))
    if seeded and "random_state" in defaults:
        defaults["random_state"] = 0
    given = {
        name: value
        for name, value in parameters.items()
        if show_all or name in chosen or name not in defaults or defaults[name] != value
    }
    if given:
        typer.echo("\nparameters" if show_all else "\nparameters that were given")
    else:
        typer.echo("\nno parameters were given")
    for name, value in given.items():
        choice = f", which chose {chosen[name]!r}" if value == "auto" and name in chosen else ""
        typer.echo(f"  {name} = {value!r}{choice}")
    n_others = len(parameters) - len(given)
    if n_others:
        typer.echo(f"  {counted(n_others, 'others')} at their defaults (--all shows them)")


def _part(model: Path, manifest: dict[str, Any], name: str, kind: type) -> Any:
    """Return a part of a manifest of the right type, empty if optional and absent."""
    may_lack = name in ("history", "trade_off", "parameters", "fitted")
    value = kind() if may_lack and manifest.get(name) is None else manifest.get(name)
    if not isinstance(value, kind):
        raise ModelFileError(
            f"{model} holds no {kind.__name__} under {name!r} of its manifest; restore or refit it."
        )
    return value


def doctor(as_json: AsJson = False) -> None:
    """Check versions, extras, data folders and threads; exit code 1 on a problem."""
    report = examine()
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        for name, value in report["versions"].items():
            typer.echo(f"{name:<16}{value}")
        for extra, missing in report["extras"].items():
            words = "ready" if not missing else f"missing {', '.join(missing)}"
            typer.echo(f"{'[' + extra + ']':<16}{words}")
        typer.echo(f"{'data':<16}{', '.join(report['data_directories']) or 'none found'}")
        typer.echo(f"{'cores':<16}{report['cores']} (torch threads {report['torch_threads']})")
        typer.echo(f"{'threads':<16}{report['threads']}")
        for problem in report["problems"]:
            typer.secho(f"problem: {problem}", fg="yellow")
    if report["problems"]:
        raise typer.Exit(1)


def examine() -> dict[str, Any]:
    """Return what `doctor` reports."""
    from importlib.metadata import PackageNotFoundError, version

    import torch

    from groupnoise import __version__
    from groupnoise.core.threads import available_cores, configure_threads
    from groupnoise.io.registry import data_directories

    versions = {"groupnoise": __version__, "python": platform.python_version()}
    problems = []
    for package in CORE:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            problems.append(f"{package} is not installed; reinstall groupnoise.")
    cores, threads = available_cores(), torch.get_num_threads()
    if threads > cores:
        problems.append(
            f"torch uses {threads} threads on {cores} cores; set OMP_NUM_THREADS={cores}."
        )
    return {
        "versions": versions,
        "extras": {
            extra: [name for name in packages if importlib.util.find_spec(name) is None]
            for extra, packages in EXTRAS.items()
        },
        "data_directories": [str(path) for path in data_directories() if path.is_dir()],
        "cores": cores,
        "torch_threads": threads,
        "threads": configure_threads().reason,
        "problems": problems,
    }


def explained(parameters: Mapping[str, Any]) -> str:
    """Return an explanation of parameters, empty if there is none.

    >>> explained({"likelihood": "max", "encoder": "mlp", "scaling": "l2", "weight_decay": 0.1})
    'the strongest instance decides for its bag; a small network; rows scaled to unit length'
    >>> explained({"encoder": ("recurrence", None)})
    'the average of a network that reads clicks in order and item embeddings'
    """
    parts = []
    for name, words in WORDS.items():
        value = parameters.get(name, "")
        if name == "encoder" and parameters.get("likelihood") == "statistics":
            continue  # it sees no instance
        if name == "encoder" and isinstance(value, tuple):
            kinds = [words[each] for each in dict.fromkeys(value) if each in words]
            parts.append(f"the average of {' and '.join(kinds)}")
        elif name != "shared" or parameters.get("encoder", "") is None:
            parts += [words[value]] if value in words else []
    return "; ".join(parts)
