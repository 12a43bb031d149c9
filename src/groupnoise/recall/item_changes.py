"""Adding items to an artifact, and removing them, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from groupnoise.clicks.items.catalogue import ATTRIBUTE_SIGN
from groupnoise.clicks.items.columns import PREFIX
from groupnoise.clicks.items.features import FeatureMap
from groupnoise.clicks.items.table import (
    NO_CATEGORY,
    ItemRows,
    read_item_rows,
    read_items,
    whole_numbers,
)
from groupnoise.clicks.mixture import ItemVectors
from groupnoise.clicks.scoring import ScoringRule
from groupnoise.core.arrays import IntArray
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.columns.names import usual_column
from groupnoise.io.folders.array_folder import read_folder, write_folder
from groupnoise.io.tables.sources import Report
from groupnoise.recall.artifact import (
    item_columns,
    log_columns,
    open_artifact,
    sound_artifact,
    stored_vectors,
    vector_arrays,
)
from groupnoise.recall.artifact_checks import check_artifact
from groupnoise.recall.index import IndexSpec, build_index
from groupnoise.recall.items import ItemTable, pack_items
from groupnoise.recall.vectors import MatchingVectors

Arrays = Mapping[str, NDArray[Any]]

USUAL_RECALL = 0.95
"""Recall that a rebuilt index must reach, or that of the old one if lower."""
ADDED = "items_added"
"""Key in the manifest of the tables whose items were added."""


def remove_items(folder: Path | str, ids: Sequence[Any]) -> str:
    """Take items out of an artifact; return its new version.

    They become unknown to the model: never recommended, and ignored in histories.

    `folder`: an artifact, replaced atomically; a running service sees it at its next reload. Raises
    DataError if the artifact does not know an item, or no item would be left.
    """
    manifest, arrays, items = _open_checked(folder)
    positions = items.positions_of(ids)
    if (positions < 0).any():
        unknown = ids[int(np.flatnonzero(positions < 0)[0])]
        raise DataError(f"{folder} has no item {unknown!r} to remove.")
    kept = np.delete(np.arange(len(items)), positions)
    if not len(kept):
        raise DataError(f"all {len(items)} items of {folder} would be removed; one must stay.")
    changed = _item_arrays(manifest, arrays, items, kept)
    if manifest["kind"] == "neighbours":
        table = sparse.csr_array(
            (arrays["scores"], arrays["indices"], arrays["indptr"]), shape=(len(items),) * 2
        )[kept][:, kept]
        changed |= {
            "scores": table.data,
            "indices": table.indices.astype(np.int32),
            "indptr": table.indptr.astype(np.int64),
        }
    else:
        vectors = stored_vectors(manifest, arrays)
        rule = _renumber_rule(vectors.rule, kept, folder)
        manifest["scoring"] = rule.as_record()
        targets = vectors.targets[kept]
        queries = targets if vectors.queries is vectors.targets else vectors.queries[kept]
        changed |= _vector_arrays(manifest, targets, queries, rule)
        features = FeatureMap.from_arrays(arrays, vectors.dimension)
        if features is not None:
            arrays = {name: arrays[name] for name in arrays if not name.startswith(PREFIX)}
            changed |= features.among(kept).to_arrays()
    return _write(folder, manifest, {**arrays, **changed}, len(kept))


def add_items(
    folder: Path | str,
    source: Any,
    *,
    title: str | None = None,
    category: str | None = None,
    report: Report | None = None,
    **form: Any,
) -> str:
    """Add items to an artifact by what a table says of them; return its new version.

    `folder`: an artifact of a model fitted with features of items; replaced atomically. `source`:
    one row per new item, with the columns that the model was fitted with. `title`, `category`: the
    columns of titles and categories; by default those given to `groupnoise export`, or with a
    usual name. `form`: `item`, `format`, `separator`, `header`, as
    :func:`groupnoise.clicks.items.table.read_item_rows` takes them. Raises DataError if an item is
    there already or occurs twice, a column is missing, or the artifact has learned nothing from
    features.
    """
    manifest, arrays, items = _open_checked(folder)
    features = None
    if manifest["kind"] == "vectors":
        features = FeatureMap.from_arrays(arrays, arrays["target_vectors"].shape[1] - 1)
    if features is None:
        raise DataError(
            f"{folder} has learned nothing from features of items, so that a new one cannot be "
            "placed; fit with --items TABLE (item_features=) and export again."
        )
    every = np.arange(len(items))
    rows = read_item_rows(
        source,
        np.array(items.ids_of(every)),
        in_log=log_columns(manifest).get("item"),
        learned={column.name for column in features.columns},
        report=report,
        **form,
    )
    ids = _new_ids(items, rows, folder)
    columns_named = item_columns(manifest)
    columns_named = {
        part: name for part, name in columns_named.items() if name in rows.columns.columns
    }
    changed = _item_arrays(
        manifest,
        arrays,
        items,
        every,
        ids,
        rows,
        title or columns_named.get("title"),
        category or columns_named.get("category"),
    )
    named = {"title": title, "category": category}
    for part, array in (("title", "titles"), ("category", "category_codes")):
        column = named[part] or usual_column(part, rows.columns.columns)
        if column is not None and array not in arrays and report is not None:
            report(
                f"left out the {part} in column {column!r}: the artifact has none of its other "
                "items; export it with --items to have them shown"
            )
    manifest[ADDED] = [*added_from(manifest), Path(rows.origin).name]
    vectors = stored_vectors(manifest, arrays)
    added = features.vectors(
        rows.columns,
        ItemVectors(
            vectors.features(every), vectors.targets[:, : vectors.dimension], vectors.targets[:, -1]
        ),
    )
    if features.new_item_bias is not None:
        n_new = int((items.popularity == 0).sum()) + len(ids)
        added.bias[:] += np.float32(features.new_item_bias.offset_for(n_new))
    new = np.concatenate([added.target, added.bias[:, None]], axis=1)
    queries = targets = np.concatenate([vectors.targets, new])
    if vectors.queries is not vectors.targets:
        queries = np.concatenate([vectors.queries, added.query])
    changed |= _vector_arrays(manifest, targets, queries, vectors.rule)
    return _write(folder, manifest, {**arrays, **changed}, len(items) + len(ids))


def added_from(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the tables whose items were added to an artifact."""
    tables = manifest.get(ADDED)
    return [each for each in tables if isinstance(each, str)] if isinstance(tables, list) else []


