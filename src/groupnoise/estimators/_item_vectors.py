"""ItemVectors: what a recall service needs of a recommender."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ItemVectors(NamedTuple):
    """What a recall service needs of a model.

    Attributes
    ----------
    query : float32 ndarray of shape (n_items, dim)
        f of every item.
    target : float32 ndarray of shape (n_items, dim)
        g of every item.
    bias : float32 ndarray of shape (n_items,)
        Bias of every item as a target.
    """

    query: NDArray[np.float32]
    target: NDArray[np.float32]
    bias: NDArray[np.float32]
