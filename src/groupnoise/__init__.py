"""Learning with group noise: one objective for bags, candidate labels and click histories."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.audit import find_group_issues
    from groupnoise.estimators import (
        MaxMatchingMILClassifier,
        MaxMatchingMIPLClassifier,
        MaxMatchingPartialLabelClassifier,
        MaxMatchingRecommender,
        NoisyLabelClassifier,
        find_label_issues,
        load_model,
    )
    from groupnoise.groups import Groups
    from groupnoise.objectives import GroupLoss

__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GroupLoss": "groupnoise.objectives",
        "Groups": "groupnoise.groups",
        "MaxMatchingMILClassifier": "groupnoise.estimators",
        "MaxMatchingMIPLClassifier": "groupnoise.estimators",
        "MaxMatchingPartialLabelClassifier": "groupnoise.estimators",
        "MaxMatchingRecommender": "groupnoise.estimators",
        "NoisyLabelClassifier": "groupnoise.estimators",
        "find_group_issues": "groupnoise.audit",
        "find_label_issues": "groupnoise.estimators",
        "load_model": "groupnoise.estimators",
    },
)

__all__ = [
    "GroupLoss",
    "Groups",
    "MaxMatchingMILClassifier",
    "MaxMatchingMIPLClassifier",
    "MaxMatchingPartialLabelClassifier",
    "MaxMatchingRecommender",
    "NoisyLabelClassifier",
    "__version__",
    "find_group_issues",
    "find_label_issues",
    "load_model",
]
