"""`groupnoise export`: a trained recall model becomes an artifact that serves without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from groupnoise.exceptions import DataError, ModelFileError


def read_item_table(
    path: Path,
    item_ids: NDArray[Any],
    *,
    id_column: str,
    title_column: str,
    category_column: str,
) -> tuple[list[str], list[str] | None]:
    """Return the title and category of each item, in the order of `item_ids`.

    Items missing from the table get their id as title and no category; so do empty cells.
    Categories are None where the table has no such column.
    """
    from groupnoise.io.tables import read_table

    is_plain = path.with_suffix("" if path.suffix == ".gz" else path.suffix).suffix in ("", ".txt")
    frame = read_table(path, format="csv" if is_plain else None, header=True).frame
    for needed in (id_column, title_column):
        if needed not in frame.columns:
            raise DataError(f"{path} has no column {needed!r}; it has {', '.join(frame.columns)}.")
    items = _texts(frame, id_column)
    titles = dict(zip(items, _texts(frame, title_column), strict=True))
    keys = [str(item) for item in item_ids.tolist()]
    if not any(key in titles for key in keys):
        raise DataError(f"no id in column {id_column!r} of {path} is an item of the model.")
    named = [titles.get(key) or key for key in keys]
    if category_column not in frame.columns:
        return named, None
    first = [cell.split("|")[0] for cell in _texts(frame, category_column)]
    categories = dict(zip(items, first, strict=True))
    return named, [categories.get(key) or "other" for key in keys]


def _texts(frame: Any, column: str) -> list[str]:
    return ["" if cell is None else str(cell).strip() for cell in frame[column]]


def export(
    model: Annotated[Path, typer.Argument(help="Model folder written by `groupnoise fit`.")],
    output: Annotated[Path, typer.Option(help="Artifact folder to write.")],
    items: Annotated[
        Path | None,
        typer.Option(help="Table of titles and categories: .csv, .tsv, .parquet, .jsonl."),
    ] = None,
    id_column: Annotated[str, typer.Option(help="Column of the item id.")] = "item",
    title_column: Annotated[str, typer.Option(help="Column of the title.")] = "title",
    category_column: Annotated[
        str, typer.Option(help="Column of the category; of several joined by | the first counts.")
    ] = "category",
    card: Annotated[
        Path | None, typer.Option(help="JSON file shown as the model card: name, data, metrics.")
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="Also build a faiss index: ivf or hnsw.")
    ] = None,
    least_recall: Annotated[
        float, typer.Option(help="Refuse an index that finds less of the exact top 10.")
    ] = 0.95,
    neighbours: Annotated[
        int, typer.Option(help="Neighbours kept per item where a model is not made of vectors.")
    ] = 200,
) -> None:
    """Write a recall model as a folder that loads in an instant and never runs code."""
    from groupnoise.io.files import check_not_own_input, check_writable_folder
    from groupnoise.recall.approximate import IndexSpec
    from groupnoise.recall.artifact import add_index, open_artifact

    check_not_own_input(output, model)
    check_writable_folder(output)
    spec = None if index is None else IndexSpec(kind=index, least_recall=least_recall)
    fitted = _load(model)
    titles, categories = None, None
    if items is not None:
        titles, categories = read_item_table(
            items,
            fitted.items_,
            id_column=id_column,
            title_column=title_column,
            category_column=category_column,
        )
    write_recommender(
        fitted,
        output,
        titles=titles,
        categories=categories,
        card={"name": type(fitted).__name__, **_read_card(card)},
        neighbours=neighbours,
    )
    if spec is not None:
        found = add_index(output, spec)
        typer.echo(f"{found['kind']} index: recall {found['recall']} at {found['at']}")
    written = open_artifact(output)
    typer.echo(f"{len(written.items)} items, version {written.version}, in {output}")


def write_recommender(
    fitted: Any,
    output: Path,
    *,
    titles: list[str] | None,
    categories: list[str] | None,
    card: dict[str, Any],
    neighbours: int = 200,
) -> None:
    """Write any fitted recommender as an artifact: vectors where it has them, else neighbours."""
    from groupnoise.core.groups import Groups
    from groupnoise.recall.artifact import write_artifact, write_neighbour_artifact
    from groupnoise.recall.rankers import neighbours_from_scores

    if hasattr(fitted, "item_vectors"):
        vectors = fitted.item_vectors()
        write_artifact(
            output,
            ids=fitted.items_,
            query_vectors=vectors.query,
            target_vectors=vectors.target,
            target_bias=vectors.bias,
            popularity=fitted.popularity_,
            titles=titles,
            categories=categories,
            card=card,
            scoring={
                "weighting_strength": fitted.weighting_strength_ if fitted.weighting else 0.0,
                "similarity_scale": fitted.similarity_scale,
                "recency": fitted.recency,
                "window_size": fitted.window_size,
            },
        )
        return

    def scores_after(items: Any) -> Any:
        return fitted.scores(Groups(items, range(len(items) + 1)))

    indptr, indices, scores = neighbours_from_scores(
        scores_after,
        fitted.n_items_,
        top=neighbours,
        as_probabilities=not hasattr(fitted, "similarity_"),
    )
    write_neighbour_artifact(
        output,
        ids=fitted.items_,
        indptr=indptr,
        indices=indices,
        scores=scores,
        popularity=fitted.popularity_,
        titles=titles,
        categories=categories,
        card=card,
    )


def _load(folder: Path) -> Any:
    from groupnoise.io.models import load_model

    fitted = load_model(folder)
    if not hasattr(fitted, "recommend"):
        raise ModelFileError(f"{folder} holds a {type(fitted).__name__}, which recalls no items.")
    return fitted


def _read_card(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        card = json.loads(path.read_text(encoding="utf-8"), parse_constant=_check_not_constant)
        # Python reads more than it can send: 1e999 becomes infinite, "\ud800" half a character.
        json.dumps(card, allow_nan=False, ensure_ascii=False).encode()
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read as JSON ({error}).") from None
    if not isinstance(card, dict):
        raise DataError(f'{path} must hold one JSON object, such as {{"data": "..."}}.')
    return card


def _check_not_constant(name: str) -> None:
    raise ValueError(f"JSON has no {name}")
