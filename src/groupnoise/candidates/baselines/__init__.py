"""Partial-label baselines: rows with candidate labels in, one label per row out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.candidates.baselines.knn import PLKNNClassifier
    from groupnoise.candidates.baselines.linear import (
        CLPLClassifier,
        PLSVMClassifier,
        SoftLabelClassifier,
    )
    from groupnoise.candidates.baselines.networks import (
        CCClassifier,
        LWSClassifier,
        PRODENClassifier,
    )
    from groupnoise.candidates.baselines.paloc import PALOCClassifier
    from groupnoise.candidates.baselines.sure import SUREClassifier

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CCClassifier": "groupnoise.candidates.baselines.networks",
        "CLPLClassifier": "groupnoise.candidates.baselines.linear",
        "LWSClassifier": "groupnoise.candidates.baselines.networks",
        "PALOCClassifier": "groupnoise.candidates.baselines.paloc",
        "PLKNNClassifier": "groupnoise.candidates.baselines.knn",
        "PLSVMClassifier": "groupnoise.candidates.baselines.linear",
        "PRODENClassifier": "groupnoise.candidates.baselines.networks",
        "SoftLabelClassifier": "groupnoise.candidates.baselines.linear",
        "SUREClassifier": "groupnoise.candidates.baselines.sure",
    },
)

__all__ = [
    "CCClassifier",
    "CLPLClassifier",
    "LWSClassifier",
    "PALOCClassifier",
    "PLKNNClassifier",
    "PLSVMClassifier",
    "PRODENClassifier",
    "SUREClassifier",
    "SoftLabelClassifier",
]
