"""Load any estimator of this folder from a model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def load_model(path: Path | str) -> Any:
    """Return the fitted estimator in a model folder, whichever it is."""
    kind = read_manifest(path).get("kind")
    if kind not in _ESTIMATORS:
        raise ModelFileError(
            f"{path} holds a {kind!r}, which is none of {', '.join(sorted(_ESTIMATORS))}."
        )
    return _ESTIMATORS[kind].load(path)
