"""`groupnoise reproduce`: a published table or figure, with every baseline."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.demo import (
    DEFAULT_SEEDS,
    MEASURES,
    Request,
    run_and_report,
    run_measure,
)
from groupnoise.cli.options import Jobs, argument, describe_options, echo_err, option, progress_bars
from groupnoise.core.words import counted
from groupnoise.exceptions import ConfigError, DataError, ParameterError

if TYPE_CHECKING:
    from groupnoise.reproduce.files import Repeated
    from groupnoise.reproduce.recipes import Recipe
    from groupnoise.reproduce.run import TrialResult
    from groupnoise.reproduce.running import Plan, TimeLeft, TimeTable

LINE_EVERY_SECONDS = 60.0
"""Seconds between progress lines without a terminal."""
DEMO = "demo"
ALL = "all"


def format_seconds(seconds: float) -> str:
    """Return a readable duration.

    >>> format_seconds(42.3), format_seconds(600), format_seconds(8000)
    ('42 s', '10 min', '2 h 13 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


@contextmanager
def job_progress(
    plan: Plan, left: TimeLeft
) -> Iterator[Callable[[str, list[TrialResult], bool], None]]:
    """Yield a callback for finished jobs."""
    columns = ("count", "{task.fields[left]}", "[dim]{task.fields[latest]}")
    with progress_bars(*columns, transient=False) as progress:
        console = progress.console
        bar = progress.add_task(plan.recipe.name, total=len(plan.jobs), left="", latest="")
        n_done, last_line = 0, time.monotonic()

        def on_job(key: str, results: list[TrialResult], resumed: bool) -> None:
            nonlocal n_done, last_line
            n_done += 1
            left.finish(key, None if resumed else results[0].seconds)
            latest = f"{results[0].dataset}, {results[0].method}, seed {results[0].seed}"
            remaining = f"{format_seconds(left.seconds)} left"
            progress.update(bar, advance=1, left=remaining, latest=latest)
            if not console.is_terminal and time.monotonic() - last_line > LINE_EVERY_SECONDS:
                last_line = time.monotonic()
                console.print(f"{plan.recipe.name}: {n_done} of {len(plan.jobs)}, {remaining}")

        yield on_job


@describe_options(
    name=argument(
        "sival-pairs, sival-ablation, mil, pll, pll-noise, amazon, recall-examples, "
        "recall, unseen, demo, all, or a recipe of your own (a TOML file)."
    ),
    trials=option("Number of trials, with seeds from 0.", show_default="the recipe's"),
    seeds="A range like 20:30 or a list like 1,4,9, instead of --trials.",
    methods="Only these methods, separated by commas.",
    datasets="Only these data sets, separated by commas.",
    protocol="unseen: design or check. recall: leave_one_out, time:0.9 and others, with "
    "commas. Click logs: authors, paper or leave_one_out. Others: "
    "a split like 8:1:1. "
    "Candidate labels also: oracle, covering_rate or approximated_accuracy.",
    quick="Smoke test: one setting, few epochs.",
    resume="Reuse finished trials of exactly this code.",
    check=option("Rerun this many recorded trials and compare.", min=1),
    kept=option(
        "Result file whose trials --check reruns, such as benchmarks/results/reproduce_pll.json.",
        show_default="trials of this folder of reports",
    ),
    output=option("Folder for the reports.", "-o"),
    json_path=option("Write the rows of all tables to this file.", "--json"),
    recipes=option("Folder of recipes.", show_default="those of the package"),
    data_dir="Folder to search first for data sets.",
)
def reproduce(
    name: str,
    trials: int | None = None,
    seeds: str | None = None,
    methods: str | None = None,
    datasets: str | None = None,
    protocol: str | None = None,
    quick: bool = False,
    resume: bool = False,
    check: int | None = None,
    kept: Path | None = None,
    jobs: Jobs = None,
    output: Path = Path("runs"),
    json_path: Path | None = None,
    recipes: Path | None = None,
    data_dir: Path | None = None,
) -> None:
    """Reproduce an experiment of the paper, with all baselines and the published figures."""
    from groupnoise.io.files import check_writable_file, check_writable_folder, write_json

    if trials is not None and (seeds is not None or trials < 1):
        raise ParameterError("--trials takes a whole number of at least 1, and no --seeds beside.")
    if jobs is not None and jobs < 1:
        raise ParameterError(f"--jobs must be a whole number of at least 1; got {jobs}.")
    if data_dir is not None and not data_dir.is_dir():
        raise ParameterError(f"--data-dir must be a folder; {data_dir} is none.")
    if kept is not None and (check is None or name in (ALL, DEMO)):
        raise ParameterError("--kept goes with --check and the name of one recipe or measure.")
    if check is not None and name == DEMO:
        raise ParameterError("the demonstration keeps no trials that --check could repeat.")
    check_writable_folder(output)
    if json_path is not None:
        check_writable_file(json_path)
    if trials is not None:
        seeds = f"0:{trials}"
    request = Request(
        seeds,
        protocols=_split_words(protocol),
        methods=_split_words(methods),
        datasets=_split_words(datasets),
        quick=quick,
        jobs=jobs,
        output=output,
        data_dir=data_dir,
        resume=resume,
    )
    if name in MEASURES:
        chosen = request.seeds_or(MEASURES[name][1])
        if check is not None:
            _check_measure(name, request, check, kept)
            return
        rows = run_measure(name, request, chosen)
    else:
        folder = recipes or Path(str(resources.files("groupnoise.reproduce") / "recipes"))
        plans, results = _plans(name, request, folder, protocol, kept)
        if check is not None:
            _check(plans, check, output, results, request.n_jobs)
            return
        rows = _run_all(plans, request, folder)
        if name == DEMO or (name == ALL and not (request.methods or request.datasets)):
            chosen = request.seeds_or(DEFAULT_SEEDS)
            rows += run_and_report(chosen, quick=quick, output=output / DEMO, jobs=jobs)
    if json_path is not None:
        write_json(json_path, rows)


def _plans(
    name: str, request: Request, folder: Path, protocol: str | None, kept: Path | None
) -> tuple[list[Plan], list[TrialResult]]:
    """Return the plans of recipes, and the trials of a result file if one is given."""
    from groupnoise.reproduce.files import read_recipe, read_result_file

    found = [read_recipe(path) for path in _recipe_paths(name, folder)]
    if protocol is not None:
        found = _under_protocol(found, protocol, skip=name == ALL)
    results: list[TrialResult] = []
    if kept is not None:
        recipe, results = read_result_file(kept, found[0].name)
        found = [recipe]
        seeds = ",".join(sorted({str(each.seed) for each in results}))
        request = replace(request, seeds=request.seeds or seeds)
    if name == ALL:
        found = _select_recipes(found, request)
    return [_plan(recipe, request, strict=name != ALL) for recipe in found], results


def _run_all(plans: Sequence[Plan], request: Request, folder: Path) -> list[dict[str, Any]]:
    """Print estimates, run plans, and return the rows of their tables."""
    from groupnoise.reproduce.running import TimeTable

    times = TimeTable.read(folder / "times.json")
    _show_estimates(plans, times, request.n_jobs, request.output if request.resume else None)
    rows = []
    for plan in plans:
        place = request.output / plan.recipe.name
        rows += _run(plan, times, request.n_jobs, place, resume=request.resume)
    return rows


def _plan(recipe: Recipe, request: Request, *, strict: bool) -> Plan:
    """Return the plan of a recipe; unless `strict`, names unknown to it are ignored."""
    from groupnoise.reproduce.running import plan_reproduction

    methods, datasets = request.methods, request.datasets
    if not strict:
        methods = methods and [word for word in methods if word in recipe.row_names]
        datasets = datasets and [word for word in datasets if word in recipe.all_datasets]
    return plan_reproduction(
        recipe,
        request.seeds_or(f"0:{recipe.protocol['trials']}"),
        methods=methods,
        datasets=datasets,
        quick=request.quick,
        data_dir=request.data_dir,
    )


def _select_recipes(recipes: list[Recipe], request: Request) -> list[Recipe]:
    """Return the recipes with some of the given methods and data sets, all of which must exist."""
    requested = {"methods": request.methods, "datasets": request.datasets}
    known = {
        "methods": {recipe.name: recipe.row_names for recipe in recipes},
        "datasets": {recipe.name: recipe.all_datasets for recipe in recipes},
    }
    for kind, words in requested.items():
        for word in words or ():
            if not any(word in names for names in known[kind].values()):
                raise ConfigError(f"no recipe has {word!r} among its {kind}.")
    return [
        recipe
        for recipe in recipes
        if all(
            words is None or set(words) & set(known[kind][recipe.name])
            for kind, words in requested.items()
        )
    ]


def _under_protocol(recipes: list[Recipe], word: str, *, skip: bool) -> list[Recipe]:
    """Return the recipes under another protocol; with `skip`, unsuitable ones are unchanged."""
    changed: list[Recipe] = []
    failures: list[ConfigError] = []
    for recipe in recipes:
        try:
            changed.append(recipe.with_protocol(word))
        except ConfigError as error:
            changed.append(recipe)
            failures.append(error)
    if failures and (not skip or len(failures) == len(recipes)):
        raise failures[0]
    return changed


def _show_estimates(
    plans: Sequence[Plan], times: TimeTable, n_jobs: int, resumed: Path | None
) -> None:
    """Print the trials to run, their estimated time, and missing data sets on the error stream.

    Finished trials in the `resumed` folder take no time.
    """
    from groupnoise.reproduce.jobs import read_results

    total = 0.0
    for plan in plans:
        for dataset, reason in plan.missing.items():
            echo_err(f"{plan.recipe.name}: left out {dataset}: {reason}")
        done = read_results(resumed / plan.recipe.name / "trials.jsonl") if resumed else {}
        left = [job for job in plan.jobs if job.key not in done]
        seconds = times.total(left) / n_jobs
        total += seconds
        n_kept = len(plan.jobs) - len(left)
        echo_err(
            f"{plan.recipe.name}: {counted(len(plan.jobs), 'trials')} of a method, "
            f"{f'{n_kept} of them kept, ' if resumed else ''}"
            f"about {format_seconds(seconds)} on {counted(n_jobs, 'processes')}"
        )
    if len(plans) > 1:
        echo_err(f"together about {format_seconds(total)}")


def _run(
    plan: Plan, times: TimeTable, n_jobs: int, folder: Path, *, resume: bool
) -> list[dict[str, Any]]:
    """Run a plan, write its reports, show the table and return its rows."""
    from groupnoise.reproduce.provenance import RunFacts, spell_command
    from groupnoise.reproduce.report.reproduction import reproduction_rows, write_reproduction
    from groupnoise.reproduce.running import TimeLeft, reproduce as run

    if not plan.jobs:
        return []
    started = time.perf_counter()
    with job_progress(plan, TimeLeft(times, plan.jobs, n_jobs)) as on_job:
        outcome = run(
            plan, n_jobs=n_jobs, log=folder / "trials.jsonl", resume=resume, on_job=on_job
        )
    facts = RunFacts(
        command=spell_command(sys.argv[1:]), seeds=plan.seeds, seconds=time.perf_counter() - started
    )
    html, markdown = write_reproduction(folder, outcome, facts)
    typer.echo(markdown.read_text(encoding="utf-8"))
    typer.echo(f"report: {html}")
    return reproduction_rows(outcome)


def _check(
    plans: Sequence[Plan], n_trials: int, output: Path, results: list[TrialResult], n_jobs: int
) -> None:
    """Repeat kept trials of recipes."""
    from groupnoise.reproduce.files import check_trials
    from groupnoise.reproduce.jobs import read_results

    figures = []
    for plan in plans:
        done = read_results(output / plan.recipe.name / "trials.jsonl")
        kept = results or [result for each in done.values() for result in each]
        figures += check_trials(plan, kept, n_trials, n_jobs=n_jobs, on_trial=_echo_repeated)
    _conclude(figures)


def _check_measure(measure: str, request: Request, n_trials: int, kept: Path | None) -> None:
    """Repeat kept trials of a measure, drawn at random from those that were asked for."""
    import numpy as np

    from groupnoise.reproduce.files import read_kept_trials
    from groupnoise.reproduce.recall import repeat_recall
    from groupnoise.reproduce.unseen import repeat_unseen

    repeat = {"recall": repeat_recall, "unseen": repeat_unseen}[measure]
    asked = {
        "dataset": request.datasets,
        "method": request.methods,
        "protocol" if measure == "recall" else "part": request.protocols,
    }
    rows = [
        row
        for row in read_kept_trials(kept or request.output / measure / "trials.jsonl")
        if row.get("failed") is None
        and all(not words or row.get(key) in words for key, words in asked.items())
    ]
    if not rows:
        raise DataError(f"no trial of {measure} with these methods and data sets is kept.")
    drawn = np.random.default_rng().choice(len(rows), min(n_trials, len(rows)), replace=False)
    figures: list[Repeated] = []
    for number in drawn:
        found = repeat(rows[number], data_dir=request.data_dir, quick=request.quick)
        _echo_repeated(found)
        figures += found
    _conclude(figures)


def _echo_repeated(figures: list[Repeated]) -> None:
    for figure in figures:
        typer.echo(f"{'same' if figure.agrees else 'DIFFERS'}: {figure}")


def _conclude(figures: list[Repeated]) -> None:
    """Print how many figures were reproduced; exit with code 1 if one was not."""
    from groupnoise.reproduce.files import TOLERANCE

    n_different = sum(not figure.agrees for figure in figures)
    typer.echo(f"{len(figures) - n_different} of {len(figures)} figures agree within {TOLERANCE}.")
    if n_different:
        raise typer.Exit(1)


def _recipe_paths(name: str, folder: Path) -> list[Path]:
    """Return the recipe files of a name; the demonstration has none."""
    from groupnoise.core.checks import did_you_mean

    if name.endswith(".toml"):
        return [Path(name)]
    if name == DEMO:
        return []
    known = sorted(folder.glob("*.toml"))
    if not known:
        raise ConfigError(f"no recipe lies in {folder}; pass --recipes with the folder of them.")
    if name == ALL:
        return known
    found = [path for path in known if path.stem == name]
    if not found:
        names = [*(path.stem for path in known), *MEASURES, DEMO]
        raise ConfigError(
            f"there is no recipe {name!r}{did_you_mean(name, names)}; there are "
            f"{', '.join(names)} and {ALL}."
        )
    return found


def _split_words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",")]
