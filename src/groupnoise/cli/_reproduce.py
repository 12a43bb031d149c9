"""`groupnoise reproduce`: a published table from one command, with every rival."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from groupnoise.cli._seeds import parse_seeds
from groupnoise.exceptions import ConfigError

if TYPE_CHECKING:
    from groupnoise.experiments import TrialResult


def reproduce(
    name: Annotated[str, typer.Argument(help="A recipe (pll, mil, amazon), a TOML file, or all.")],
    seeds: Annotated[
        str | None, typer.Option(help="A range like 0:5 or a list; the recipe's trials if absent.")
    ] = None,
    methods: Annotated[str | None, typer.Option(help="Only these, joined by commas.")] = None,
    datasets: Annotated[str | None, typer.Option(help="Only these, joined by commas.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One setting, few epochs: does everything run?")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a stopped run was.")
    ] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; one per core if absent.")] = None,
    output: Annotated[Path, typer.Option(help="Folder of the reports.")] = Path("runs"),
    json_path: Annotated[
        Path | None, typer.Option("--json", help="Write the rows of all tables to this file.")
    ] = None,
    recipes: Annotated[
        Path | None, typer.Option(help="Folder of recipes; benchmarks/recipes of the checkout.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Searched first for data sets.")] = None,
) -> None:
    """Run an experiment of the paper with all rivals, and report it beside the printed figures."""
    from groupnoise._files import write_json
    from groupnoise.experiments import RunFacts, read_recipe, spell_command, summarise
    from groupnoise.experiments import reproduce as run
    from groupnoise.experiments.report import write_reproduction

    rows: list[dict[str, Any]] = []
    for path in _recipe_paths(name, recipes or _own_recipes()):
        recipe = read_recipe(path)
        chosen = parse_seeds(seeds or ("0:1" if quick else f"0:{recipe.protocol['trials']}"))
        folder, started = output / recipe.name, time.perf_counter()
        with _progress(recipe.name) as (start, advance):
            outcome = run(
                recipe,
                seeds=chosen,
                methods=_words(methods),
                datasets=_words(datasets),
                quick=quick,
                n_jobs=jobs,
                log=folder / "trials.jsonl",
                resume=resume,
                data_dir=data_dir,
                on_start=start,
                on_result=advance,
            )
        for dataset, reason in outcome.missing.items():
            typer.echo(f"left out {dataset}: {reason}", err=True)
        if not outcome.results:
            continue
        facts = RunFacts(
            command=spell_command(sys.argv[1:]),
            seeds=tuple(chosen),
            seconds=time.perf_counter() - started,
        )
        html, markdown = write_reproduction(folder, recipe, outcome, facts)
        criterion = recipe.protocol.get("criterion", "validation")
        rows += [{**row, "criterion": criterion} for row in summarise(outcome.results)]
        typer.echo(markdown.read_text(encoding="utf-8"))
        typer.echo(f"report: {html}")
    if json_path is not None:
        write_json(json_path, rows)


def _own_recipes() -> Path:
    return Path(__file__).parents[3] / "benchmarks" / "recipes"


def _recipe_paths(name: str, folder: Path) -> list[Path]:
    if name.endswith(".toml"):
        return [Path(name)]
    known = sorted(folder.glob("*.toml"))
    if not known:
        raise ConfigError(f"no recipe lies in {folder}; pass --recipes with the folder of them.")
    if name == "all":
        return known
    found = [path for path in known if path.stem == name]
    if not found:
        names = ", ".join(path.stem for path in known)
        raise ConfigError(f"there is no recipe {name!r}; there are {names} and all.")
    return found


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word.strip() for word in text.split(",")]


@contextmanager
def _progress(name: str) -> Iterator[tuple[Callable[[int], None], Callable[[TrialResult], None]]]:
    """Yield what sets the length of the bar, and what moves it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Remaining(),
        TextColumn("[dim]{task.fields[latest]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(name, total=None, latest="")

        def start(n_jobs: int) -> None:
            progress.update(bar, total=n_jobs)

        def advance(result: TrialResult) -> None:
            latest = f"{result.dataset}, {result.method}, seed {result.seed}"
            progress.update(bar, advance=1, latest=latest)

        yield start, advance
