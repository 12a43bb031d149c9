"""Greedy ensemble selection (Caruana et al., ICML 2004) on held-out predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from groupnoise.core.arrays import FloatArray
from groupnoise.decisions.halving import standard_error
from groupnoise.exceptions import ParameterError


def greedy_ensemble(
    predictions: Sequence[FloatArray],
    score: Callable[[FloatArray], FloatArray],
    *,
    max_members: int = 10,
    min_gain: float = 1.0,
) -> FloatArray:
    """Return the weights of the average that held-out groups like best.

    Members are added one at a time, with replacement, whichever improves the average most. An
    average replaces the best single member only where its gain is larger than chance explains.

    Parameters
    ----------
    predictions : sequence of ndarray, all of one shape
        Held-out predictions of each candidate member, to be averaged.
    score : callable
        Maps an average to one score per held-out group (or fold); larger is better.
    max_members : int, default=10
        Additions at most; weights are multiples of one over the number of additions kept.
    min_gain : float, default=1.0
        Standard errors of the paired difference by which an average must beat the best single
        member.

    Returns
    -------
    ndarray of shape (n_predictions,)
        Weights that sum to one.

    Examples
    --------
    >>> truth = np.array([0.0, 1.0, 0.0, 1.0])
    >>> above, below = truth + 0.5, truth - 0.5
    >>> greedy_ensemble([above, below], lambda each: -np.abs(each - truth)).tolist()
    [0.5, 0.5]
    """
    if not predictions:
        raise ParameterError("an ensemble needs at least one set of predictions.")
    if max_members < 1:
        raise ParameterError(f"max_members must be at least 1; got {max_members!r}.")
    alone = [np.asarray(score(each), dtype=np.float64) for each in predictions]
    single = int(np.argmax([each.mean() for each in alone]))
    counts = np.zeros(len(predictions))
    counts[single] = 1.0
    total = np.array(predictions[single], dtype=np.float64)
    best_counts = counts.copy()
    best_scores: FloatArray = alone[single]
    for size in range(2, max_members + 1):
        trials = [np.asarray(score((total + each) / size)) for each in predictions]
        added = int(np.argmax([each.mean() for each in trials]))
        counts[added] += 1.0
        total += predictions[added]
        if trials[added].mean() > best_scores.mean():
            best_counts, best_scores = counts.copy(), trials[added]
    gain = best_scores - alone[single]
    if gain.mean() <= min_gain * standard_error(gain):
        best_counts = np.eye(len(predictions))[single]
    weights: FloatArray = best_counts / best_counts.sum()
    return weights
