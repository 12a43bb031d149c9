"""Multiple-instance baselines: labelled bags in, labels of single instances and of bags out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.baselines.attention import AttentionMILClassifier
    from groupnoise.bags.baselines.logistic import InstanceLRClassifier, MILRClassifier
    from groupnoise.bags.baselines.networks import GICFClassifier, IMILClassifier, MiNetClassifier

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.bags.baselines.attention": "AttentionMILClassifier",
        "groupnoise.bags.baselines.logistic": "InstanceLRClassifier MILRClassifier",
        "groupnoise.bags.baselines.networks": "GICFClassifier IMILClassifier MiNetClassifier",
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
