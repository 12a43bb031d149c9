"""Artifacts: a trained recall model as a folder that loads without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.clicks.scoring import SCOPES, ScoringRule
from groupnoise.core.checks import check_choice, check_features, check_finite
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError, GroupNoiseError, MissingExtraError, ModelFileError
from groupnoise.io.files import MANIFEST, write_json
from groupnoise.io.folders.array_folder import read_folder, read_manifest, write_folder
from groupnoise.recall.artifact_checks import check_artifact
from groupnoise.recall.index import ApproximateRanker, IndexSpec, build_index, load_index
from groupnoise.recall.items import ItemTable, pack_items
from groupnoise.recall.model import RecallModel
from groupnoise.recall.rankers import NeighbourRanker, Ranker, VectorRanker
from groupnoise.recall.registry import served_folder
from groupnoise.recall.vectors import MatchingVectors, log_normalizers

if TYPE_CHECKING:  # it reads tables, and so loads polars, of which a service has no need
    from groupnoise.clicks.items.features import FeatureMap


def write_artifact(
    folder: Path | str,
    *,
    ids: Sequence[Any] | NDArray[Any],
    query_vectors: NDArray[Any],
    target_vectors: NDArray[Any],
    target_bias: NDArray[Any] | None,
    popularity: NDArray[Any],
    titles: Sequence[str] | None = None,
    categories: Sequence[str | Sequence[str]] | None = None,
    card: Mapping[str, Any] | None = None,
    rule: ScoringRule | None = None,
    log_normalizer: NDArray[Any] | None = None,
    index: IndexSpec | None = None,
    features: FeatureMap | None = None,
) -> str:
    """Write a matching model as an artifact folder; return its version.

    Result: the version: a digest of what was written.
    `folder`: created if needed; an artifact already there is replaced atomically.
    `ids`: the ids histories are made of.
    `query_vectors`, `target_vectors` (n_items, dimension): f and g of every item; stored once where
        they are equal.
    `target_bias`: added to every score of an item.
    `popularity`: answers a history without a known item.
    `categories`: the category, or all categories, of each item; a filter sees all of them.
    `card`: what readers should know: name, data, metrics, date. Anything JSON can hold.
    `rule`: how clicks become scores; by default the paper's MM+ over all clicks.
    `log_normalizer`: log of the sum of exponentiated scores of each item as a query; computed here,
        in blocks, where it is not given.
    `index`: also build a faiss index; refused where its measured recall is below what the spec
        asks.
    `features`: places items that are added later by what is known of them.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> vectors = np.eye(3, dtype=np.float32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_artifact(folder, ids=["tea", "cup", "ink"], query_vectors=vectors,
    ...                        target_vectors=vectors, target_bias=None, popularity=[5, 9, 1])
    ...     model = open_artifact(folder)
    ...     best = model.recall([["tea"], []]).positions[:, 0]
    >>> model.items.ids_of(best)
    ['cup', 'cup']
    """
    vectors = _matching_vectors(query_vectors, target_vectors, target_bias, rule or ScoringRule())
    item_arrays, category_names = pack_items(
        ids=ids, popularity=popularity, titles=titles, categories=categories
    )
    n_items = len(vectors.targets)
    if len(item_arrays["ids"]) != n_items:
        raise DataError(
            f"there are {counted(len(item_arrays['ids']), 'ids')} for "
            f"{counted(n_items, 'item vectors')}."
        )
    arrays = {**item_arrays, **vector_arrays(vectors, log_normalizer), **vectors.rule.arrays()}
    if features is not None:
        arrays.update(features.to_arrays())
    manifest: dict[str, Any] = {
        "kind": "vectors",
        "dimension": vectors.dimension,
        "scoring": vectors.rule.as_record(),
    }
    if index is not None:
        arrays["index"], manifest["index"] = build_index(vectors, index)
    return _write(folder, manifest, arrays, category_names, card)


def write_neighbour_artifact(
    folder: Path | str,
    *,
    ids: Sequence[Any] | NDArray[Any],
    indptr: NDArray[Any],
    indices: NDArray[Any],
    scores: NDArray[Any],
    popularity: NDArray[Any],
    titles: Sequence[str] | None = None,
    categories: Sequence[str | Sequence[str]] | None = None,
    card: Mapping[str, Any] | None = None,
    scope: str = "group",
) -> str:
    """Write item-to-item neighbours as an artifact folder; return its version.

    `indptr`: where the neighbours of each item begin. `indices`, `scores`: the neighbours'
    positions and weights; a history is answered by the sum over its clicks. `scope` (one of
    "group", "last"): whether all clicks of a history are used, or the last one alone.
    """
    check_choice("scope", scope, SCOPES)
    item_arrays, category_names = pack_items(
        ids=ids, popularity=popularity, titles=titles, categories=categories
    )
    begins, neighbours = np.asarray(indptr, dtype=np.int64), np.asarray(indices, dtype=np.int32)
    strengths = np.asarray(scores, dtype=np.float32)
    n_items = len(item_arrays["ids"])
    if begins.shape != (n_items + 1,) or begins[0] != 0 or (np.diff(begins) < 0).any():
        raise DataError(f"indptr must rise from 0 in {n_items + 1} steps, one per item and one.")
    if not len(neighbours) == len(strengths) == begins[-1]:
        raise DataError(f"indices and scores must each have {begins[-1]} entries, as indptr says.")
    if len(neighbours) and not 0 <= neighbours.min() <= neighbours.max() < n_items:
        raise DataError(f"indices must lie between 0 and {n_items - 1}.")
    check_finite("scores", strengths)
    arrays = {**item_arrays, "indptr": begins, "indices": neighbours, "scores": strengths}
    manifest = {"kind": "neighbours", "scoring": {"scope": scope}}
    return _write(folder, manifest, arrays, category_names, card)


def open_artifact(
    folder: Path | str, *, memory_map: bool = True, verify: bool = False, least_recall: float = 0.0
) -> RecallModel:
    """Return the model of an artifact folder.

    Parameters
    ----------
    folder : path
        What :func:`write_artifact` or :func:`write_neighbour_artifact` wrote; of a registry the
        promoted version is opened.
    memory_map : bool, default=True
        True is instant and passes over vectors, neighbours and texts; False reads everything and
        checks every byte and every value.
    verify : bool, default=False
        Check every byte and every value of a mapped artifact too: processes that map the same
        files share the memory.
    least_recall : float, default=0.0
        Refuse a faiss index whose recorded recall lies below this.

    Returns
    -------
    RecallModel
        Ready to answer.

    Raises
    ------
    ModelFileError
        If the folder is missing, altered, or holds parts that do not fit together.
    """
    folder = served_folder(folder)
    manifest, arrays = read_folder(folder, memory_map=memory_map, verify=verify)
    with sound_artifact(folder):
        check_artifact(manifest, arrays, every_value=verify or not memory_map)
        items = ItemTable(arrays, manifest.get("categories", []))
        ranker = _ranker(manifest, arrays, least_recall)
    return RecallModel(items=items, ranker=ranker, manifest=manifest)


def describe_training(folder: Path | str, training: Mapping[str, Any]) -> None:
    """Record in the manifest of an artifact how its model was trained.

    `training`: anything JSON can hold: data, parameters, seed, decisions, evaluation.
    """
    manifest = read_manifest(folder)
    write_json(Path(folder) / MANIFEST, {**manifest, "training": dict(training)})


def log_columns(manifest: Any) -> dict[str, Any]:
    """Return the columns of the training log of an artifact, empty if it does not name them.

    `manifest`: of any artifact; its parts may be of any type.
    """
    return _strings_at(manifest, "training", "data", "columns")


def item_columns(manifest: Any) -> dict[str, str]:
    """Return the columns of titles and categories that an artifact was exported with.

    `manifest`: of any artifact, as in :func:`log_columns`.
    """
    return _strings_at(manifest, "training", "item_columns")


def _strings_at(manifest: Any, *path: str) -> dict[str, Any]:
    for part in path:
        manifest = manifest.get(part) if isinstance(manifest, dict) else None
    known = manifest if isinstance(manifest, dict) else {}
    return {part: name for part, name in known.items() if isinstance(name, (str, float))}


def add_index(folder: Path | str, spec: IndexSpec) -> dict[str, Any]:
    """Build a faiss index for an artifact of vectors already written; return its description.

    Refused, and the artifact left as it was, where the measured recall is below what `spec` asks.
    """
    manifest, arrays = read_folder(folder, memory_map=False)
    if manifest.get("kind") != "vectors":
        raise DataError(f"{folder} holds no vectors, so it cannot have an index.")
    with sound_artifact(folder):
        check_artifact(manifest, arrays, every_value=True)
        vectors = stored_vectors(manifest, arrays)
    index, description = build_index(vectors, spec)
    manifest["index"] = description
    write_folder(folder, manifest=manifest, arrays={**arrays, "index": index})
    return description


def vector_arrays(
    vectors: MatchingVectors, log_normalizer: NDArray[Any] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the arrays of vectors, and of the log-normalizer of each click.

    Without `log_normalizer` it is computed anew, whatever `vectors` hold.
    """
    n_items = len(vectors.targets)
    if log_normalizer is None and vectors.rule.normalization == "history":
        # No click is normalized by itself, and all pairs of a large catalogue would take hours.
        log_normalizer = np.zeros(n_items)
    elif log_normalizer is None:
        rows = np.ones(vectors.targets.shape, dtype=np.float32)
        rows[:, :-1] = vectors.queries[:, : vectors.dimension]
        log_normalizer = log_normalizers(rows, vectors.targets)
    normalizer = np.asarray(log_normalizer, dtype=np.float32)
    if normalizer.shape != (n_items,):
        raise DataError(f"log_normalizer must have shape ({n_items},); got {normalizer.shape}.")
    arrays = {"target_vectors": vectors.targets, "log_normalizer": normalizer}
    if vectors.queries is not vectors.targets:
        arrays["query_vectors"] = vectors.queries
    return arrays


@contextmanager
def sound_artifact(folder: Path | str) -> Iterator[None]:
    """Turn any error of the block into one sentence on a damaged artifact."""
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:  # files come from anywhere, and no list of what may fail is whole
        reason = str(error) if isinstance(error, GroupNoiseError) else repr(error)
        raise ModelFileError(
            f"{folder} is no sound artifact: {reason.rstrip('.')}. Export it again."
        ) from None


def _matching_vectors(queries: Any, targets: Any, bias: Any, rule: ScoringRule) -> MatchingVectors:
    is_shared = queries is targets or np.array_equal(queries, targets)
    target_rows = check_features("target_vectors", targets)
    n_items, dimension = target_rows.shape
    with_bias = np.zeros((n_items, dimension + 1), dtype=np.float32)
    with_bias[:, :-1] = target_rows
    if bias is not None:
        if np.shape(bias) != (n_items,):
            raise DataError(f"target_bias must have shape ({n_items},); got {np.shape(bias)}.")
        with_bias[:, -1] = bias
        check_finite("target_bias", with_bias[:, -1])
    query_rows = with_bias
    if not is_shared:
        query_rows = check_features("query_vectors", queries, width=dimension).astype(np.float32)
        if len(query_rows) != n_items:
            raise DataError(f"there are {len(query_rows)} query and {n_items} target vectors.")
    _check_negatives(rule, n_items)
    unknown = np.zeros(n_items, dtype=np.float32)
    return MatchingVectors(with_bias, query_rows, unknown, rule)


def _check_negatives(rule: ScoringRule, n_items: int) -> None:
    if any(item >= n_items for item in rule.negatives):
        raise DataError(f"the negatives of the rule must lie between 0 and {n_items - 1}.")


def _write(
    folder: Path | str,
    manifest: dict[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    category_names: list[str],
    card: Mapping[str, Any] | None,
) -> str:
    described = {
        **manifest,
        "n_items": len(arrays["ids"]),
        "categories": category_names,
        "card": dict(card or {}),
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    return write_folder(folder, manifest=described, arrays=arrays)


def _ranker(
    manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], least_recall: float
) -> Ranker:
    kind = manifest.get("kind")
    if kind == "neighbours":
        scope = manifest["scoring"].get("scope")
        check_choice("scope", scope, SCOPES)
        return NeighbourRanker(
            arrays["indptr"], arrays["indices"], arrays["scores"], arrays["popularity"], scope
        )
    if kind != "vectors":
        raise ModelFileError(f"this release reads no artifact of kind {kind!r}; upgrade it.")
    vectors = stored_vectors(manifest, arrays)
    if "index" not in arrays:
        return VectorRanker(vectors)
    index = load_index(
        arrays["index"], manifest["index"], least_recall=least_recall, shape=vectors.targets.shape
    )
    return ApproximateRanker(vectors, index)


def stored_vectors(
    manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> MatchingVectors:
    """Return the vectors of an artifact, and the rule that scores with them."""
    targets = arrays["target_vectors"]
    rule = ScoringRule.from_record(manifest["scoring"], arrays)
    _check_negatives(rule, len(targets))
    queries = arrays.get("query_vectors", targets)
    return MatchingVectors(targets, queries, arrays["log_normalizer"], rule)
