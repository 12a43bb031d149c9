"""Partial-label baselines: rows with candidate labels in, one label per row out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.candidates.baselines.kernels import (
        PALOCClassifier,
        PLKNNClassifier,
        SUREClassifier,
    )
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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.candidates.baselines.linear": (
            "CLPLClassifier PLSVMClassifier SoftLabelClassifier"
        ),
        "groupnoise.candidates.baselines.networks": "CCClassifier LWSClassifier PRODENClassifier",
        "groupnoise.candidates.baselines.kernels": "PALOCClassifier PLKNNClassifier SUREClassifier",
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
