"""What makes a training that training and no other: its settings, shapes and data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from groupnoise._blocks import blocks
from groupnoise.exceptions import CheckpointError
from groupnoise.training._plan import TrainingPlan
from groupnoise.training._state import TrainingState, tensors_of

FINGERPRINT = "fingerprint"


def identity_of(
    state: TrainingState,
    plan: TrainingPlan,
    parts: Mapping[str, Any],
    data: Iterable[NDArray[Any] | Tensor | None],
) -> dict[str, Any]:
    """Return all that must be the same for a training to go on, as JSON holds it.

    Parameters
    ----------
    state : TrainingState
        Gives the shapes of the weights.
    plan : TrainingPlan
        Every number of it counts.
    parts : mapping of str to object
        Parameters, objective and the like; see :func:`described`.
    data : iterable of arrays
        Arrays trained on; memory-mapped ones are read block by block.
    """
    identity = {name: described(value) for name, value in parts.items()}
    identity.update(described(asdict(plan)))
    for name, tensor in tensors_of(state.model).items():
        identity[f"shape of {name}"] = list(tensor.shape)
    identity["data"] = {FINGERPRINT: fingerprint(data)}
    plain: dict[str, Any] = json.loads(json.dumps(identity))
    return plain


def refuse_another(where: object, saved: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise a CheckpointError that names the first thing in which two trainings differ."""
    for name in dict.fromkeys([*saved, *now]):
        then, here = saved.get(name), now.get(name)
        if then == here:
            continue
        if isinstance(then, dict) and isinstance(here, dict):
            if FINGERPRINT in then:
                raise CheckpointError(
                    f"the {name} differ from those that {where} was trained on; go on with the "
                    "same or start over in another folder."
                )
            refuse_another(where, *({f"{name}.{k}": v for k, v in d.items()} for d in (then, here)))
        raise CheckpointError(
            f"{where} was saved with {name} {then!r}, but now it is {here!r}; go on with the same "
            "settings or start over in another folder."
        )


def described(value: Any) -> Any:
    """Return a description that JSON can hold and that is equal for equal settings.

    Dataclasses are described by their fields, arrays by their content, anything else that JSON
    does not know by its type alone.
    """
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, Tensor)):
        return {FINGERPRINT: fingerprint([value])}
    if isinstance(value, (list, tuple)):
        return [described(part) for part in value]
    if isinstance(value, Mapping):
        return {str(name): described(part) for name, part in value.items()}
    kind = type(value).__qualname__
    if is_dataclass(value):
        parts = {field.name: described(getattr(value, field.name)) for field in fields(value)}
        return {"kind": kind, **parts}
    return kind


def fingerprint(arrays: Iterable[NDArray[Any] | Tensor | None]) -> str:
    """Return a digest of the type, shape and content of arrays, read block by block."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        values = array.detach().numpy() if isinstance(array, Tensor) else np.asarray(array)
        if values.dtype.kind == "O":
            values = values.astype(str)
        digest.update(f"{values.dtype.str}{values.shape}".encode())
        for _, part in blocks(values):
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    return digest.hexdigest()
