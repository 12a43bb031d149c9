"""Learning with group noise: one objective for bags, candidate labels and click histories."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.audit.find import find_group_issues
    from groupnoise.bags.estimator import MaxMatchingMILClassifier
    from groupnoise.bags.mipl import MaxMatchingMIPLClassifier
    from groupnoise.candidates.estimator import MaxMatchingPartialLabelClassifier
    from groupnoise.candidates.label_issues import find_label_issues
    from groupnoise.candidates.noisy_labels import NoisyLabelClassifier
    from groupnoise.clicks.estimator import MaxMatchingRecommender
    from groupnoise.core.groups import Groups
    from groupnoise.core.loss import GroupLoss
    from groupnoise.core.threads import configure_threads
    from groupnoise.io.model_files import load_model

__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GroupLoss": "groupnoise.core.loss",
        "Groups": "groupnoise.core.groups",
        "MaxMatchingMILClassifier": "groupnoise.bags.estimator",
        "MaxMatchingMIPLClassifier": "groupnoise.bags.mipl",
        "MaxMatchingPartialLabelClassifier": "groupnoise.candidates.estimator",
        "MaxMatchingRecommender": "groupnoise.clicks.estimator",
        "NoisyLabelClassifier": "groupnoise.candidates.noisy_labels",
        "configure_threads": "groupnoise.core.threads",
        "find_group_issues": "groupnoise.audit.find",
        "find_label_issues": "groupnoise.candidates.label_issues",
        "load_model": "groupnoise.io.model_files",
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
    "configure_threads",
    "find_group_issues",
    "find_label_issues",
    "load_model",
]
