"""Partial-label rivals: rows with candidate labels in, one label per row out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.baselines.partial_label._base import PartialLabelClassifier
    from groupnoise.baselines.partial_label._cc import CCClassifier
    from groupnoise.baselines.partial_label._clpl import CLPLClassifier
    from groupnoise.baselines.partial_label._knn import PLKNNClassifier
    from groupnoise.baselines.partial_label._lws import LWSClassifier
    from groupnoise.baselines.partial_label._neural import NeuralPartialLabelClassifier
    from groupnoise.baselines.partial_label._paloc import PALOCClassifier
    from groupnoise.baselines.partial_label._proden import PRODENClassifier
    from groupnoise.baselines.partial_label._sure import SUREClassifier
    from groupnoise.baselines.partial_label._svm import PLSVMClassifier

_HERE = "groupnoise.baselines.partial_label"

# The classical methods need no torch; it loads with the first neural one.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "CCClassifier": f"{_HERE}._cc",
        "CLPLClassifier": f"{_HERE}._clpl",
        "LWSClassifier": f"{_HERE}._lws",
        "NeuralPartialLabelClassifier": f"{_HERE}._neural",
        "PALOCClassifier": f"{_HERE}._paloc",
        "PLKNNClassifier": f"{_HERE}._knn",
        "PLSVMClassifier": f"{_HERE}._svm",
        "PRODENClassifier": f"{_HERE}._proden",
        "PartialLabelClassifier": f"{_HERE}._base",
        "SUREClassifier": f"{_HERE}._sure",
    },
)

__all__ = [
    "CCClassifier",
    "CLPLClassifier",
    "LWSClassifier",
    "NeuralPartialLabelClassifier",
    "PALOCClassifier",
    "PLKNNClassifier",
    "PLSVMClassifier",
    "PRODENClassifier",
    "PartialLabelClassifier",
    "SUREClassifier",
]
