"""`groupnoise recall` and `replay`: recommend in batch, and off-policy evaluation."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from groupnoise.cli.options import (
    AsJson,
    DataOptions,
    Quiet,
    argument,
    check_output,
    describe_options,
    echo_err,
    option,
    panel,
    progress_bars,
    with_click_options,
    with_history_options,
)
from groupnoise.cli.sources import log_options, read_histories_for
from groupnoise.core.words import counted
from groupnoise.exceptions import ParameterError

if TYPE_CHECKING:
    from groupnoise.clicks.evaluation.replay import ReplayedPolicy
    from groupnoise.recall.batch import BatchProgress
    from groupnoise.recall.lists import ItemList
    from groupnoise.recall.model import RecallModel


@with_click_options
@describe_options(
    artifact=argument("Folder written by `groupnoise export`."),
    histories="Click histories, in any format that `fit` reads: a log of clicks, or one list of "
    "items per row.",
    output=option("File to write: .parquet, .csv or .jsonl.", "-o"),
    top="Items per history; with --interests, per interest.",
    scope="Score by the latest clicks (group) or the last click alone (last); by default as "
    "the model was trained.",
    interests="Split each history into up to this many interests, with --top items each and the "
    "click that represents it.",
    resume="Resume a stopped run.",
    threads="Number of threads; one per core by default.",
    **panel(
        "Filters",
        exclude_seen="Leave out items already in the history.",
        category="Only items of this category; repeatable.",
        per_category="At most this many items of one category.",
        filter="Required attributes, as JSON: "
        '{"brand": ["Acme", "Bolt"], "not": {"category": "tools"}}.',
        allow="Only ids in this text file, one per line; repeatable.",
        deny="No ids in this text file, one per line; repeatable.",
        max_per="Maximum per value of an attribute, such as brand=2; repeatable.",
        diversity="Weight of diversity against the score, from 0 to 1.",
        min_score="Leave out items scored lower than this.",
    ),
)
def recall(
    artifact: Path,
    histories: str,
    output: Path,
    options: DataOptions,
    top: int = 100,
    scope: str | None = None,
    exclude_seen: bool = True,
    category: list[str] | None = None,
    per_category: int | None = None,
    filter: str | None = None,
    allow: list[Path] | None = None,
    deny: list[Path] | None = None,
    max_per: list[str] | None = None,
    diversity: float = 0.0,
    min_score: float | None = None,
    interests: int | None = None,
    resume: bool = False,
    threads: int | None = None,
    quiet: Quiet = False,
) -> None:
    """Recall items for every history in a file."""
    from groupnoise.recall.artifact import log_columns, open_artifact
    from groupnoise.recall.batch import recall_file
    from groupnoise.recall.lists import read_item_list
    from groupnoise.recall.options import RecallOptions

    requested = RecallOptions(
        top=top,
        scope=scope,
        exclude_seen=exclude_seen,
        categories=tuple(category or ()),
        per_category=per_category,
        filter=_parse_filter(filter),
        allow_lists=tuple(map(read_item_list, allow or ())),
        deny_lists=tuple(map(read_item_list, deny or ())),
        max_per=_parse_caps(max_per or ()),
        diversity=diversity,
        min_score=min_score,
        interests=interests,
    )
    model = open_artifact(artifact)
    paths = (*(allow or ()), *(deny or ()))
    _warn_of_unknown(paths, (*requested.allow_lists, *requested.deny_lists), model)
    check_output(output)
    with progress_bars("count", "left", quiet=quiet, transient=False) as bar:
        task = bar.add_task("histories", total=None)

        def show(progress: BatchProgress) -> None:
            bar.update(task, completed=progress.n_histories, total=progress.n_total)

        done = recall_file(
            model,
            histories,
            output,
            requested,
            resume=resume,
            n_threads=threads,
            on_block=show,
            report=echo_err,
            remembered=log_options(log_columns(model.manifest)),
            **options.given,
        )
    rate = done.n_histories / max(done.seconds, 1e-9)
    typer.echo(
        f"{counted(done.n_histories, 'histories')} in {done.seconds:.1f} s ({rate:.0f} a second), "
        f"scored by {model.clicks_used(scope)}; "
        f"{done.n_unknown} of {counted(done.n_clicks, 'clicks')} unknown, "
        f"{counted(done.n_by_popularity, 'histories')} answered by popularity; written to {output}"
    )
    if done.n_unanswered:
        reason = "the filters leave none"
        if requested == RecallOptions(top=top, scope=scope, interests=interests):
            reason = "every item was seen; --no-exclude-seen recalls those again"
        typer.echo(f"{counted(done.n_unanswered, 'histories')} got no item: {reason}")


def _warn_of_unknown(paths: Iterable[Path], lists: Iterable[ItemList], model: RecallModel) -> None:
    """Warn about lists of mostly unknown items."""
    for path, listed in zip(paths, lists, strict=True):
        unknown = listed.ids[model.items.positions_of(listed.ids) < 0]
        if 2 * len(unknown) > len(listed.ids):
            echo_err(
                f"{path}: {len(unknown)} of {counted(len(listed.ids), 'ids')} unknown to the "
                f"model, such as {unknown[0]!r}: these neither allow nor deny anything"
            )


def _parse_filter(filter: str | None) -> Any:
    try:
        return None if filter is None else json.loads(filter)
    except ValueError as error:
        name, sign, value = str(filter).partition("=")
        meant = {name: value} if name and sign and "{" not in name else {"brand": ["Acme", "Bolt"]}
        raise ParameterError(
            f"--filter is not JSON ({error}); write it as in --filter "
            f"{shlex.quote(json.dumps(meant, ensure_ascii=False))}."
        ) from None


def _parse_caps(given: Iterable[str]) -> dict[str, int]:
    caps = {}
    for cap in given:
        attribute, _, most = cap.rpartition("=")
        if not attribute or not most.isdecimal():
            raise ParameterError(f"--max-per is written ATTRIBUTE=COUNT; got {cap!r}.")
        caps[attribute] = int(most)
    return caps


@with_history_options
@describe_options(
    log=argument(
        "Impressions: one row per item shown, or the folder of `groupnoise serve --feedback`."
    ),
    model="Model folder to estimate; repeatable.",
    histories="Clicks before the impressions, in any format that `fit` reads.",
    target="Column with another policy's probability of each row; repeatable.",
    user="Column of user ids.",
    item="Column of the items shown.",
    propensity="Column of the probability with which the item was shown.",
    clicked="Column that is 1 where the item was clicked.",
    top=option("A model is assumed to show one of its top N, uniformly.", min=1),
    clip="Largest weight of a row: less variance, more bias.",
    seed=option("Random seed of the intervals.", min=0),
)
def replay(
    log: str,
    options: DataOptions,
    model: list[Path] | None = None,
    histories: str | None = None,
    target: list[str] | None = None,
    user: str | None = None,
    item: str | None = None,
    propensity: str | None = None,
    clicked: str | None = None,
    top: int = 10,
    clip: float | None = None,
    seed: int = 0,
    as_json: AsJson = False,
) -> None:
    """Estimate the click rate of recommenders from logged impressions of another one.

    Off-policy evaluation by inverse propensity scoring (IPS) and its self-normalized form (SNIPS),
    with 95 % intervals over users.

    Example: groupnoise replay shown.csv --model runs/a --model runs/b --histories clicks.csv
    """
    from groupnoise.clicks.evaluation.replay import (
        logged_by_version,
        read_impressions,
        replay_policy,
        replay_warnings,
    )

    if model and histories is None:
        raise ParameterError("--model needs --histories, the clicks that a model answers by.")
    shown = read_impressions(
        log,
        user=user,
        item=item,
        propensity=propensity,
        clicked=clicked,
        targets=tuple(target or ()),
        report=echo_err,
        **options.form,
    )
    by_version = logged_by_version(shown, seed=seed)
    if not model and not target and not by_version:
        raise ParameterError(
            "nothing is to be replayed: give --model with --histories, or --target with the "
            "column of another policy's chances."
        )
    chances = dict(shown.targets)
    notes = []
    if model:
        answered, n_new = _chances_of_models(model, str(histories), options, shown, top)
        chances |= answered
        if n_new:
            notes.append(f"{counted(n_new, 'users')} without a history answered by popularity")
    found = [
        replay_policy(shown, row_chances, name=name, clip=clip, seed=seed)
        for name, row_chances in chances.items()
    ]
    notes += [note for each in found for note in replay_warnings(each)]
    logged = float(shown.clicked.mean())
    if as_json:
        answer = {
            "rows": len(shown.items),
            "logged click-through": logged,
            "by version": {name: list(each) for name, each in by_version.items()},
            "policies": [asdict(each) for each in found],
            "notes": notes,
        }
        typer.echo(json.dumps(answer, indent=2))
        return
    typer.echo(f"{len(shown.items)} impressions, {logged:.4f} of them clicked; 95 % intervals")
    for name, each in by_version.items():
        typer.echo(f"version {name or '?'}: {each.mean:.4f} [{each.low:.4f}, {each.high:.4f}]")
    if found:
        _show(found, len(shown.items))
    for note in notes:
        typer.echo(note)


def _chances_of_models(
    folders: list[Path], histories: str, options: DataOptions, shown: Any, top: int
) -> tuple[dict[str, Any], int]:
    """Return the probability of every row under each model, and the number of new users."""
    import numpy as np

    from groupnoise.clicks.evaluation.replay import chances_of_model
    from groupnoise.io.folders.model_files import load_model
    from groupnoise.io.setting import setting_of_model

    read = read_histories_for(folders[0], histories, options)
    items = read.item_ids[read.items]
    # Ids may be numbers in one file and text in another; compare them as text.
    by_user = {
        str(user): items[read.offsets[row] : read.offsets[row + 1]]
        for row, user in enumerate(read.user_ids.tolist())
    }
    users = np.unique(shown.users).tolist()
    known = {user: by_user[str(user)] for user in users if str(user) in by_user}
    found = {}
    for folder in folders:
        fitted = load_model(folder)
        if setting_of_model(fitted).name != "rs":
            raise ParameterError(f"{folder} is no recommender; replay is about shown items.")
        spelt = {user: fitted.catalogue_.convert_ids(row) for user, row in known.items()}
        found[str(folder)] = chances_of_model(fitted, shown, spelt, top=top)
    return found, len(users) - len(known)


def _show(found: list[ReplayedPolicy], n_rows: int) -> None:
    width = max(6, *(len(each.name) for each in found)) + 2
    heads = ("SNIPS", "IPS", "ahead of the log")
    typer.echo(
        " " * width + "".join(f"{head:<28}" for head in heads) + "mean weight  effective rows"
    )
    for each in found:
        cells = (each.snips, each.ips, each.ahead)
        texts = [f"{cell.mean:.4f} [{cell.low:.4f}, {cell.high:.4f}]" for cell in cells]
        line = f"{each.name:<{width}}" + "".join(f"{text:<28}" for text in texts)
        rows = f"{each.n_effective:.0f} of {n_rows}"
        typer.echo(f"{line}{each.mean_weight.mean:<13.2f}{rows}")
