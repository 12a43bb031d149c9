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
        "groupnoise.candidates.baselines.knn": "PLKNNClassifier",
        "groupnoise.candidates.baselines.linear": (
            "CLPLClassifier PLSVMClassifier SoftLabelClassifier"
        ),
        "groupnoise.candidates.baselines.networks": "CCClassifier LWSClassifier PRODENClassifier",
        "groupnoise.candidates.baselines.paloc": "PALOCClassifier",
        "groupnoise.candidates.baselines.sure": "SUREClassifier",
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
