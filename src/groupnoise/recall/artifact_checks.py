"""Checks of an artifact before it answers: complete, consistent and in range."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import blocks
from groupnoise.exceptions import ModelFileError
from groupnoise.io.folders.array_folder import (
    INTEGERS,
    check_numbers,
    check_offsets,
    check_positions,
    require_array,
)

Arrays = Mapping[str, NDArray[Any]]

LARGEST_VALUE = 1e15
"""Largest value of a vector or score, so that products and sums stay finite in float32."""
_REQUIRED = {"version": str, "kind": str}
_OPTIONAL = {
    "categories": list,
    "card": dict,
    "created": str,
    "dimension": int,
    "scoring": dict,
    "index": dict,
}


def check_artifact(manifest: Mapping[str, Any], arrays: Arrays, *, every_value: bool) -> None:
    """Refuse an artifact whose parts are missing, of another type, or do not fit together.

    `arrays`: the arrays it names. `every_value`: False skips the values of vectors, neighbours and
    texts, which would have to be read from disk; arrays with one number per item are always
    checked.
    """
    _check_manifest(manifest)
    n_items = _check_ids(arrays, every_value=every_value)
    _check_manifest_value(manifest, "n_items", n_items)
    _check_columns(manifest, arrays, n_items)
    for name in ("titles", "search_text"):
        if name in arrays:
            _check_text(name, arrays, n_items, every_value=every_value)
    if manifest["kind"] == "vectors":
        width = _check_vectors(arrays, n_items, every_value=every_value)
        _check_manifest_value(manifest, "dimension", width - 1)
    elif manifest["kind"] == "neighbours":
        _check_neighbours(arrays, n_items, every_value=every_value)


def _check_manifest(manifest: Mapping[str, Any]) -> None:
    for name, kind in {**_REQUIRED, **_OPTIONAL}.items():
        if (name in manifest or name in _REQUIRED) and not isinstance(manifest.get(name), kind):
            raise ModelFileError(f"its manifest holds no {kind.__name__} under {name!r}.")
    if not all(isinstance(name, str) for name in manifest.get("categories", [])):
        raise ModelFileError("its manifest names a category by something that is not text.")
    try:
        # A service shows the manifest, and can send neither NaN nor half a character.
        json.dumps(manifest, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"its manifest cannot be shown ({error}).") from None


def _check_manifest_value(manifest: Mapping[str, Any], name: str, actual: int) -> None:
    stated = manifest.get(name, actual)
    if isinstance(stated, bool) or stated != actual:
        raise ModelFileError(f"its manifest gives {stated!r} as {name} where it is {actual}.")


def _check_ids(arrays: Arrays, *, every_value: bool) -> int:
    ids = require_array(arrays, "ids", types=("i8", "S"), shape=(None,))
    n_items = len(ids)
    if n_items == 0:
        raise ModelFileError("it holds no item.")
    order = require_array(arrays, "id_order", types=INTEGERS, shape=(n_items,))
    check_positions("id_order", order, n_items)
    if ids.dtype.kind == "S":
        _check_text_ids(ids)
    if every_value:
        sorted_ids = ids[order]
        if not (sorted_ids[1:] > sorted_ids[:-1]).all():
            raise ModelFileError("the stored id_order does not sort the ids, or one occurs twice.")
    return n_items


def _check_text_ids(ids: NDArray[Any]) -> None:
    rows = np.ascontiguousarray(ids).view(np.uint8).reshape(len(ids), -1)
    for _, part in blocks(rows):
        if part.max() < 0x80:
            continue  # plain ASCII, the usual case
        # If no row begins inside a character, rows are valid if their concatenation is.
        is_sound = not ((part[:, 0] & 0xC0) == 0x80).any()
        if not (is_sound and _is_utf8(part.reshape(-1))):
            raise ModelFileError("the stored ids are not text in UTF-8.")


def _check_columns(manifest: Mapping[str, Any], arrays: Arrays, n_items: int) -> None:
    """Check the arrays with one entry per item that every kind of artifact has."""
    check_numbers(
        "popularity", require_array(arrays, "popularity", types=("f4",), shape=(n_items,))
    )
    popular = require_array(arrays, "popular_order", types=INTEGERS, shape=(n_items,))
    check_positions("popular_order", popular, n_items)
    if "category_codes" in arrays:
        codes = require_array(arrays, "category_codes", types=INTEGERS, shape=(None,))
        check_positions("category_codes", codes, len(manifest.get("categories", [])))
        begins = require_array(arrays, "category_offsets", types=INTEGERS, shape=(n_items + 1,))
        check_offsets("category_offsets", begins, len(codes))


def _check_text(name: str, arrays: Arrays, n_items: int, *, every_value: bool) -> None:
    text = require_array(arrays, name, types=("u1",), shape=(None,))
    offsets = require_array(arrays, f"{name}_offsets", types=("i8",), shape=(n_items + 1,))
    check_offsets(f"{name}_offsets", offsets, len(text), allow_empty=False)
    if not every_value:
        return
    if (text[offsets[1:] - 1] != ord("\n")).any():
        raise ModelFileError(f"the stored {name} does not end every line where its offsets do.")
    if not _is_utf8(text):
        raise ModelFileError(f"the stored {name} is not text in UTF-8.")


def _is_utf8(text: NDArray[np.uint8]) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for _, part in blocks(text):
            decoder.decode(part.data)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _check_vectors(arrays: Arrays, n_items: int, *, every_value: bool) -> int:
    """Return the width of the target vectors with their bias."""
    targets = require_array(arrays, "target_vectors", types=("f4",), shape=(n_items, None))
    width = int(targets.shape[1])
    if width < 2:
        raise ModelFileError("the stored target_vectors hold no column beside the bias.")
    normalizer = require_array(arrays, "log_normalizer", types=("f4",), shape=(n_items,))
    check_numbers("log_normalizer", normalizer, largest=LARGEST_VALUE)
    vectors = {"target_vectors": targets}
    if "query_vectors" in arrays:
        vectors["query_vectors"] = require_array(
            arrays, "query_vectors", types=("f4",), shape=(n_items, width - 1)
        )
    if every_value:
        for name, rows in vectors.items():
            check_numbers(name, rows, largest=LARGEST_VALUE)
    return width


def _check_neighbours(arrays: Arrays, n_items: int, *, every_value: bool) -> None:
    scores = require_array(arrays, "scores", types=("f4",), shape=(None,))
    neighbours = require_array(arrays, "indices", types=INTEGERS, shape=scores.shape)
    begins = require_array(arrays, "indptr", types=INTEGERS, shape=(n_items + 1,))
    check_offsets("indptr", begins, len(neighbours))
    if every_value:
        check_positions("indices", neighbours, n_items)
        check_numbers("scores", scores, largest=LARGEST_VALUE)
