"""Artifacts: a trained recall model as a folder that loads without torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.checks import check_count, check_features, check_finite
from groupnoise.exceptions import (
    DataError,
    GroupNoiseError,
    MissingExtraError,
    ModelFileError,
    ParameterError,
)
from groupnoise.io.array_folder import read_folder, write_folder
from groupnoise.recall.approximate import ApproximateRanker, IndexSpec, build_index, load_index
from groupnoise.recall.artifact_checks import check_artifact
from groupnoise.recall.items import ItemTable, pack_items
from groupnoise.recall.model import RecallModel
from groupnoise.recall.rankers import NeighbourRanker, Ranker, VectorRanker
from groupnoise.recall.scoring import MatchingVectors, log_normalisers

_LARGEST_STRENGTH = 1e6
"""Of a scoring rule: a larger one drowns the scores, in the end in NaN."""


def write_artifact(
    folder: Path | str,
    *,
    ids: Sequence[Any] | NDArray[Any],
    query_vectors: NDArray[Any],
    target_vectors: NDArray[Any],
    target_bias: NDArray[Any] | None,
    popularity: NDArray[Any],
    titles: Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
    card: Mapping[str, Any] | None = None,
    scoring: Mapping[str, Any] | None = None,
    index: IndexSpec | None = None,
) -> str:
    """Write a matching model as an artifact folder; return its version.

    Parameters
    ----------
    folder : path
        Created if needed; an artifact already there is replaced atomically.
    ids : sequence of int or str, length n_items
        The ids histories are made of.
    query_vectors, target_vectors : ndarray of shape (n_items, dimension)
        f and g of every item; stored once where they are equal.
    target_bias : ndarray of shape (n_items,), optional
        Added to every score of an item.
    popularity : ndarray of shape (n_items,)
        Answers a history without a known item.
    titles, categories : sequence of str, optional
        One per item.
    card : mapping, optional
        What readers should know: name, data, metrics, date. Anything JSON can hold.
    scoring : mapping, optional
        `weighting_strength` (1), `similarity_scale` (1), `recency` (0: order does not count),
        `window_size` (None: MM+ looks at every click) and `log_normalizer`, an ndarray of shape
        (n_items,) computed here, in blocks, where it is absent or None.
    index : IndexSpec, optional
        Also build a faiss index; refused where its measured recall is below what the spec asks.

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
    rules = dict(scoring or {})
    given_normaliser = rules.pop("log_normalizer", None)
    vectors = _matching_vectors(query_vectors, target_vectors, target_bias, rules)
    item_arrays, category_names = pack_items(
        ids=ids, popularity=popularity, titles=titles, categories=categories
    )
    n_items = len(vectors.targets)
    if len(item_arrays["ids"]) != n_items:
        raise DataError(f"there are {len(item_arrays['ids'])} ids for {n_items} item vectors.")
    if given_normaliser is None:
        given_normaliser = log_normalisers(vectors.query_rows(np.arange(n_items)), vectors.targets)
    normalizer = np.asarray(given_normaliser, dtype=np.float32)
    if normalizer.shape != (n_items,):
        raise DataError(f"log_normalizer must have shape ({n_items},); got {normalizer.shape}.")
    arrays = {**item_arrays, "target_vectors": vectors.targets, "log_normalizer": normalizer}
    if vectors.queries is not vectors.targets:
        arrays["query_vectors"] = vectors.queries
    manifest: dict[str, Any] = {
        "kind": "vectors",
        "dimension": vectors.dimension,
        "scoring": {
            "weighting_strength": vectors.weighting_strength,
            "similarity_scale": vectors.similarity_scale,
            "recency": vectors.recency,
            "window_size": vectors.window_size,
        },
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
    categories: Sequence[str] | None = None,
    card: Mapping[str, Any] | None = None,
) -> str:
    """Write item-to-item neighbours as an artifact folder; return its version.

    Parameters
    ----------
    folder, ids, popularity, titles, categories, card
        As in :func:`write_artifact`.
    indptr : ndarray of shape (n_items + 1,)
        Where the neighbours of each item begin.
    indices, scores : ndarray of shape (n_pairs,)
        The neighbours' positions, and how strongly the item leads to each; a history is answered
        by the sum over its clicks.
    """
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
    return _write(folder, {"kind": "neighbours"}, arrays, category_names, card)


