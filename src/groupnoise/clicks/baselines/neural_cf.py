"""NeuralCF between items: the paper's online baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from groupnoise.clicks.baselines.counting import item_counts
from groupnoise.clicks.baselines.networks import WindowRecommender, binary_loss
from groupnoise.clicks.recommender import last_items
from groupnoise.clicks.scoring import SCOPES
from groupnoise.core.arrays import FloatArray, IntArray, offsets_from_sizes
from groupnoise.core.checks import check_choice
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring

_INPUTS_AT_ONCE = 1 << 24
"""Inputs of the perceptron at once: 64 MB in single precision, its layers about twice more."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class NeuralCFRecommender(WindowRecommender):
    r"""Neural collaborative filtering with a clicked item in the place of the user (He et al.).

    Two branches compare a clicked item x with an item y: an elementwise product of embeddings
    (GMF) and a perceptron on their concatenation (MLP). One logit reads both,

    .. math::
        s(x, y) = h^\top \left[ p_x \odot q_y ;\; \mathrm{MLP}(p'_x, q'_y) \right],
        \qquad s(y \mid X) = \frac1{|X|} \sum_{x \in X} s(x, y).

    Every click of a window is paired with its target, so noise in the group goes in unfiltered:

    .. math:: \mathcal L = \sum_{x \in X} \Big( -\log\sigma(s(x, y)) - \sum_j
        \log\sigma(-s(x, j)) \Big).

    How the paper's baseline was built in production is not published; this is one reading of it.

    Parameters
    ----------
    dim : int, default=8
        Factors of the GMF branch; the MLP runs through 8, 4, 2 and 1 times as many units.
    scope : {"group", "last"}, default="group"
        Average over all clicks of the history when scoring, or look at the last one alone.

    References
    ----------
    .. [1] X. He, L. Liao, H. Zhang, L. Nie, X. Hu, T.-S. Chua. Neural collaborative filtering.
       WWW 2017.

    Examples
    --------
    >>> log = [["tea", "jam"], ["oat", "fig"], ["rye", "ham"]] * 10
    >>> model = NeuralCFRecommender(learning_rate=0.03, max_epochs=40, random_state=0)
    >>> model.fit(log).recommend([["oat"]], top=1)[0].tolist()
    [['fig']]
    """

    dim: int = 8
    n_targets: int = 1
    scope: str = "group"
    n_negatives: int = 4
    max_epochs: int = 20
    patience: int = 3

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("scope", self.scope, SCOPES)

    def _build(self) -> nn.Module:
        return NeuralCFNetwork(self.n_items_, self.dim)

    def _batch_loss(self, clicks: Tensor, targets: Tensor, noise: torch.Generator) -> Tensor:
        row, position = (clicks != self.n_items_).nonzero(as_tuple=True)
        candidates, is_negative, is_real = self._with_negatives(targets[row], noise)
        logits = self.network_(
            clicks[row, position, None, None], candidates
        )  # (pairs, targets, ...)
        loss = binary_loss(logits[..., 0], logits[..., 1:], is_negative)
        return loss.masked_fill(~is_real, 0.0)

    def _rows_at_once(self, n_candidates: int | None) -> int:
        rows = super()._rows_at_once(n_candidates)
        if n_candidates is None:
            return rows
        # Every pair of a click and a candidate goes through the perceptron on its own.
        inputs = n_candidates * self.window_size * 8 * self.dim
        return max(1, min(rows, _INPUTS_AT_ONCE // inputs))

    @torch.no_grad()
    def _score_all(self, histories: Groups) -> FloatArray:
        histories = self._clicks_in_scope(histories)
        self.network_.eval()
        # A clicked item scores the catalogue the same way in every history: do it once.
        distinct, position = np.unique(histories.objects, return_inverse=True)
        everything = torch.arange(self.n_items_)
        by_item = np.stack(
            [self.network_(torch.tensor([item]), everything).numpy() for item in distinct]
        )  # (n_distinct, n_items)
        among_distinct = Groups(position, histories.offsets)
        total: FloatArray = item_counts(among_distinct, len(distinct)) @ by_item
        return total / histories.sizes[:, None]

    @torch.no_grad()
    def _score_some(self, histories: Groups, items: IntArray) -> FloatArray:
        histories = self._clicks_in_scope(histories)
        self.network_.eval()
        row = histories.group_of_object
        clicks = torch.from_numpy(histories.objects.astype(np.int64)).unsqueeze(1)
        logits = self.network_(clicks, torch.from_numpy(items[row])).numpy()  # (n_clicks, m)
        return np.add.reduceat(logits, histories.offsets[:-1]) / histories.sizes[:, None]

    def _clicks_in_scope(self, histories: Groups) -> Groups:
        """Return the clicks that count: the last one, or the last `window_size`."""
        if self.scope == "last":
            return Groups(last_items(histories), np.arange(len(histories) + 1))
        from_the_end = histories.offsets[histories.group_of_object + 1] - np.arange(
            histories.n_objects
        )
        kept = from_the_end <= self.window_size
        sizes = np.minimum(histories.sizes, self.window_size)
        return Groups(histories.objects[kept], offsets_from_sizes(sizes))


class NeuralCFNetwork(nn.Module):
    """The logit of a clicked item and an item; there is no padding, pairs are all real."""

    def __init__(self, n_items: int, dim: int) -> None:
        super().__init__()
        self.clicked_factors = nn.Embedding(n_items, dim)
        self.item_factors = nn.Embedding(n_items, dim)
        self.clicked_features = nn.Embedding(n_items, 4 * dim)
        self.item_features = nn.Embedding(n_items, 4 * dim)
        self.perceptron = nn.Sequential(
            nn.Linear(8 * dim, 4 * dim),
            nn.ReLU(),
            nn.Linear(4 * dim, 2 * dim),
            nn.ReLU(),
            nn.Linear(2 * dim, dim),
            nn.ReLU(),
        )
        self.logit = nn.Linear(2 * dim, 1)
        for table in (
            self.clicked_factors,
            self.item_factors,
            self.clicked_features,
            self.item_features,
        ):
            nn.init.normal_(table.weight, std=0.01)

    def forward(self, clicked: Tensor, items: Tensor) -> Tensor:
        """Return logits for pairs of indices that broadcast against each other."""
        product = self.clicked_factors(clicked) * self.item_factors(items)
        features = self.item_features(items)
        clicked_features = self.clicked_features(clicked).expand_as(features)
        compared = self.perceptron(torch.cat([clicked_features, features], dim=-1))
        logits: Tensor = self.logit(torch.cat([product, compared], dim=-1))
        return logits.squeeze(-1)
