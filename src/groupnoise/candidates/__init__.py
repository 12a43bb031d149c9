"""Partial-label learning: rows with candidate labels in, one label per row out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.candidates.label_issues import LabelIssues as LabelIssues
    from groupnoise.candidates.reading import read_candidates as read_candidates
    from groupnoise.candidates.synthetic import (
        add_candidates as add_candidates,
        add_false_labels as add_false_labels,
        flip_labels as flip_labels,
        load_digit_candidates as load_digit_candidates,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
