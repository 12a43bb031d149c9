"""Multiple-instance baselines: labelled bags in, labels of single instances and of bags out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.baselines.attention import AttentionMILClassifier as AttentionMILClassifier
    from groupnoise.bags.baselines.logistic import (
        InstanceLRClassifier as InstanceLRClassifier,
        MILRClassifier as MILRClassifier,
    )
    from groupnoise.bags.baselines.networks import (
        GICFClassifier as GICFClassifier,
        IMILClassifier as IMILClassifier,
        MiNetClassifier as MiNetClassifier,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
