"""`groupnoise reproduce unseen`: every method at its defaults on sets nobody tuned for."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from groupnoise.exceptions import ConfigError, ParameterError

UNSEEN = "unseen"
DEFAULT_SEEDS = "0:3"


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
    """Run every method at its defaults on the sets of `unseen`, and report who is behind."""
    from dataclasses import asdict

    from groupnoise.io.files import write_json, write_text
    from groupnoise.reproduce.compare import MAIN_METRICS
    from groupnoise.reproduce.facts import spell_command
    from groupnoise.reproduce.unseen import run_unseen, summarise_unseen, unseen_markdown
    from groupnoise.reproduce.unseen_sets import PARTS, read_unseen_sets

    part = None if protocols is None else ",".join(protocols)
    if part is not None and part not in PARTS:
        raise ParameterError(f"--protocol of unseen is design or check; got {part!r}.")
    sets = [each for each in read_unseen_sets() if part in (None, each.part)]
    for word in datasets or ():
        if word not in [each.name for each in sets]:
            raise ConfigError(
                f"unseen has no set {word!r}; there are {', '.join(s.name for s in sets)}."
            )
    sets = [each for each in sets if datasets is None or each.name in datasets]
    folder = output / UNSEEN
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "trials.jsonl"
    if not resume:
        log.unlink(missing_ok=True)
    started = time.perf_counter()

    def tell(result: Any) -> None:
        known = [name for name in MAIN_METRICS[result.setting] if name in result.metrics]
        figure = f"{known[0]} {result.metrics[known[0]]:.3f}" if known else "failed"
        about = f"{result.dataset}: {result.method}, seed {result.seed}"
        typer.echo(f"{about}: {figure}, {result.seconds:.0f} s", err=True)

    results, missing = run_unseen(
        sets,
        seeds,
        methods=methods or (),
        data_dir=data_dir,
        quick=quick,
        n_jobs=jobs,
        log=log,
        on_result=tell,
    )
    for name, reason in missing.items():
        typer.echo(f"left out {name}: {reason}", err=True)
    summaries = summarise_unseen(results)
    text = unseen_markdown(summaries)
    write_text(folder / "report.md", text)
    write_json(
        folder / "summary.json",
        {
            "command": spell_command(sys.argv[1:]),
            "seeds": list(seeds),
            "seconds": round(time.perf_counter() - started, 1),
            "summaries": [asdict(each) for each in summaries],
            "missing": missing,
        },
    )
    typer.echo(text)
    typer.echo(f"report: {folder / 'report.md'}")
    return [asdict(each) for each in results]
