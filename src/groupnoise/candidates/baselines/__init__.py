"""Partial-label baselines: rows with candidate labels in, one label per row out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.candidates.baselines.kernels import (
        PALOCClassifier as PALOCClassifier,
        PLKNNClassifier as PLKNNClassifier,
        SUREClassifier as SUREClassifier,
    )
    from groupnoise.candidates.baselines.linear import (
        CLPLClassifier as CLPLClassifier,
        PLSVMClassifier as PLSVMClassifier,
        SoftLabelClassifier as SoftLabelClassifier,
    )
    from groupnoise.candidates.baselines.networks import (
        CCClassifier as CCClassifier,
        LWSClassifier as LWSClassifier,
        PRODENClassifier as PRODENClassifier,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
