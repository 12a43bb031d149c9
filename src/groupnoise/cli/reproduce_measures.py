"""`groupnoise reproduce recall` and `unseen`: all methods at their defaults on many data sets."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import typer

from groupnoise.cli.options import say_aside
from groupnoise.exceptions import ConfigError, ParameterError


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    seeds: Sequence[int]
    protocols: list[str] | None
    methods: list[str] | None
    datasets: list[str] | None
    quick: bool
    jobs: int | None
    output: Path
    data_dir: Path | None
    resume: bool

    def chosen(self, measure: str, sets: Sequence[Any]) -> list[Any]:
        """Return the sets that were asked for by name, all by default."""
        known = [each.name for each in sets]
        for word in self.datasets or ():
            if word not in known:
                raise ConfigError(f"{measure} has no set {word!r}; there are {', '.join(known)}.")
        return [each for each in sets if self.datasets is None or each.name in self.datasets]

    def running(self, measure: str) -> dict[str, Any]:
        """Return what every measure is run with, its log of kept trials made ready."""
        folder = self.output / measure
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "trials.jsonl"
        if not self.resume:
            log.unlink(missing_ok=True)
        return {"data_dir": self.data_dir, "quick": self.quick, "n_jobs": self.jobs, "log": log}


@dataclass(frozen=True)
class Report:
    """What a measure found."""

    text: str
    results: list[Any]
    missing: dict[str, str]
    summary: dict[str, Any]


def _measure_recall(request: Request) -> Report:
    """Run methods on logs under protocols."""
    from groupnoise.clicks.splits import ClickProtocol
    from groupnoise.reproduce.recall import (
        DEFAULT_PROTOCOLS,
        QUICK_METHODS,
        QUICK_PROTOCOLS,
        RecallTrial,
        read_recall_sets,
        recall_markdown,
        run_recall,
    )

    sets = read_recall_sets()
    chosen = request.chosen("recall", sets)
    if request.quick and request.datasets is None:
        chosen = [each for each in sets if each.name == "shop"]
    protocols = request.protocols or (QUICK_PROTOCOLS if request.quick else DEFAULT_PROTOCOLS)

    def tell(result: RecallTrial) -> None:
        about = f"{result.dataset}, {result.protocol}: {result.method}, seed {result.seed}"
        if result.failed is not None:
            say_aside(f"{about}: {result.failed}")
            return
        hit, ndcg = (result.metrics[f"full {name}@10"] for name in ("HIT", "NDCG"))
        seconds = f"fit {result.fit_seconds:.0f} s"
        say_aside(f"{about}: HIT@10 {hit:.4f}, NDCG@10 {ndcg:.4f}, {seconds}")

    results, missing = run_recall(
        chosen,
        request.seeds,
        protocols=[ClickProtocol.parse(word).word for word in protocols],
        methods=request.methods or (QUICK_METHODS if request.quick else ()),
        on_result=tell,
        **request.running("recall"),
    )
    rows = [asdict(each) for each in results]
    return Report(recall_markdown(results, sets), results, missing, {"rows": rows})


def _measure_unseen(request: Request) -> Report:
    """Run every method at its defaults on sets nobody tuned for, and say who is behind."""
    from groupnoise.reproduce.compare import MAIN_METRICS
    from groupnoise.reproduce.unseen import (
        UnseenResult,
        run_unseen,
        summarise_unseen,
        unseen_markdown,
    )
    from groupnoise.reproduce.unseen_sets import PARTS, read_unseen_sets

    part = None if request.protocols is None else ",".join(request.protocols)
    if part is not None and part not in PARTS:
        raise ParameterError(f"--protocol of unseen is design or check; got {part!r}.")
    sets = [each for each in read_unseen_sets() if part in (None, each.part)]

    def tell(result: UnseenResult) -> None:
        known = [name for name in MAIN_METRICS[result.setting] if name in result.metrics]
        figure = f"{known[0]} {result.metrics[known[0]]:.3f}" if known else "failed"
        about = f"{result.dataset}: {result.method}, seed {result.seed}"
        say_aside(f"{about}: {figure}, {result.seconds:.0f} s")

    results, missing = run_unseen(
        request.chosen("unseen", sets),
        request.seeds,
        methods=request.methods or (),
        on_result=tell,
        **request.running("unseen"),
    )
    summaries = summarise_unseen(results)
    kept = {"summaries": [asdict(each) for each in summaries]}
    return Report(unseen_markdown(summaries), results, missing, kept)


MEASURES: dict[str, tuple[Callable[[Request], Report], str]] = {
    "recall": (_measure_recall, "0:5"),
    "unseen": (_measure_unseen, "0:3"),
}
"""Each measure and the seeds it takes by default."""


def run_and_report(measure: str, request: Request) -> list[dict[str, Any]]:
    """Run a measure, write and show its report, and return the rows."""
    from groupnoise.io.files import write_json, write_text
    from groupnoise.reproduce.provenance import spell_command

    started = time.perf_counter()
    report = MEASURES[measure][0](request)
    for name, reason in report.missing.items():
        say_aside(f"left out {name}: {reason}")
    folder = request.output / measure
    write_text(folder / "report.md", report.text)
    summary = {
        "command": spell_command(sys.argv[1:]),
        "seeds": list(request.seeds),
        "seconds": round(time.perf_counter() - started, 1),
        "missing": report.missing,
        **report.summary,
    }
    write_json(folder / "summary.json", summary)
    typer.echo(report.text)
    typer.echo(f"report: {folder / 'report.md'}")
    return [asdict(each) for each in report.results]
