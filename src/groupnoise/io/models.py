"""Opening a model folder, whichever estimator or baseline wrote it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupnoise.exceptions import ModelFileError
from groupnoise.io.model_files import read_manifest

if TYPE_CHECKING:
    from torch import nn

_HOMES = (
    "groupnoise",
    "groupnoise.bags.baselines",
    "groupnoise.candidates.baselines",
    "groupnoise.clicks.baselines",
)
"""Packages whose public classes a model folder may name; nothing else is ever loaded by name."""


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
    kind = str(read_manifest(path).get("kind"))
    own = {} if encoder is None else {"encoder": encoder}
    for home in map(importlib.import_module, _HOMES):
        if kind in home.__all__ and hasattr(getattr(home, kind), "load"):
            return getattr(home, kind).load(path, **own)
    raise ModelFileError(
        f"{path} holds a {kind!r}, which is no estimator or baseline of this version of groupnoise."
    )
