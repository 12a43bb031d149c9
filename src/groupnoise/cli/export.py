"""`groupnoise export`: write a recommender as an artifact that is served without torch."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import typer

from groupnoise.cli.options import (
    DataOptions,
    argument,
    check_conflicts,
    describe_options,
    echo_err,
    option,
    with_history_options,
)
from groupnoise.cli.sources import item_column_of, read_histories_for
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, GroupNoiseError, ModelFileError, ParameterError


@with_history_options
@describe_options(
    model=argument("Model folder written by `groupnoise fit`; with --to also an artifact."),
    place=argument(hidden=True, metavar="-o FOLDER"),
    output=option(
        "Artifact folder to write, or registry to add a version to; required.",
        "-o",
        show_default=False,
    ),
    registry="Make --output a registry, a folder of versions (`groupnoise versions`).",
    to="Export for another engine instead: parquet, qdrant, pgvector, onnx or mlflow.",
    scope="With --to: query by group, or by the last click alone.",
    items="Table of titles and categories, in any format that `fit` reads.",
    item="Column of item ids in --items; guessed by default.",
    title="Column of titles in --items; guessed by default.",
    category="Column of categories in --items, several joined by |; guessed by default.",
    attribute="Another column of --items to filter by, such as brand; repeatable.",
    format="Format of --items, if not clear from the suffix.",
    separator="Column separator of --items.",
    header=option("Whether --items starts with column names.", "--header/--no-header"),
    card="JSON file to show as the model card: name, data, metrics.",
    histories="Clicks, in any format that `fit` reads, to record a reference distribution of "
    "scores: a service then reports how far they drift.",
    evaluation="Output of `groupnoise evaluate --json` for this model, to store with it.",
    index="Also build a faiss index: ivf or hnsw.",
    least_recall="Reject an index with less recall of the exact top 10.",
    neighbours="Neighbours kept per item, for models without vectors.",
)
def export(
    model: Path,
    options: DataOptions,
    place: str | None = None,
    output: Path | None = None,
    registry: bool = False,
    to: str | None = None,
    scope: str | None = None,
    items: Path | None = None,
    item: str | None = None,
    title: str | None = None,
    category: str | None = None,
    attribute: list[str] | None = None,
    format: str | None = None,
    separator: str | None = None,
    header: bool | None = None,
    card: Path | None = None,
    histories: str | None = None,
    evaluation: Path | None = None,
    index: str | None = None,
    least_recall: float = 0.95,
    neighbours: int = 200,
) -> None:
    """Export a recommender as a folder for `recall` and `serve` that loads fast and runs no code.

    Exporting to a registry adds a version; `groupnoise versions promote` puts it into service.
    """
    from groupnoise.clicks.items.table import read_items
    from groupnoise.io.files import (
        ARTIFACT,
        check_not_own_input,
        check_replaceable,
        check_writable_folder,
    )
    from groupnoise.io.folders.training_record import training_summary
    from groupnoise.recall.artifact import add_index, describe_training, open_artifact
    from groupnoise.recall.index import IndexSpec
    from groupnoise.recall.reference import add_reference

    if output is None or place is not None:
        raise ParameterError(_output_message(model, place, registry))
    check_not_own_input(output, model)
    check_writable_folder(output)
    is_replaced = to is None and check_replaceable(output, ARTIFACT)
    check_conflicts(
        {
            "--scope goes with --to; a recall or a request says its own.": to is None and scope,
            "--registry goes with an artifact, not with --to.": to and registry,
            "--index goes with an artifact, not with --to.": to and index,
            "--attribute names a column of --items; give that table too.": attribute and not items,
        }
    )
    if to is not None and (artifact := _artifact_in(model)) is not None:
        _export_vectors(artifact, output, to, scope)
        return
    spec = None if index is None else IndexSpec(kind=index, least_recall=least_recall)
    fitted = _load(model)
    training = training_summary(model)
    if evaluation is not None:
        training["evaluation"] = _read_evaluation(evaluation, model)
    titles, categories = None, None
    if items is not None:
        titles, categories = read_items(
            items, fitted.items_, item=item, in_log=item_column_of(model), title=title,
            category=category, attributes=attribute or (), format=format, separator=separator,
            header=header, **options.form, report=echo_err,
        )  # fmt: skip
        told = {"title": title, "category": category}
        training["item_columns"] = {part: name for part, name in told.items() if name is not None}
    write = partial(
        fitted.export,
        titles=titles,
        categories=categories,
        card={} if card is None else _read_object(card),
        n_neighbours=neighbours,
    )
    if to is not None:
        _export_via_artifact(write, output, to, scope)
        return
    lost = _lost_items_message(output, fitted)
    with _destination(output, registry) as folder:
        write(folder)
        if spec is not None:
            found = add_index(folder, spec)
            typer.echo(f"{found['kind']} index: recall {found['recall']} at {found['at']}")
        describe_training(folder, training)
        if histories is not None:
            n_read = add_reference(folder, _read_histories(histories, options, model, fitted))
            typer.echo(f"usual scores from {counted(n_read, 'histories')}")
        written = open_artifact(folder)
    typer.echo(
        f"{counted(len(written.items), 'items')}, scored by {written.clicks_used()}, "
        f"version {written.version}, in {output}"
        + (", in place of the artifact there" if is_replaced else "")
    )
    if written.manifest["kind"] == "neighbours":
        echo_err(
            f"{type(fitted).__name__} has no item vectors: the artifact sums the {neighbours} best "
            "next items of every click, so its lists may differ from those of `groupnoise predict`"
        )
    if lost is not None:
        echo_err(lost)


def _export_via_artifact(
    write: Callable[[str], Any], output: Path, to: str, scope: str | None
) -> None:
    """Export for another engine via a temporary artifact."""
    output.parent.mkdir(parents=True, exist_ok=True)
    # Beside the output, since all vectors may not fit into the system's temporary folder.
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".artifact-") as place:
        write(place)
        _export_vectors(Path(place), output, to, scope)


def _output_message(model: Path, place: str | None, registry: bool) -> str:
    flag = "--registry " if registry else ""
    is_flag = "--registry is a flag, which makes that folder a registry; " if registry else ""
    return (
        f"say where to write with -o FOLDER; {is_flag}type `groupnoise export {model} {flag}-o "
        f"{place or 'FOLDER'}`."
    )


def _lost_items_message(output: Path, fitted: Any) -> str | None:
    """Return a message about items added to the artifact that is replaced, if any."""
    from groupnoise.recall.item_changes import lost_items_message

    try:
        before = _artifact_in(output)
        return None if before is None else lost_items_message(before, fitted.items_, output)
    except GroupNoiseError:  # nothing is promoted, or what is there is damaged
        return None


@contextmanager
def _destination(output: Path, is_new_registry: bool) -> Iterator[Path]:
    """Yield the folder for the artifact: the output itself, or a version of a registry."""
    from groupnoise.recall.registry import POINTER, Registry, is_registry

    is_there = is_registry(output)
    if not is_new_registry and not is_there:
        yield output
        return
    made = [place for place in (output, *output.parents) if not place.exists()]
    registry = Registry.create(output)
    try:
        with registry.adding() as folder:
            yield folder
    except BaseException:
        if not is_there:
            with suppress(OSError):
                (output / POINTER).unlink()
                for place in made:
                    place.rmdir()
        raise


def _artifact_in(folder: Path) -> Path | None:
    """Return the artifact in a folder, or the promoted one of a registry, if any."""
    from groupnoise.io.folders.array_folder import read_manifest
    from groupnoise.recall.registry import is_registry, served_folder

    if is_registry(folder):
        return served_folder(folder)
    try:
        read_manifest(folder)
    except ModelFileError:
        return None
    return folder


def _export_vectors(artifact: Path, output: Path, to: str, scope: str | None) -> None:
    from groupnoise.core.checks import check_choice
    from groupnoise.recall.artifact import open_artifact
    from groupnoise.recall.engines import WRITERS, export_vectors, write_mlflow

    if to == "mlflow":
        if scope is not None:
            raise ParameterError("--scope does not go with --to mlflow; predict takes it.")
        write_mlflow(artifact, output)
        typer.echo(f"an MLflow model in {output}")
        return
    check_choice("--to", to, [*WRITERS, "mlflow"])
    names = export_vectors(open_artifact(artifact), output, to=to, scope=scope)
    typer.echo(f"{', '.join(names)} in {output}; about.json says what an engine cannot know")


def _load(folder: Path) -> Any:
    from groupnoise.io.folders.model_files import load_model

    fitted = load_model(folder)
    if not hasattr(fitted, "recommend"):
        raise ModelFileError(f"{folder} holds a {type(fitted).__name__}, which recalls no items.")
    return fitted


def _read_histories(source: str, options: DataOptions, model: Path, fitted: Any) -> list[list[Any]]:
    read = read_histories_for(model, source, options)
    items = fitted.catalogue_.convert_ids(read.item_ids)[read.items]
    return [
        items[begin:end].tolist()
        for begin, end in zip(read.offsets[:-1], read.offsets[1:], strict=True)
    ]


def _read_evaluation(path: Path, model: Path) -> dict[str, Any]:
    """Return an evaluation after checking that it is of this model."""
    from groupnoise.io.folders.model_files import weights_digest

    found = _read_object(path)
    if found.get("weights") != weights_digest(model):
        raise ParameterError(
            f"{path} is no evaluation of {model}; write one with `groupnoise evaluate --json`."
        )
    return found


def _read_object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_check_not_constant)
        # Refuse what cannot be written again: 1e999 becomes infinite, "\ud800" is half a character.
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON ({error}).") from None
    if not isinstance(found, dict):
        raise DataError(f'{path} must hold one JSON object, such as {{"data": "..."}}.')
    return found


def _check_not_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")
