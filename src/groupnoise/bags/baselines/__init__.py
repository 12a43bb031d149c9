"""Multiple-instance baselines: labelled bags in, labels of single instances and of bags out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.baselines.attention import AttentionMILClassifier
    from groupnoise.bags.baselines.base import BagClassifier
    from groupnoise.bags.baselines.gicf import GICFClassifier
    from groupnoise.bags.baselines.imil import IMILClassifier
    from groupnoise.bags.baselines.milr import MILRClassifier
    from groupnoise.bags.baselines.minet import MiNetClassifier
    from groupnoise.bags.baselines.networks import NeuralBagClassifier

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AttentionMILClassifier": "groupnoise.bags.baselines.attention",
        "BagClassifier": "groupnoise.bags.baselines.base",
        "GICFClassifier": "groupnoise.bags.baselines.gicf",
        "IMILClassifier": "groupnoise.bags.baselines.imil",
        "MILRClassifier": "groupnoise.bags.baselines.milr",
        "MiNetClassifier": "groupnoise.bags.baselines.minet",
        "NeuralBagClassifier": "groupnoise.bags.baselines.networks",
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
