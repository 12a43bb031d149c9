"""Partial-label learning: rows with candidate labels in, one label per row out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.digits import load_digit_candidates
    from groupnoise.candidates.estimator import MaxMatchingPartialLabelClassifier
    from groupnoise.candidates.files import read_candidates
    from groupnoise.candidates.label_issues import LabelIssues, find_label_issues
    from groupnoise.candidates.noise import add_candidates, add_false_labels, flip_labels
    from groupnoise.candidates.noisy_labels import NoisyLabelClassifier

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.bags.digits": "load_digit_candidates",
        "groupnoise.candidates.estimator": "MaxMatchingPartialLabelClassifier",
        "groupnoise.candidates.files": "read_candidates",
        "groupnoise.candidates.label_issues": "LabelIssues find_label_issues",
        "groupnoise.candidates.noise": "add_candidates add_false_labels flip_labels",
        "groupnoise.candidates.noisy_labels": "NoisyLabelClassifier",
    },
)

__all__ = [
    "LabelIssues",
    "MaxMatchingPartialLabelClassifier",
    "NoisyLabelClassifier",
    "add_candidates",
    "add_false_labels",
    "find_label_issues",
    "flip_labels",
    "load_digit_candidates",
    "read_candidates",
]
