"""How far annotators agree."""

from __future__ import annotations

import numpy as np

from groupnoise.core.arrays import FloatArray
from groupnoise.votes.ballots import Votes


def krippendorff_alpha(votes: Votes) -> float:
    """Return Krippendorff's alpha for labels without an order (nominal).

    1 is perfect agreement, 0 what chance would give, below 0 systematic disagreement. Rows with a
    single vote say nothing about agreement and are left out. A vote for several labels counts
    with its weight for each.

    Parameters
    ----------
    votes : Votes
        Who said what.

    Returns
    -------
    alpha : float
        NaN where no row has two votes; 1 where all votes are for one and the same label.

    Examples
    --------
    >>> entries = [(0, "a", "x", None), (0, "b", "x", None), (1, "a", "y", None)]
    >>> krippendorff_alpha(Votes.from_entries([*entries, (1, "b", "y", None)], n_rows=2))
    1.0
    """
    observed = coincidences(votes)
    by_label = observed.sum(axis=1)
    total = by_label.sum()
    if total <= 1:
        return float("nan")
    disagreement = total - np.trace(observed)
    expected = (total**2 - (by_label**2).sum()) / (total - 1)
    if expected <= 0:
        return 1.0
    return float(1.0 - disagreement / expected)


def coincidences(votes: Votes) -> FloatArray:
    """Return how often two votes on one row are for labels c and k, shape (n_classes, n_classes).

    Each row counts as often as it has votes, whatever its number of pairs.
    """
    counts = votes.counts
    is_paired = counts[votes.rows] > 1
    scale = 1.0 / (counts[votes.rows] - 1)[is_paired]
    single = votes.weights[is_paired]
    paired_rows = counts > 1
    totals = votes.totals()[paired_rows]
    row_scale = 1.0 / (counts[paired_rows] - 1)
    together = (totals * row_scale[:, None]).T @ totals
    # A vote makes no pair with itself.
    return np.asarray(together - (single * scale[:, None]).T @ single)
