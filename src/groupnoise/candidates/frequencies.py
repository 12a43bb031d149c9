"""How frequent labels are, by the candidates of held-out rows, and what answers lack of it."""

from __future__ import annotations

import math

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray

N_STEPS = 50
MIN_DISTANCE = 0.1
"""Share of answers that must be amiss (total variation) before frequencies are heeded."""
ERRORS = 1.5
"""The same in units of what the number of held-out rows leaves to luck."""


def label_frequencies(probabilities: FloatArray, candidates: BoolArray) -> FloatArray:
    r"""Return how frequent labels are, by expectation and maximization.

    Answers are changed by one factor for each label until their mean over the candidates of each
    row is what they answer:

    .. math:: \pi_c \leftarrow \frac1n \sum_i
        \frac{[c \in S_i]\, P(c \mid x_i)\, \pi_c / \bar P_c}
             {\sum_{d \in S_i} P(d \mid x_i)\, \pi_d / \bar P_d}

    Of shape (n_classes,). `probabilities` (n_rows, n_classes): of held-out rows. `candidates`
    (n_rows, n_classes): their candidate labels.
    """
    answered = np.maximum(probabilities.mean(axis=0), 1e-12)
    within = probabilities * candidates
    found: FloatArray = answered
    for _ in range(N_STEPS):
        shares = within * (found / answered)
        found = (shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)).mean(axis=0)
    return found


def label_offsets(probabilities: FloatArray, candidates: BoolArray) -> tuple[float, ...] | None:
    """Return what to add to the logarithms of answers so that labels are as frequent as they are.

    Normalizing over rows keeps a label from winning only because it is a candidate of many rows,
    and answers as if labels were equally frequent. That tells labels apart best, but where one
    label is most of the truth it is answered far too rarely. Offsets shrink to nothing where
    answers are nearly as frequent as labels: there they would be luck. None says so.

    `probabilities`, `candidates`: as in :func:`label_frequencies`.
    """
    answered = np.maximum(probabilities.mean(axis=0), 1e-12)
    frequent = label_frequencies(probabilities, candidates)
    distance = float(np.abs(frequent - answered).sum()) / 2
    # The mean distance of frequencies in a sample from those it was drawn from.
    luck = math.sqrt(2 / math.pi) * np.sqrt(answered * (1 - answered) / len(candidates)).sum() / 2
    strength = 1.0 - max(MIN_DISTANCE, ERRORS * float(luck)) / max(distance, 1e-12)
    if strength <= 0:
        return None
    offsets = strength * np.log((frequent + 1e-6) / answered)
    return tuple(round(float(each), 4) for each in offsets)
