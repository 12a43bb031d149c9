"""Update a recommender every night: convert, fit --from, evaluate, compare, promote or keep.

    python examples/nightly.py clicks.parquet work 2026-01-31
    groupnoise serve work/registry                      # follows what is promoted

Models are compared on the newest clicks, which neither was trained on: for each user who clicked in
that time, the first such click is predicted. Tonight's model is promoted unless it is significantly
worse. A failed night changes nothing that is served, and the same command repeats it. With options
of `fit` after `--` a new model is trained instead. `nightly_airflow.py` runs the same steps as
tasks.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl

TEST_SHARE = 0.05
"""Fraction of the newest clicks that is held out of training."""
MEASURE = "NDCG@10"


def groupnoise(*words: object) -> str:
    """Run a command and return its output; exit if it fails."""
    line = [sys.executable, "-m", "groupnoise", *map(str, words)]
    done = subprocess.run(line, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def split(log: Path, work: Path, night: str) -> None:
    """Cut the log (user, item and time, a number) into training and test clicks."""
    folder = work / night
    if served_model(work) == folder / "model":
        sys.exit(f"{night} is what is served; give the night another name.")
    clicks = pl.scan_csv(log) if log.suffix == ".csv" else pl.scan_parquet(log)
    columns = clicks.collect_schema()
    if not {"user", "item", "time"} <= set(columns) or not columns["time"].is_numeric():
        sys.exit(
            f"{log} needs columns user, item and time, a number; it has "
            f"{', '.join(f'{name} ({kind})' for name, kind in columns.items())}."
        )
    shutil.rmtree(folder, ignore_errors=True)  # of an attempt that failed
    folder.mkdir(parents=True)
    newest = clicks.select(pl.col("time").quantile(1 - TEST_SHARE)).collect().item()
    is_new = pl.col("time") > newest
    past = clicks.filter(~is_new)
    past.collect().write_parquet(folder / "past.parquet")
    (folder / "newest.json").write_text(json.dumps(newest))
    if (served := served_model(work)) is not None:
        learned = json.loads((served.parent / "newest.json").read_text())
        past.filter(pl.col("time") > learned).collect().write_parquet(folder / "fresh.parquet")
    targets = (
        clicks.filter(is_new).sort("time").group_by("user").first().select("user", "item", "time")
    )
    known = past.join(targets, on="user", how="semi").select("user", "item", "time")
    # Only those who had clicked before: the others are answered by popularity, by either model.
    test = pl.concat([known, targets.join(past, on="user", how="semi")])
    test.collect().write_parquet(folder / "test.parquet")


def convert(work: Path, night: str) -> None:
    """Turn the clicks to train on into data folders: all, and those since the last model."""
    columns = ["--user", "user", "--item", "item", "--time", "time"]
    for name in ("past", "fresh"):
        log = work / night / f"{name}.parquet"
        if log.is_file():
            groupnoise("data", "convert", log, work / night / name, "--setting", "rs", *columns)


def fit(work: Path, night: str, *words: str) -> None:
    """Update the served model; train a new one if there is none or words are given."""
    folder, served = work / night, served_model(work)
    if served is None or words:
        start = [folder / "past", "--validation", 0, *words]
    else:
        start = [folder / "fresh", "--from", served, "--old", served.parent / "past"]
    groupnoise("fit", *start, "-o", folder / "model", "-q")


def evaluate(work: Path, night: str) -> None:
    """Evaluate tonight's model, and compare it with the one that is served."""
    folder, served = work / night, served_model(work)
    against = [] if served is None else ["--against", served]
    columns = ["--user", "user", "--item", "item", "--time", "time"]
    test = folder / "test.parquet"
    answer = groupnoise(
        "evaluate", folder / "model", test, "--setting", "rs", "--json", *columns, *against
    )
    (folder / "evaluation.json").write_text(answer)


def export(work: Path, night: str) -> None:
    """Add tonight's model to the registry; nothing that is served changes."""
    folder = work / night
    groupnoise(
        *("export", folder / "model", "--output", work / "registry", "--registry"),
        *("--evaluation", folder / "evaluation.json"),
    )


def decide(work: Path, night: str) -> bool:
    """Promote tonight's model unless it is significantly worse; return whether it is served."""
    evaluation = json.loads((work / night / "evaluation.json").read_text())
    ahead = [value for name, value in evaluation.items() if name.startswith("ahead of")]
    summary = f"{MEASURE} {evaluation[f'full {MEASURE}']:.4f}"
    if ahead:
        mean, low, high = ahead[0][MEASURE]
        summary += f", ahead of the one that is served by {mean:.4f} [{low:.4f}, {high:.4f}]"
        if high < 0:
            print(f"{night}: kept: {summary}")
            return False
    groupnoise("versions", "promote", work / "registry")
    (work / "served.json").write_text(json.dumps({"model": str(work / night / "model")}))
    print(f"{night}: promoted: {summary}")
    return True


def served_model(work: Path) -> Path | None:
    """Return the folder of the model that was promoted last, None in the first night."""
    path = work / "served.json"
    return Path(json.loads(path.read_text())["model"]) if path.is_file() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("log", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("night")
    parser.add_argument("words", nargs="*", help="after --: options of `fit` for a new model")
    arguments = parser.parse_args()
    work, night = arguments.work, arguments.night
    split(arguments.log, work, night)
    convert(work, night)
    fit(work, night, *arguments.words)
    evaluate(work, night)
    export(work, night)
    decide(work, night)


if __name__ == "__main__":
    main()