def lost_items_message(before: Path, items: NDArray[Any], place: Path) -> str | None:
    """Return a message on added items that a new artifact lacks, or None.

    `items`: ids that the new artifact knows.
    """
    earlier = open_artifact(before)
    tables = added_from(earlier.manifest)
    if not tables:
        return None
    known = {str(each) for each in items.tolist()}
    never_clicked = np.flatnonzero(earlier.items.popularity == 0)
    lost = [each for each in earlier.items.ids_of(never_clicked) if str(each) not in known]
    if not lost:
        return None
    commands = [f"`groupnoise items add {place} {table}`" for table in dict.fromkeys(tables)]
    return (
        f"{counted(len(lost), 'items')} added to the artifact there, such as {lost[0]!r}, "
        f"{'is' if len(lost) == 1 else 'are'} not in this one, whose model does not know them: "
        f"run {' and '.join(commands)} again."
    )


def _open_checked(folder: Path | str) -> tuple[dict[str, Any], dict[str, NDArray[Any]], ItemTable]:
    manifest, arrays = read_folder(folder, memory_map=False)
    with sound_artifact(folder):
        check_artifact(manifest, arrays, every_value=True)
        return manifest, arrays, ItemTable(arrays, manifest.get("categories", []))


def _new_ids(items: ItemTable, rows: ItemRows, folder: Path | str) -> list[Any]:
    """Return the ids of new items in the id type of the artifact."""
    there = np.flatnonzero(items.positions_of(rows.ids) >= 0)
    if len(there):
        raise DataError(
            f"{rows.origin}: item {rows.ids[there[0]]!r} is in {folder} already, as are "
            f"{len(there)} of {len(rows.ids)} in all; remove them first, or leave their rows out."
        )
    return whole_numbers(rows.ids, rows.origin, folder) if items.has_integer_ids else rows.ids


def _item_arrays(
    manifest: dict[str, Any],
    arrays: Arrays,
    items: ItemTable,
    kept: IntArray,
    ids: Sequence[Any] = (),
    rows: ItemRows | None = None,
    title: str | None = None,
    category: str | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the arrays of ids, popularity, titles and categories of items kept and new."""
    positions = kept.tolist()
    new_titles, new_categories = [], []
    if rows is not None:
        table = rows.columns.with_columns(pl.Series("item", rows.ids))
        attributes = {
            name.partition(ATTRIBUTE_SIGN)[0]
            for name in items.category_names
            if ATTRIBUTE_SIGN in name
        }
        known = [name for name in rows.columns.columns if name in attributes]
        found = read_items(
            table, np.array(rows.ids), item="item", attributes=known, title=title, category=category
        )
        new_titles = found.titles
        new_categories = found.categories or [[NO_CATEGORY] for _ in ids]
    titles = categories = None
    if "titles" in arrays:
        titles = [items.title_of(position) or "" for position in positions] + new_titles
    if "category_codes" in arrays:
        categories = [
            [items.category_names[code] for code in items.codes_of(position)]
            for position in positions
        ] + new_categories
    packed, manifest["categories"] = pack_items(
        ids=[*items.ids_of(kept), *ids],
        popularity=np.concatenate([items.popularity[kept], np.zeros(len(ids))]),
        titles=titles,
        categories=categories,
    )
    return packed


def _renumber_rule(rule: ScoringRule, kept: IntArray, folder: Path | str) -> ScoringRule:
    """Return the rule with its negatives renumbered for a smaller catalogue."""
    if not rule.negatives:
        return rule
    position_of = {position: number for number, position in enumerate(kept.tolist())}
    negatives = tuple(position_of[item] for item in rule.negatives if item in position_of)
    if not negatives:
        raise DataError(
            f"every item that {folder} holds clicks against would be removed; export it again."
        )
    return replace(rule, negatives=negatives)


def _vector_arrays(
    manifest: dict[str, Any],
    targets: NDArray[np.float32],
    queries: NDArray[np.float32],
    rule: ScoringRule,
) -> dict[str, NDArray[Any]]:
    """Return vectors, their normalizers, and an index if the artifact has one."""
    vectors = MatchingVectors(targets, queries, np.zeros(len(targets), dtype=np.float32), rule)
    changed = vector_arrays(vectors)
    if "index" in manifest:
        old = manifest["index"]
        spec = IndexSpec(
            kind=old["kind"], at=old["at"], least_recall=min(old["recall"], USUAL_RECALL)
        )
        changed["index"], manifest["index"] = build_index(vectors, spec)
    return changed


def _write(folder: Path | str, manifest: dict[str, Any], arrays: Arrays, n_items: int) -> str:
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return write_folder(
        folder, manifest={**manifest, "n_items": n_items, "created": created}, arrays=arrays
    )
