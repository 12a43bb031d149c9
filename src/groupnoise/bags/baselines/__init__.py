"""Multiple-instance baselines: labelled bags in, labels of single instances and of bags out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.baselines.attention import AttentionMILClassifier
    from groupnoise.bags.baselines.gicf import GICFClassifier
    from groupnoise.bags.baselines.imil import IMILClassifier
    from groupnoise.bags.baselines.logistic import InstanceLRClassifier, MILRClassifier
    from groupnoise.bags.baselines.minet import MiNetClassifier

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AttentionMILClassifier": "groupnoise.bags.baselines.attention",
        "GICFClassifier": "groupnoise.bags.baselines.gicf",
        "IMILClassifier": "groupnoise.bags.baselines.imil",
        "InstanceLRClassifier": "groupnoise.bags.baselines.logistic",
        "MILRClassifier": "groupnoise.bags.baselines.logistic",
        "MiNetClassifier": "groupnoise.bags.baselines.minet",
    },
)

__all__ = [
    "AttentionMILClassifier",
    "GICFClassifier",
    "IMILClassifier",
    "InstanceLRClassifier",
    "MILRClassifier",
    "MiNetClassifier",
]
