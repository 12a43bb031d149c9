"""`groupnoise info` and `groupnoise doctor`: what a model is, and what this machine has."""

from __future__ import annotations

import importlib.util
import json
import platform
from pathlib import Path
from typing import Annotated, Any

import typer

EXTRAS = {
    "data": ("pyarrow",),
    "recall": ("faiss",),
    "fast": ("numba",),
    "serve": ("fastapi", "uvicorn", "prometheus_client"),
    "plots": ("matplotlib", "PIL"),
    "fetch": ("pooch",),
    "h5": ("h5py",),
    "images": ("PIL",),
    "client": ("httpx",),
    "onnx": ("onnx",),
    "mlflow": ("mlflow", "pandas"),
    "hub": ("huggingface_hub",),
    "ray": ("ray",),
}
CORE = ("torch", "numpy", "scipy", "scikit-learn", "safetensors")


def info(
    model: Annotated[Path, typer.Argument(help="Folder written by `groupnoise fit`.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole manifest.")] = False,
) -> None:
    """Show what a model folder holds, without loading the weights."""
    from groupnoise.io.model_files import read_model_manifest

    manifest = read_model_manifest(model)
    if as_json:
        typer.echo(json.dumps(manifest, indent=2))
        return
    kind = _part(model, manifest, "kind", str)
    weights = _weights_file(model, _part(model, manifest, "weights", dict).get("file"))
    history = _part(model, manifest, "history", list)
    chosen = _part(model, manifest, "trade_off", dict)
    parameters = _part(model, manifest, "parameters", dict)
    size = weights.stat().st_size / 1e6 if weights.is_file() else 0.0
    typer.echo(f"{kind}, groupnoise {manifest.get('groupnoise_version', 'unknown')}")
    typer.echo(f"weights  {weights.name}, {size:.1f} MB")
    if history or "decisions" not in manifest:  # a search has trials, which are told below
        typer.echo(f"epochs   {len(history)}")
    fitted = _part(model, manifest, "fitted", dict)
    n_groups = fitted.get("calibration_groups")
    if n_groups:
        temperature = _part(model, fitted, "calibration_temperature", float)
        typer.echo(f"calibrated by {n_groups} groups: temperature {temperature:.3f}")
    for name, value in parameters.items():
        choice = f", which chose {chosen[name]!r}" if value == "auto" and name in chosen else ""
        typer.echo(f"  {name} = {value!r}{choice}")
    if "decisions" in manifest:
        from rich.console import Console

        from groupnoise.decisions import Decisions
        from groupnoise.decisions.record import render_decisions

        record = Decisions.from_record(_part(model, manifest, "decisions", dict))
        Console(highlight=False).print(render_decisions(record))


def _part(model: Path, manifest: dict[str, Any], name: str, kind: type) -> Any:
    """Return a part of a manifest, empty where baselines leave it out, of the right type."""
    from groupnoise.exceptions import ModelFileError

    may_lack = name in ("history", "trade_off", "parameters", "fitted")
    value = kind() if may_lack and manifest.get(name) is None else manifest.get(name)
    if not isinstance(value, kind):
        raise ModelFileError(
            f"{model} holds no {kind.__name__} under {name!r} of its manifest; restore or refit it."
        )
    return value


def _weights_file(model: Path, name: Any) -> Path:
    from groupnoise.exceptions import ModelFileError
    from groupnoise.io.files import file_in

    try:
        path = file_in(model, name)
        path.is_file()
    except (OSError, ValueError):
        raise ModelFileError(f"{model} does not name a weights file of its own folder.") from None
    return path


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Check versions, extras, the data directory and threads; exit code 1 if something is off."""
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
