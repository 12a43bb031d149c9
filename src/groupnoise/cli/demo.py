"""`groupnoise demo`, and the measures of `groupnoise reproduce` that are not recipes."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.options import SETTINGS, Jobs, describe_options, echo_err, option, progress_bars
from groupnoise.exceptions import ConfigError, ParameterError

if TYPE_CHECKING:
    from rich.console import Console

    from groupnoise.reproduce.demo import DemoTask
    from groupnoise.reproduce.run import TrialResult


DEFAULT_SEEDS = "0:5"
QUICK_SEEDS = "0:1"


def parse_seeds(text: str) -> list[int]:
    """Return the seeds of a range or a list.

    `text`: "0:5" for 0 to 4, "1,4,9" for these three, or one number.

    >>> parse_seeds("0:3"), parse_seeds("7,2"), parse_seeds("4")
    ([0, 1, 2], [7, 2], [4])
    """
    if match := re.fullmatch(r"(\d+):(\d+)", text):
        seeds = list(range(int(match[1]), int(match[2])))
    elif re.fullmatch(r"\d+(,\d+)*", text):
        seeds = [int(seed) for seed in text.split(",")]
    else:
        raise ParameterError(
            f"--seeds takes a range like 0:5 or a list like 1,4,9 of whole numbers; got {text!r}."
        )
    if not seeds or len(set(seeds)) < len(seeds):
        raise ParameterError(f"--seeds must name at least one seed, each once; got {text!r}.")
    return seeds


@describe_options(
    seeds=option("A range like 0:5 or a list like 1,4,9.", show_default=DEFAULT_SEEDS),
    settings="Settings to run: mil (bags), pll (candidate labels), rs (clicks).",
    quick="Smoke test: little data, one seed.",
    output=option("Folder to write report.html to.", "-o"),
    json_path=option("Also write the rows of the table to this file.", "--json"),
)
def demo(
    seeds: str | None = None,
    settings: str = "mil,pll,rs",
    quick: bool = False,
    output: Path = Path("runs/demo"),
    json_path: Path | None = None,
    jobs: Jobs = None,
) -> None:
    """Train Max-Matching and its ablations in all three settings and write a report.

    Needs no download and takes about two minutes on two cores.
    """
    from groupnoise.core.checks import check_choice

    chosen_seeds = parse_seeds(seeds or (QUICK_SEEDS if quick else DEFAULT_SEEDS))
    requested = list(dict.fromkeys(settings.split(",")))
    for setting in requested:
        check_choice("--settings", setting, SETTINGS)
    if jobs is not None and jobs < 1:
        raise ParameterError(f"--jobs must be a whole number of at least 1; got {jobs}.")
    if output.is_file():
        raise ParameterError(f"--output must be a folder; {output} is a file.")

    from groupnoise.io.files import check_writable_file, check_writable_folder, write_json

    check_writable_folder(output)
    if json_path is not None:
        check_writable_file(json_path)
    rows = run_and_report(chosen_seeds, requested, quick=quick, output=output, jobs=jobs)
    if json_path is not None:
        write_json(json_path, rows)


def run_and_report(
    seeds: Sequence[int],
    settings: Sequence[str] = SETTINGS,
    *,
    quick: bool,
    output: Path,
    jobs: int | None,
) -> list[dict[str, Any]]:
    """Run the demonstration, write its page, show its tables and return their rows."""
    from rich.console import Console

    from groupnoise.io.files import write_text
    from groupnoise.reproduce.demo import demo_tasks, run_demo
    from groupnoise.reproduce.provenance import RunFacts, spell_command
    from groupnoise.reproduce.report.pages import demo_page
    from groupnoise.reproduce.run import summarise

    console = Console()
    started = time.perf_counter()
    tasks = demo_tasks(settings, quick=quick)
    with _progress_bars(tasks, len(seeds)) as advance:
        outcome = run_demo(tasks, seeds, n_jobs=jobs, on_result=advance)
    facts = RunFacts(
        command=spell_command(sys.argv[1:]),
        seeds=tuple(seeds),
        seconds=time.perf_counter() - started,
    )
    rows = summarise(outcome.results)
    report = output / "report.html"
    write_text(report, demo_page(outcome, facts, quick=quick))
    _show_rows(console, rows)
    console.print(f"\nLearning curves and pictures, after {facts.seconds:.0f} seconds:")
    console.print(str(report), soft_wrap=True, highlight=False)
    return rows


@contextmanager
def _progress_bars(
    tasks: Sequence[DemoTask], n_seeds: int
) -> Iterator[Callable[[TrialResult], None]]:
    """Yield a callback that moves the bar of its setting, on the error stream."""
    from groupnoise.reproduce.report.pages import METHOD_LABELS, SETTING_TITLES

    columns = ("count", "elapsed", "[dim]{task.fields[latest]}")
    with progress_bars(*columns, transient=False) as progress:
        bars = {
            task.setting: progress.add_task(
                SETTING_TITLES[task.setting], total=n_seeds * len(task.methods()), latest=""
            )
            for task in tasks
        }

        def advance(result: TrialResult) -> None:
            latest = f"{METHOD_LABELS[result.method]}, seed {result.seed}"
            progress.update(bars[result.setting], advance=1, latest=latest)

        yield advance


def _show_rows(console: Console, rows: list[dict[str, Any]]) -> None:
    """Print a table per setting: one line per method, one column per metric."""
    from rich.table import Table

    from groupnoise.reproduce.report.pages import METHOD_LABELS, SETTING_TITLES

    for setting in dict.fromkeys(row["setting"] for row in rows):
        cells = {
            (row["method"], row["metric"]): _figure(row)
            for row in rows
            if row["setting"] == setting
        }
        metrics = list(dict.fromkeys(metric for _, metric in cells))
        table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 3, 0, 0))
        table.add_column("", min_width=20)
        for metric in metrics:
            table.add_column(metric, min_width=14)
        for method in dict.fromkeys(method for method, _ in cells):
            table.add_row(
                METHOD_LABELS[method],
                *(cells.get((method, metric), "") for metric in metrics),
                style="bold cyan" if method == "max_matching" else None,
            )
        console.print(f"\n[bold]{SETTING_TITLES[setting]}[/]", table, sep="\n")


def _figure(row: dict[str, Any]) -> str:
    """Return a mean with its standard deviation if there are several trials."""
    spread = f" ± {row['std']:.3f}" if row["trials"] > 1 else ""
    return f"{row['mean']:.3f}{spread}"


@dataclass(frozen=True)
class Request:
    """The options of `reproduce`; `seeds` as for :func:`parse_seeds`."""

    seeds: str | None
    protocols: list[str] | None
    methods: list[str] | None
    datasets: list[str] | None
    quick: bool
    jobs: int | None
    output: Path
    data_dir: Path | None
    resume: bool

    @property
    def n_jobs(self) -> int:
        """Number of processes."""
        return self.jobs or os.cpu_count() or 1

    def seeds_or(self, usual: str) -> list[int]:
        """Return the given seeds, or the usual ones; a quick run takes one."""
        return parse_seeds(self.seeds or (QUICK_SEEDS if self.quick else usual))

    def chosen(self, measure: str, sets: Sequence[Any]) -> list[Any]:
        """Return the sets given by name, all by default."""
        known = [each.name for each in sets]
        for word in self.datasets or ():
            if word not in known:
                raise ConfigError(f"{measure} has no set {word!r}; there are {', '.join(known)}.")
        return [each for each in sets if self.datasets is None or each.name in self.datasets]

    def running(self, measure: str) -> dict[str, Any]:
        """Return the arguments of a measure, after preparing its log of trials."""
        folder = self.output / measure
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "trials.jsonl"
        if not self.resume:
            log.unlink(missing_ok=True)
        return {"data_dir": self.data_dir, "quick": self.quick, "n_jobs": self.jobs, "log": log}


@dataclass(frozen=True)
class Report:
    """Results of a measure."""

    text: str
    results: list[Any]
    missing: dict[str, str]
    summary: dict[str, Any]


def _measure_recall(request: Request, seeds: Sequence[int]) -> Report:
    """Run methods on logs under protocols."""
    from groupnoise.clicks.evaluation.splits import ClickProtocol
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
            echo_err(f"{about}: {result.failed}")
            return
        hit, ndcg = (result.metrics[f"full {name}@10"] for name in ("HIT", "NDCG"))
        seconds = f"fit {result.fit_seconds:.0f} s"
        echo_err(f"{about}: HIT@10 {hit:.4f}, NDCG@10 {ndcg:.4f}, {seconds}")

    results, missing = run_recall(
        chosen,
        seeds,
        protocols=[ClickProtocol.parse(word).word for word in protocols],
        methods=request.methods or (QUICK_METHODS if request.quick else ()),
        on_result=tell,
        **request.running("recall"),
    )
    rows = [asdict(each) for each in results]
    return Report(recall_markdown(results, sets), results, missing, {"rows": rows})


def _measure_unseen(request: Request, seeds: Sequence[int]) -> Report:
    """Run every method at its defaults on sets that nobody tuned for."""
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
        echo_err(f"{about}: {figure}, {result.seconds:.0f} s")

    results, missing = run_unseen(
        request.chosen("unseen", sets),
        seeds,
        methods=request.methods or (),
        on_result=tell,
        **request.running("unseen"),
    )
    summaries = summarise_unseen(results)
    kept = {"summaries": [asdict(each) for each in summaries]}
    return Report(unseen_markdown(summaries), results, missing, kept)


MEASURES: dict[str, tuple[Callable[[Request, Sequence[int]], Report], str]] = {
    "recall": (_measure_recall, "0:5"),
    "unseen": (_measure_unseen, "0:3"),
}
"""Each measure with its default seeds."""


def run_measure(measure: str, request: Request, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Run a measure, write and show its report, and return the rows."""
    from groupnoise.io.files import write_json, write_text
    from groupnoise.reproduce.provenance import spell_command

    started = time.perf_counter()
    report = MEASURES[measure][0](request, seeds)
    for name, reason in report.missing.items():
        echo_err(f"left out {name}: {reason}")
    folder = request.output / measure
    write_text(folder / "report.md", report.text)
    summary = {
        "command": spell_command(sys.argv[1:]),
        "seeds": list(seeds),
        "seconds": round(time.perf_counter() - started, 1),
        "missing": report.missing,
        **report.summary,
    }
    write_json(folder / "summary.json", summary)
    typer.echo(report.text)
    typer.echo(f"report: {folder / 'report.md'}")
    return [asdict(each) for each in report.results]
