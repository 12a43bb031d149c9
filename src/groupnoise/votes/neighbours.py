"""What similar rows are: the nearest rows with votes, and how far they are heeded."""

from __future__ import annotations

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.scaling import Scaler

N_NEIGHBOURS = 5
"""Similar rows that are heeded."""
FLOOR = 0.02
"""Added to what neighbours say, so that they cannot rule a label out."""
EXPONENTS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
"""How far neighbours may be heeded; 0 is not at all."""


def nearest_voted(features: FloatArray, has_votes: BoolArray, n_neighbours: int) -> IntArray:
    """Return the rows with votes at the least angle to each row, itself left out.

    Of shape (n_rows, n_found): nearest first. `features` (n_rows, n_features): the rows; those of
    one length, such as words and embeddings, are compared as they are. `has_votes`: which rows may
    be named; at least two. `n_neighbours`: how many at most.
    """
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import normalize

    # Rows of unit length: their distances are ordered like their angles.
    unit = normalize(
        features if has_unit_rows(features) else Scaler("standard").fit(features)(features)
    )
    rows = np.flatnonzero(has_votes)
    n_asked = min(n_neighbours + 1, len(rows))
    found = rows[NearestNeighbors(n_neighbors=n_asked).fit(unit[rows]).kneighbors(unit)[1]]
    is_other = found != np.arange(len(features))[:, None]
    # A row may be missing among its own neighbours where others are alike to the last digit.
    order = np.argsort(~is_other, axis=1, kind="stable")[:, : n_asked - 1]
    return np.asarray(np.take_along_axis(found, order, axis=1))


def has_unit_rows(features: FloatArray) -> bool:
    """Tell whether all rows have length one, as words and embeddings do.

    Then columns are comparable as they are, and scaling each would magnify noise. `features`
    (n_rows, n_features): the rows; those without any word are left out of account.
    """
    lengths = np.linalg.norm(features, axis=1)
    return bool(np.allclose(lengths[lengths > 0], 1.0, atol=1e-3))


def heed_neighbours(
    predicted: FloatArray, log_likelihood: FloatArray, nearest: IntArray, is_voted: BoolArray
) -> FloatArray:
    """Return predictions times what neighbours are believed to be, as far as the votes bear out.

    Of shape (n_rows, n_classes). `predicted` (n_rows, n_classes): p(label | row) from models that
    did not see the row. `log_likelihood` (n_rows, n_classes): log P(votes of the row | label).
    `nearest` (n_rows, n_neighbours): other rows with votes; what a row's own votes say plays no
    part in what they say of it.
    """
    scaled = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    believed = predicted * scaled
    believed /= np.maximum(believed.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    said = np.zeros_like(predicted)
    for column in nearest.T:  # one neighbour at a time: all at once may not fit into memory
        said += believed[column]
    said = said / nearest.shape[1] + FLOOR
    best, highest = predicted, -np.inf
    for exponent in EXPONENTS:
        heeded = predicted * said**exponent
        heeded /= heeded.sum(axis=1, keepdims=True)
        foretold = (heeded * scaled).sum(axis=1)[is_voted]
        score = float(np.log(np.maximum(foretold, np.finfo(float).tiny)).mean())
        if score > highest:
            best, highest = heeded, score
    return best
