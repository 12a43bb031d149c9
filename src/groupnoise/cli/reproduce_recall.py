"""`groupnoise reproduce recall`: recommenders under the protocols that reviewers ask for."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from groupnoise.exceptions import ConfigError

RECALL = "recall"
DEFAULT_SEEDS = "0:5"


def run_and_report(
    seeds: Sequence[int],
    *,
    protocols: list[str] | None,
    methods: list[str] | None,
    datasets: list[str] | None,
    quick: bool,
    jobs: int | None,
    output: Path,
    data_dir: Path | None,
    resume: bool,
) -> list[dict[str, Any]]:
    """Run methods on logs under protocols, write and show the report, and return the rows."""
    from dataclasses import asdict

    from groupnoise.clicks.protocols import ClickProtocol
    from groupnoise.io.files import write_json, write_text
    from groupnoise.reproduce.facts import spell_command
    from groupnoise.reproduce.recall import (
        DEFAULT_PROTOCOLS,
        QUICK_METHODS,
        QUICK_PROTOCOLS,
        RecallResult,
        read_recall_sets,
        recall_markdown,
        run_recall,
    )

    sets = read_recall_sets()
    for word in datasets or ():
        if word not in [each.name for each in sets]:
            there = ", ".join(each.name for each in sets)
            raise ConfigError(f"recall has no log {word!r}; there are {there}.")
    asked = datasets or (["shop"] if quick else [each.name for each in sets])
    words = protocols or list(QUICK_PROTOCOLS if quick else DEFAULT_PROTOCOLS)
    words = [ClickProtocol.parse(word).word for word in words]
    folder = output / RECALL
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "trials.jsonl"
    if not resume:
        log.unlink(missing_ok=True)
    started = time.perf_counter()

    def tell(result: RecallResult) -> None:
        about = f"{result.dataset}, {result.protocol}: {result.method}, seed {result.seed}"
        if result.failed is not None:
            typer.echo(f"{about}: {result.failed}", err=True)
            return
        hit, ndcg = (result.metrics[f"full {name}@10"] for name in ("HIT", "NDCG"))
        seconds = f"fit {result.fit_seconds:.0f} s"
        typer.echo(f"{about}: HIT@10 {hit:.4f}, NDCG@10 {ndcg:.4f}, {seconds}", err=True)

    results, missing = run_recall(
        [each for each in sets if each.name in asked],
        seeds,
        protocols=words,
        methods=methods or (QUICK_METHODS if quick else ()),
        data_dir=data_dir,
        quick=quick,
        n_jobs=jobs,
        log=log,
        on_result=tell,
    )
    for name, reason in missing.items():
        typer.echo(f"left out {name}: {reason}", err=True)
    text = recall_markdown(results, sets)
    write_text(folder / "report.md", text)
    rows = [asdict(each) for each in results]
    summary = {
        "command": spell_command(sys.argv[1:]),
        "seeds": list(seeds),
        "seconds": round(time.perf_counter() - started, 1),
        "rows": rows,
        "missing": missing,
    }
    write_json(folder / "summary.json", summary)
    typer.echo(text)
    typer.echo(f"report: {folder / 'report.md'}")
    return rows
