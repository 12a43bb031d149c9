"""Parameters of an estimator as a model folder holds them: JSON, from which no code is run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from groupnoise.exceptions import ParameterError

PAIRS, PART, FIELDS = "pairs", "part", "fields"


def pack_parameters(parameters: Mapping[str, Any], *, parts: Sequence[type] = ()) -> dict[str, Any]:
    """Return parameters in a form JSON can hold.

    `parameters`: numbers, text, sequences, mappings and parts. A random generator has no written
    form and is left out; what it decided is in the weights. So is `device`: a model is the same
    wherever it was trained. `parts`: the classes whose objects are kept, by name and fields. Raises
    ParameterError if a parameter holds anything else: a model that answers otherwise once it is
    loaded is worse than none.
    """
    return {
        name: _packed(name, value, parts)
        for name, value in parameters.items()
        if name != "device" and not isinstance(value, (np.random.Generator, np.random.RandomState))
    }


def unpack_parameters(packed: Mapping[str, Any], *, parts: Sequence[type] = ()) -> dict[str, Any]:
    """Return what :func:`pack_parameters` was given, every sequence as a tuple.

    Raises AttributeError, KeyError, TypeError, ValueError if it was not written by
    :func:`pack_parameters`, or names a part not among `parts`.
    """
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
        # Pairs, because the keys of a JSON object are text and labels need not be.
        return {PAIRS: _packed(name, list(value.items()), parts)}
    if type(value) in parts:  # a class derived from one may answer otherwise
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
