"""Partial-label learning: rows with candidate labels in, one label per row out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.digits import load_digit_candidates as load_digit_candidates
    from groupnoise.candidates.files import read_candidates as read_candidates
    from groupnoise.candidates.label_issues import LabelIssues as LabelIssues
    from groupnoise.candidates.noise import (
        add_candidates as add_candidates,
        add_false_labels as add_false_labels,
        flip_labels as flip_labels,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
