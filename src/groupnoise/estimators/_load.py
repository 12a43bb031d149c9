"""Load any estimator of this folder from a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from groupnoise._model_files import read_manifest
from groupnoise.estimators._mil import MaxMatchingMILClassifier
from groupnoise.estimators._mipl import MaxMatchingMIPLClassifier
from groupnoise.estimators._noisy_labels import NoisyLabelClassifier
from groupnoise.estimators._partial_label import MaxMatchingPartialLabelClassifier
from groupnoise.estimators._recall import MaxMatchingRecommender
from groupnoise.exceptions import ModelFileError

_ESTIMATORS = {
    cls.__name__: cls
    for cls in (
        MaxMatchingMILClassifier,
        MaxMatchingMIPLClassifier,
        MaxMatchingPartialLabelClassifier,
        MaxMatchingRecommender,
        NoisyLabelClassifier,
    )
}


def load_model(path: Path | str, *, encoder: nn.Module | None = None) -> Any:
    """Return the fitted estimator in a model folder, whichever it is.

    Parameters
    ----------
    path : path
        What `save` of an estimator wrote.
    encoder : nn.Module, optional
        The architecture of an encoder of the user's own; its weights come from the file.
    """
    kind = read_manifest(path).get("kind")
    if kind not in _ESTIMATORS:
        raise ModelFileError(
            f"{path} holds a {kind!r}, which is none of {', '.join(sorted(_ESTIMATORS))}."
        )
    return _ESTIMATORS[kind].load(path, encoder=encoder)
