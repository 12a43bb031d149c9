"""Multiple-instance rivals: labelled bags in, labels of single instances and of bags out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.baselines.mil._attention import AttentionMILClassifier
    from groupnoise.baselines.mil._base import BagClassifier
    from groupnoise.baselines.mil._gicf import GICFClassifier
    from groupnoise.baselines.mil._imil import IMILClassifier
    from groupnoise.baselines.mil._milr import MILRClassifier
    from groupnoise.baselines.mil._minet import MiNetClassifier
    from groupnoise.baselines.mil._neural import NeuralBagClassifier

_HERE = "groupnoise.baselines.mil"

# MILR needs no torch; it loads with the first neural method.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AttentionMILClassifier": f"{_HERE}._attention",
        "BagClassifier": f"{_HERE}._base",
        "GICFClassifier": f"{_HERE}._gicf",
        "IMILClassifier": f"{_HERE}._imil",
        "MILRClassifier": f"{_HERE}._milr",
        "MiNetClassifier": f"{_HERE}._minet",
        "NeuralBagClassifier": f"{_HERE}._neural",
    },
)

__all__ = [
    "AttentionMILClassifier",
    "BagClassifier",
    "GICFClassifier",
    "IMILClassifier",
    "MILRClassifier",
    "MiNetClassifier",
    "NeuralBagClassifier",
]
