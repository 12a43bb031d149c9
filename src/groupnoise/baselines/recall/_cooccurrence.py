"""Co-occurrence counts: with the last click (the paper's Pop), or summed over the group."""

from __future__ import annotations

from groupnoise.baselines.recall._counting import CountingRecommender, baskets, column_products
from groupnoise.groups import Groups


class CooccurrenceRecommender(CountingRecommender):
    r"""Rank items by how many histories they share with the clicks at hand.

    With :math:`c(x, y)` the number of training histories that hold both items,

    .. math::
        s(y \mid X) = c(x_{\text{last}}, y) \quad\text{or}\quad
        s(y \mid X) = \sum_{x \in X} c(x, y),

    and popularity deciding between equal counts. The first form is the reading of the paper's
    "Pop" that agrees with its figures; the second has no parameter either and is hard to beat.

    Parameters
    ----------
    scope : {"group", "last"}
        Sum over all clicks of the history, or look at the last one alone.

    Attributes
    ----------
    items_ : ndarray of shape (n_items,)
        Item ids in index order.
    popularity_ : float ndarray of shape (n_items,)
        Clicks on each item.
    similarity_ : sparse array of shape (n_items, n_items)
        The counts :math:`c`, zero on the diagonal.

    Examples
    --------
    >>> log = [["tea", "jam"], ["tea", "jam"], ["tea", "rye"], ["oat", "rye"]]
    >>> CooccurrenceRecommender().fit(log).recommend([["tea"]], top=2)[0].tolist()
    [['jam', 'rye']]
    """

    def __init__(self, *, scope: str = "group") -> None:
        self.scope = scope

    def _learn(self, training: Groups) -> None:
        table = baskets(training, self.n_items_)
        self.similarity_ = column_products(table.T.tocsr(), table)
