"""Result files with the provenance of their figures, and the tables made from them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.io.files import write_json
from groupnoise.pages import markdown_table
from groupnoise.reproduce.jobs import append_line, read_lines
from groupnoise.reproduce.provenance import checkout, processor_name, versions_in_use

RESULTS = Path(__file__).parent / "results"
Row = dict[str, Any]

_STARTED = time.perf_counter()


def write_result(name: str, payload: Mapping[str, Any], packages: tuple[str, ...] = ()) -> Path:
    """Write `benchmarks/results/<name>.json` and return its path."""
    path = RESULTS / f"{name}.json"
    record = {
        "name": name,
        "command": _command(),
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "versions": {**versions_in_use(), **{name: _version(name) for name in packages}},
        **checkout(),
        "hardware": {
            "cpu": processor_name(),
            "cores": os.cpu_count(),
            "threads": os.environ.get("OMP_NUM_THREADS", "unset"),
            "load": round(os.getloadavg()[0], 2),
        },
        "wall_seconds": round(time.perf_counter() - _STARTED, 1),
        **payload,
    }
    write_json(path, _without_machine_paths(record))
    return path


def in_percent(values: Iterable[float], single: str = "per_seed") -> dict[str, Any]:
    """Return mean and deviation of some shares in percent, and each of them under `single`."""
    percent = [100 * float(value) for value in values]
    return {
        "mean": round(float(np.mean(percent)), 1),
        "deviation": round(float(np.std(percent, ddof=1)), 1) if len(percent) > 1 else None,
        single: [round(value, 1) for value in percent],
    }


def recorded(name: str, part: str = "rows", kind: Callable[[], Any] = list) -> Any:
    """Return a part of a result file, empty if there is no such file."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))[part] if path.is_file() else kind()


def replace_row(rows: Iterable[Row], row: Row, key: Sequence[str]) -> list[Row]:
    """Return rows with a further one, which replaces an earlier one of the same `key`."""
    own = [row[name] for name in key]
    return [*(each for each in rows if [each[name] for name in key] != own), row]


def run_missing(
    log: Path, places: Iterable[Row], run: Callable[..., Row]
) -> Iterator[tuple[Row, list[Row]]]:
    """Run the trials that a log lacks; yield each trial, and all of the log with it.

    `places`: the arguments of `run`, which its row holds too.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    done = read_lines(log, dict)
    for place in places:
        row = next((each for each in done if place.items() <= each.items()), None)
        if row is None:
            row = run(**place)
            done.append(row)
            append_line(log, row)
        yield row, done


def markdown(head: Iterable[object], rows: Iterable[Iterable[object]], *below: str) -> str:
    """Return a table for a page, and the sentences below it."""
    table = markdown_table(head, rows)
    return "\n".join([table, "", *below] if below else [table])


def best_in_bold(values: Sequence[float | None], form: str = ".3f") -> list[str]:
    """Return the cells of figures, the largest of them in bold; empty for None."""
    best = max((value for value in values if value is not None), default=None)
    marks = ["**" if value == best else "" for value in values]
    return [
        "" if value is None else f"{mark}{value:{form}}{mark}"
        for value, mark in zip(values, marks, strict=True)
    ]


def svg_plots() -> Any:
    """Return pyplot with reproducible SVG output."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "groupnoise"
    import matplotlib.pyplot as plt

    return plt


def _command() -> str:
    """Return the command line as it would be typed, the script relative to the repository."""
    root = Path(__file__).parents[1]
    script = Path(sys.argv[0]).resolve()
    shown = script.relative_to(root) if script.is_relative_to(root) else Path(script.name)
    return shlex.join(["python", str(shown), *sys.argv[1:]])


def _without_machine_paths(value: Any) -> Any:
    """Return a record without the paths of this machine."""
    if isinstance(value, Mapping):
        return {name: _without_machine_paths(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_machine_paths(part) for part in value]
    if not isinstance(value, str):
        return value
    places = {argument: Path(argument).name for argument in sys.argv[1:] if argument[:1] == "/"}
    if os.environ.get("GROUPNOISE_DATA"):
        places[os.environ["GROUPNOISE_DATA"]] = "DATA"
    places |= {str(Path(__file__).parents[1]): ".", str(Path.home()): "~"}
    places |= {tempfile.gettempdir(): "TEMPORARY"}
    for place, shown in places.items():
        value = value.replace(place, shown)
    return value


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
