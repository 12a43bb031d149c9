"""`groupnoise predict`: a model folder and data in, a table of answers out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import require
from groupnoise.exceptions import ParameterError
from groupnoise.io.files import atomic_path, check_not_own_input, check_writable_file

if TYPE_CHECKING:
    from groupnoise.clicks.catalogue import IndexedHistories
    from groupnoise.io.datasets import BagDataset, PartialLabelDataset
    from groupnoise.io.named import Dataset

FORMATS = (".csv", ".jsonl", ".parquet")


def predict(
    model: Annotated[Path, typer.Argument(help="Folder written by `groupnoise fit`.")],
    data: Annotated[str, typer.Argument(help="As in `groupnoise fit`.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write: .csv, .jsonl or .parquet.")
    ],
    setting: Annotated[
        str | None, typer.Option(help="Read a file as mil, pll or rs; columns are guessed.")
    ] = None,
    top: Annotated[int, typer.Option(help="rs: how many items to recommend.")] = 10,
    data_dir: Annotated[
        Path | None, typer.Option(help="Searched first for named data sets.")
    ] = None,
) -> None:
    """Answer about single objects: a label per instance or row, the next items per history.

    Rows need no labels. Where they come with candidate labels, the best of these is told too.
    """
    from groupnoise.cli.sources import find_model_and_data

    if output.suffix not in FORMATS:
        raise ParameterError(f"--output must end in {', '.join(FORMATS)}; got {output.name!r}.")
    check_not_own_input(output, data)
    check_writable_file(output)
    fitted, dataset = find_model_and_data(model, data, setting, data_dir, needs_labels=False)
    rows = list(_answers(fitted, dataset, top))
    write_rows(output, rows)
    typer.echo(f"{len(rows)} rows written to {output}")


def _answers(fitted: Any, dataset: Dataset, top: int) -> Iterable[dict[str, Any]]:
    from groupnoise.io.datasets import BagDataset, PartialLabelDataset

    if isinstance(dataset, BagDataset):
        rows, bags = origins_of_instances(dataset)
        # In the order of the file, so that an error tells its rows too.
        order = np.argsort(rows, kind="stable")
        probabilities = fitted.predict_proba(dataset.bags.objects[order])
        for row, bag, values in zip(rows[order], bags[order], probabilities, strict=True):
            yield {"row": row.item(), "bag": bag.item(), **_label(fitted.classes_, values)}
    elif isinstance(dataset, PartialLabelDataset):
        probabilities = fitted.predict_proba(dataset.features)
        inside = among_candidates(dataset, fitted.classes_, probabilities)
        for row, (values, allowed) in enumerate(zip(probabilities, inside, strict=True)):
            answer = {"row": row, **_label(fitted.classes_, values)}
            if dataset.class_names:
                # A row whose candidates the model has never seen has no best one.
                best = _label(fitted.classes_, allowed)["label"] if allowed.max() >= 0 else None
                answer["best_candidate"] = best
            yield answer
    else:
        histories = [dataset.item_ids[history] for history in dataset.histories]
        _tell_of_unknown_clicks(fitted.catalogue_.index(histories))
        ids, scores = fitted.recommend(histories, top=top)
        for user, items, values in zip(dataset.user_ids, ids, scores, strict=True):
            for rank, (item, value) in enumerate(zip(items, values, strict=True), start=1):
                if value == -np.inf:
                    break  # a small catalogue cannot fill every place
                yield {
                    "user": user.item(),
                    "rank": rank,
                    "item": item.item(),
                    "score": float(value),
                }


def _tell_of_unknown_clicks(indexed: IndexedHistories) -> None:
    """Say how many clicks tell the model nothing, and how many histories hold no other."""
    n_unknown = int(indexed.n_unknown.sum())
    n_by_popularity = int((np.diff(indexed.offsets) == 0).sum())
    if n_unknown:
        typer.echo(
            f"clicks on items the model does not know: {n_unknown}; "
            f"histories without another click, answered by popularity: {n_by_popularity}",
            err=True,
        )


def origins_of_instances(dataset: BagDataset) -> tuple[IntArray, NDArray[Any]]:
    """Return the row of the source and the id of the bag of each instance.

    Sets that are not read from a table number both in the order they come in.
    """
    rows, ids = dataset.source_rows, dataset.bag_ids
    if rows is None:
        rows = np.arange(dataset.bags.n_objects)
    if ids is None:
        ids = np.arange(len(dataset.bags))
    return rows, ids[dataset.bags.group_of_object]


def among_candidates(
    dataset: PartialLabelDataset, classes: NDArray[Any], probabilities: FloatArray
) -> FloatArray:
    """Return the probabilities of a model's classes, -1 at those that are no candidates.

    Classes of the data and of the model are matched by name, for their order may differ and
    either may lack some. A model trained on a 0/1 matrix only numbers its classes; where it knows
    no name of the data, they are matched in order.
    """
    columns = {str(label): column for column, label in enumerate(classes.tolist())}
    names = dataset.class_names
    if columns.keys().isdisjoint(names) and list(columns) == [str(i) for i in range(len(names))]:
        names = list(columns)
    inside = np.full(probabilities.shape, -1.0)
    for name, is_candidate in zip(names, dataset.candidates.T, strict=True):
        if name in columns:
            column = columns[name]
            inside[is_candidate, column] = probabilities[is_candidate, column]
    return inside


def _label(classes: Any, values: Any) -> dict[str, Any]:
    best = int(values.argmax())
    return {"label": classes[best].item(), "probability": float(values[best])}


def write_rows(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write a table in the form its suffix names, atomically."""
    with atomic_path(path) as temporary:
        if path.suffix == ".parquet":
            require("polars", extra="data").DataFrame(rows, infer_schema_length=None).write_parquet(
                temporary
            )
        elif path.suffix == ".jsonl":
            temporary.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        else:
            with temporary.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [])
                writer.writeheader()
                writer.writerows(rows)