def open_artifact(
    folder: Path | str, *, memory_map: bool = True, least_recall: float = 0.0
) -> RecallModel:
    """Return the model of an artifact folder.

    Parameters
    ----------
    folder : path
        What :func:`write_artifact` or :func:`write_neighbour_artifact` wrote.
    memory_map : bool
        True is instant and passes over vectors, neighbours and texts; False reads everything and
        checks every byte and every value.
    least_recall : float
        Refuse a faiss index whose recorded recall lies below this.

    Raises
    ------
    ModelFileError
        If the folder is missing, altered, or holds parts that do not fit together.
    """
    manifest, arrays = read_folder(folder, memory_map=memory_map)
    with _sound_artifact(folder):
        check_artifact(manifest, arrays, every_value=not memory_map)
        items = ItemTable(arrays, manifest.get("categories", []))
        ranker = _ranker(manifest, arrays, least_recall)
    return RecallModel(items=items, ranker=ranker, manifest=manifest)


def add_index(folder: Path | str, spec: IndexSpec) -> dict[str, Any]:
    """Build a faiss index for an artifact of vectors already written; return its description.

    Refused, and the artifact left as it was, where the measured recall is below what `spec` asks.
    """
    manifest, arrays = read_folder(folder, memory_map=False)
    if manifest.get("kind") != "vectors":
        raise DataError(f"{folder} holds no vectors, so it cannot have an index.")
    with _sound_artifact(folder):
        check_artifact(manifest, arrays, every_value=True)
        vectors = _stored_vectors(manifest, arrays)
    index, description = build_index(vectors, spec)
    manifest["index"] = description
    write_folder(folder, manifest=manifest, arrays={**arrays, "index": index})
    return description


@contextmanager
def _sound_artifact(folder: Path | str) -> Iterator[None]:
    """Refuse in one sentence an artifact that the block cannot make sense of."""
    try:
        yield
    except MissingExtraError:
        raise
    except Exception as error:  # files come from anywhere, and no list of what may fail is whole
        reason = str(error) if isinstance(error, GroupNoiseError) else repr(error)
        raise ModelFileError(
            f"{folder} is no sound artifact: {reason.rstrip('.')}. Export it again."
        ) from None


def _matching_vectors(
    queries: Any, targets: Any, bias: Any, rules: Mapping[str, Any]
) -> MatchingVectors:
    unknown = set(rules) - {"weighting_strength", "similarity_scale", "recency", "window_size"}
    if unknown:
        raise DataError(f"scoring has no setting {sorted(unknown)[0]!r}.")
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
    return MatchingVectors(
        targets=with_bias,
        queries=query_rows,
        log_normalizer=np.zeros(n_items, dtype=np.float32),
        weighting_strength=_strength(rules, "weighting_strength", 1.0),
        similarity_scale=_strength(rules, "similarity_scale", 1.0),
        recency=_strength(rules, "recency", 0.0),
        window_size=_window_size(rules),
    )


def _strength(rules: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = rules[name] if default is None else rules.get(name, default)
    is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= _LARGEST_STRENGTH:
        raise ParameterError(
            f"{name} must be a number of at most {_LARGEST_STRENGTH:g}; got {str(value)[:40]}."
        )
    return float(value)


def _window_size(rules: Mapping[str, Any]) -> int | None:
    size = rules.get("window_size")
    if size is None:
        return None
    check_count("window_size", size)
    return int(size)


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
        return NeighbourRanker(arrays["indptr"], arrays["indices"], arrays["scores"])
    if kind != "vectors":
        raise ModelFileError(f"this release reads no artifact of kind {kind!r}; upgrade it.")
    exact = VectorRanker(_stored_vectors(manifest, arrays))
    if "index" not in arrays:
        return exact
    index = load_index(
        arrays["index"],
        manifest["index"],
        least_recall=least_recall,
        shape=exact.vectors.targets.shape,
    )
    return ApproximateRanker(exact, index)


def _stored_vectors(
    manifest: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> MatchingVectors:
    targets = arrays["target_vectors"]
    rules = manifest["scoring"]
    return MatchingVectors(
        targets=targets,
        queries=arrays.get("query_vectors", targets),
        log_normalizer=arrays["log_normalizer"],
        weighting_strength=_strength(rules, "weighting_strength"),
        similarity_scale=_strength(rules, "similarity_scale"),
        recency=_strength(rules, "recency"),
        window_size=_window_size(rules),
    )
