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
        "groupnoise.audit.find": "find_group_issues",
        "groupnoise.bags.estimator": "MaxMatchingMILClassifier",
        "groupnoise.bags.mipl": "MaxMatchingMIPLClassifier",
        "groupnoise.candidates.estimator": "MaxMatchingPartialLabelClassifier",
        "groupnoise.candidates.label_issues": "find_label_issues",
        "groupnoise.candidates.noisy_labels": "NoisyLabelClassifier",
        "groupnoise.clicks.estimator": "MaxMatchingRecommender",
        "groupnoise.core.groups": "Groups",
        "groupnoise.core.loss": "GroupLoss",
        "groupnoise.core.threads": "configure_threads",
        "groupnoise.io.model_files": "load_model",
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
