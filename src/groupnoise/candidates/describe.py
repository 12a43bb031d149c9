"""What rows with candidate labels hold, and what is odd about them."""

from __future__ import annotations

import numpy as np

from groupnoise.core.arrays import IntArray
from groupnoise.io.datasets import PartialLabelDataset
from groupnoise.io.description import (
    Description,
    DescriptionDraft,
    add_features,
    count_oddity,
    histogram_of_classes,
    histogram_of_sizes,
)


def describe_candidates(dataset: PartialLabelDataset) -> Description:
    """Return candidates, class balance, truth and oddities of rows."""
    names = dataset.class_names
    n_candidates = dataset.candidates.sum(axis=1)
    n_candidate_of = dataset.candidates.sum(axis=0)
    draft = DescriptionDraft()
    draft.facts |= {
        "rows": len(dataset.features),
        "features": dataset.features.shape[1],
        "classes": len(names),
        "candidates per row, mean": float(n_candidates.mean()),
        "rows with more than one candidate, share": float((n_candidates > 1).mean()),
    }
    draft.histograms += [
        histogram_of_sizes("Candidates per row", n_candidates),
        histogram_of_classes("Rows each class is a candidate of", n_candidate_of, names),
    ]
    add_features(draft, dataset.features)
    draft.oddities += count_oddity(n_candidate_of == 0, "class", "in no candidate set", names)
    if dataset.truth is None:
        draft.oddities.append("no true label is known, so predictions cannot be scored")
    else:
        _add_label_truth(draft, dataset, dataset.truth)
    return draft.finish(dataset.name, "pll")


def _add_label_truth(
    draft: DescriptionDraft, dataset: PartialLabelDataset, truth: IntArray
) -> None:
    """Add how often each class is the truth, and where truth is unknown or no candidate."""
    names = dataset.class_names
    known = truth >= 0
    is_inside = dataset.candidates[np.arange(len(truth)), np.maximum(truth, 0)]
    n_true_of = np.bincount(truth[known], minlength=len(names))
    draft.facts["rows without truth"] = int((~known).sum())
    draft.histograms.append(
        histogram_of_classes("Rows each class is the truth of", n_true_of, names)
    )
    draft.oddities += [
        *count_oddity(~known, "row", "without a true label"),
        *count_oddity(known & ~is_inside, "row", "with a true label outside the candidates"),
        *count_oddity(n_true_of == 0, "class", "true of no row", names),
    ]
