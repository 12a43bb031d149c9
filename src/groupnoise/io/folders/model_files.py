"""Model folders: `manifest.json` and one safetensors file, written atomically."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.exceptions import ModelFileError, OutputError, ParameterError
from groupnoise.io.files import (
    MANIFEST,
    MODEL,
    atomic_path,
    cleanup_on_failure,
    manifest_file_path,
    read_manifest_file,
    sha256_of,
    write_error_message,
    write_json,
)

if TYPE_CHECKING:
    from torch import nn

FORMAT_VERSION = 1
STAGED = "weights.partial"
WEIGHTS_PATTERN = "weights-*.safetensors"
_MODEL_PACKAGES = (
    "groupnoise",
    "groupnoise.bags.baselines",
    "groupnoise.candidates.baselines",
    "groupnoise.clicks.baselines",
)
"""Packages whose public classes a model folder may name; nothing else is loaded by name."""
PAIRS, PART, FIELDS = "pairs", "part", "fields"


def write_model(
    folder: Path | str,
    *,
    kind: str,
    manifest: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write a model folder."""
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder} is a file; give a folder to save the model in.")
    before = set(folder.glob(WEIGHTS_PATTERN))
    with cleanup_on_failure(folder, WEIGHTS_PATTERN):
        weights, checksum = _write_weights(folder, arrays)
        header = {
            "format": MODEL,
            "format_version": FORMAT_VERSION,
            "kind": kind,
            "weights": {"file": weights.name, "sha256": checksum},
        }
        write_json(folder / MANIFEST, {**header, **manifest})
    abandoned = [*folder.glob(f"{STAGED}.tmp-*"), *folder.glob(f"{MANIFEST}.tmp-*")]
    for path in {*before, *abandoned} - {weights}:  # the old model, and files of a killed save
        path.unlink(missing_ok=True)


