"""Learning with group noise: one objective for bags, candidate labels and click histories."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.audit.find import find_group_issues as find_group_issues
    from groupnoise.bags.estimator import MaxMatchingMILClassifier as MaxMatchingMILClassifier
    from groupnoise.bags.mipl import MaxMatchingMIPLClassifier as MaxMatchingMIPLClassifier
    from groupnoise.candidates.estimator import (
        MaxMatchingPartialLabelClassifier as MaxMatchingPartialLabelClassifier,
    )
    from groupnoise.candidates.label_issues import find_label_issues as find_label_issues
    from groupnoise.candidates.noisy_labels import NoisyLabelClassifier as NoisyLabelClassifier
    from groupnoise.clicks.estimator import MaxMatchingRecommender as MaxMatchingRecommender
    from groupnoise.core.groups import Groups as Groups
    from groupnoise.core.loss import GroupLoss as GroupLoss
    from groupnoise.core.threads import configure_threads as configure_threads
    from groupnoise.io.folders.model_files import load_model as load_model

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(__name__)
