"""Partial-label baselines: rows with candidate labels in, one label per row out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.candidates.baselines.kernels import (
        PALOCClassifier as PALOCClassifier,
    )
    from groupnoise.candidates.baselines.kernels import (
        PLKNNClassifier as PLKNNClassifier,
    )
    from groupnoise.candidates.baselines.kernels import (
        SUREClassifier as SUREClassifier,
    )
    from groupnoise.candidates.baselines.linear import (
        CLPLClassifier as CLPLClassifier,
    )
    from groupnoise.candidates.baselines.linear import (
        PLSVMClassifier as PLSVMClassifier,
    )
    from groupnoise.candidates.baselines.linear import (
        SoftLabelClassifier as SoftLabelClassifier,
    )
    from groupnoise.candidates.baselines.networks import (
        CCClassifier as CCClassifier,
    )
    from groupnoise.candidates.baselines.networks import (
        LWSClassifier as LWSClassifier,
    )
    from groupnoise.candidates.baselines.networks import (
        PRODENClassifier as PRODENClassifier,
    )

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "groupnoise.candidates.baselines.linear": (
            "CLPLClassifier PLSVMClassifier SoftLabelClassifier"
        ),
        "groupnoise.candidates.baselines.networks": "CCClassifier LWSClassifier PRODENClassifier",
        "groupnoise.candidates.baselines.kernels": "PALOCClassifier PLKNNClassifier SUREClassifier",
    },
)