def _write_weights(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> tuple[Path, str]:
    """Write the arrays to a file named by its content; return its path and checksum."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    staged = folder / STAGED
    try:
        with atomic_path(staged) as temporary:
            # safetensors writes the memory as it lies, so it must lie in C order.
            in_order = {name: np.asarray(array, order="C") for name, array in arrays.items()}
            save_file(in_order, str(temporary))
            checksum = sha256_of(temporary)
        return staged.replace(folder / f"weights-{checksum[:16]}.safetensors"), checksum
    except SafetensorError as error:
        raise OutputError(write_error_message(staged, error)) from error
    finally:
        staged.unlink(missing_ok=True)


def read_model_manifest(folder: Path | str) -> dict[str, Any]:
    """Return the manifest of a model folder after checking its format."""
    return read_manifest_file(
        Path(folder) / MANIFEST, (MODEL, FORMAT_VERSION), what="a groupnoise model",
        writer="save() or `groupnoise fit`", remedy="restore or refit it",
        error=ModelFileError, missing=ModelFileError,
    )  # fmt: skip


def weights_digest(folder: Path | str) -> str:
    """Return the digest of a model's weights, which identifies it in an evaluation."""
    entry = read_model_manifest(folder).get("weights")
    return str(entry.get("sha256", ""))[:16] if isinstance(entry, dict) else ""


def weights_path(folder: Path, manifest: Mapping[str, Any]) -> Path:
    """Return the path of the weights named in a manifest."""
    refused = ModelFileError(f"{folder / MANIFEST} does not name a weights file of its own folder.")
    return manifest_file_path(folder, manifest.get("weights"), refused)


def read_model(
    folder: Path | str, *, kind: str | None = None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return (manifest, arrays) of a model folder after verifying its checksum."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    folder = Path(folder)
    manifest = read_model_manifest(folder)
    if kind is not None and manifest.get("kind") != kind:
        raise ModelFileError(f"{folder} holds a {manifest.get('kind')!r} model, not a {kind!r}.")
    weights = weights_path(folder, manifest)
    if not weights.is_file():
        raise ModelFileError(f"{weights} is missing; restore it or refit the model.")
    if sha256_of(weights) != manifest["weights"].get("sha256"):
        raise ModelFileError(
            f"{weights} does not match the checksum in its manifest: it is truncated or was "
            "altered. Restore it or refit the model."
        )
    try:
        arrays = load_file(str(weights))
        for label, array in arrays.items():
            if array.dtype.kind not in "biuf":  # libraries may register further types with numpy
                raise TypeError(f"{label} is of type {array.dtype}")
    except (
        SafetensorError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        # Types that numpy does not have fail in several ways.
        raise ModelFileError(f"{weights} is not a safetensors file ({error}).") from None
    return manifest, arrays


@contextmanager
def refuse_incomplete_model(folder: Path | str) -> Iterator[None]:
    """Inside the block, raise ModelFileError if the content of a folder does not fit together."""
    try:
        yield
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        MemoryError,
        TypeError,
        RuntimeError,
        ValueError,
    ) as error:
        if isinstance(error, ModelFileError) and str(folder) in str(error):
            raise
        # Messages of torch about weights that do not fit have several lines.
        reason = " ".join(str(error).split()).rstrip(".")
        reason += " is missing" if isinstance(error, KeyError) else ""
        raise ModelFileError(
            f"{folder} does not hold a whole model ({reason}); restore or refit it."
        ) from None


def pack_labels(labels: NDArray[Any]) -> dict[str, Any]:
    """Return class labels or item ids in a form JSON can hold, with their type."""
    return {"dtype": labels.dtype.str, "values": labels.tolist()}


def unpack_labels(packed: Mapping[str, Any]) -> NDArray[Any]:
    """Restore what :func:`pack_labels` returned."""
    try:
        dtype = np.dtype(packed["dtype"])
        if dtype.kind not in "biufU":
            raise TypeError(f"labels of type {dtype}")
        return np.array(packed["values"], dtype=dtype)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise ModelFileError(f"the manifest holds no readable labels ({error}).") from None


def load_model(path: Path | str, *, encoder: nn.Module | None = None) -> Any:
    """Return the fitted estimator or baseline in a model folder, whichever it is.

    Parameters
    ----------
    path : path
        What `save` of an estimator or baseline wrote.
    encoder : nn.Module, default=None
        The architecture of an encoder of the user's own; its weights come from the file.

    Returns
    -------
    estimator
        As it was when it was saved.
    """
    kind = str(read_model_manifest(path).get("kind"))
    own = {} if encoder is None else {"encoder": encoder}
    for home in map(importlib.import_module, _MODEL_PACKAGES):
        if kind in home.__all__ and hasattr(getattr(home, kind), "load"):
            return getattr(home, kind).load(path, **own)
    raise ModelFileError(
        f"{path} holds a {kind!r}, which is no estimator or baseline of this version of groupnoise."
    )


NOT_SAVED = ("device", "on_epoch")
"""Parameters of estimators that do not affect the model."""


def pack_parameters(parameters: Mapping[str, Any], *, parts: Sequence[type] = ()) -> dict[str, Any]:
    """Return parameters in a form JSON can hold.

    `parameters`: numbers, text, sequences, mappings and parts. Random generators, and parameters
    that do not affect the model (`device`, `on_epoch`), are left out. `parts`: the classes whose
    objects are stored by name and fields. Raises ParameterError for anything else: a loaded model
    must not answer differently.
    """
    return {
        name: _packed(name, value, parts)
        for name, value in parameters.items()
        if name not in NOT_SAVED
        and not isinstance(value, (np.random.Generator, np.random.RandomState))
    }


def unpack_parameters(packed: Mapping[str, Any], *, parts: Sequence[type] = ()) -> dict[str, Any]:
    """Return what :func:`pack_parameters` was given, every sequence as a tuple."""
    known = {part.__name__: part for part in parts}
    return {name: _unpacked(value, known) for name, value in packed.items()}


def _packed(name: str, value: Any, parts: Sequence[type]) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_packed(name, each, parts) for each in value]
    if isinstance(value, Mapping):
        # Pairs, because keys of JSON objects are text, and labels may be numbers.
        return {PAIRS: _packed(name, list(value.items()), parts)}
    if type(value) in parts:  # subclasses may behave differently
        content = {each.name: getattr(value, each.name) for each in fields(value)}
        return {
            PART: type(value).__name__,
            FIELDS: {key: _packed(name, each, parts) for key, each in content.items()},
        }
    found = value if isinstance(value, float) else f"a {type(value).__name__}"
    raise ParameterError(
        f"{name} holds {found}, which a model folder cannot keep: it holds finite numbers, text "
        "and the library's own objects, never code; pickle the estimator instead."
    )


def _unpacked(value: Any, known: Mapping[str, type]) -> Any:
    if isinstance(value, list):
        return tuple(_unpacked(each, known) for each in value)
    if not isinstance(value, dict):
        return value
    if PAIRS in value:
        return dict(_unpacked(value[PAIRS], known))
    if value[PART] not in known:
        raise ValueError(f"its parameters name {value[PART]!r}, which this release does not know")
    return known[value[PART]](**{k: _unpacked(v, known) for k, v in value[FIELDS].items()})
