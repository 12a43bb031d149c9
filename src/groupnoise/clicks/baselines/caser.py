"""Caser: convolutions over the last few clicks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from groupnoise.clicks.baselines.networks import VectorScoring, WindowRecommender, binary_loss
from groupnoise.core.checks import check_count
from groupnoise.core.docstrings import inherit_docstring


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class CaserRecommender(VectorScoring, WindowRecommender):
    r"""Convolutional sequence embedding (Tang & Wang).

    The embeddings of the last L clicks form an L x d image E. Horizontal filters of every height
    1..L slide over it, each answering with its largest activation; vertical filters are weighted
    sums of the rows. A dense layer turns both into a vector z, and

    .. math::
        s(y \mid X) = w_y^\top z + b_y, \qquad
        \mathcal L = -\log\sigma(s_y) - \sum_{j} \log \sigma(-s_j)

    over the next T clicks as targets and uniformly drawn negatives.

    The published model appends a vector for the user. It is left out here, because a recommender
    of this package answers histories of users it never saw.

    Parameters
    ----------
    dim : int, default=50
        Width d of the item embeddings.
    window_size : int, default=5
        Clicks looked at, L.
    n_targets : int, default=3
        Clicks after a window that count as its targets, T; ready-made windows have one.
    n_horizontal : int, default=16
        Horizontal filters of each height.
    n_vertical : int, default=4
        Vertical filters.
    dropout : float, default=0.5
        Share of the convolutions' output dropped in training.

    References
    ----------
    .. [1] J. Tang, K. Wang. Personalized top-N sequential recommendation via convolutional
       sequence embedding. WSDM 2018.

    Examples
    --------
    >>> log = [["tea", "jam"], ["oat", "fig"], ["rye", "ham"]] * 10
    >>> model = CaserRecommender(dim=8, learning_rate=0.03, max_epochs=20, random_state=0)
    >>> model.fit(log).recommend([["oat"]], top=1)[0].tolist()
    [['fig']]
    """

    dim: int = 50
    n_horizontal: int = 16
    n_vertical: int = 4
    dropout: float = 0.5
    n_negatives: int = 3
    weight_decay: float = 1e-6
    batch_size: int = 512

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("n_horizontal", "n_vertical"):
            check_count(name, getattr(self, name))

    def _build(self) -> nn.Module:
        return CaserNetwork(
            self.n_items_,
            self.dim,
            self.window_size,
            n_horizontal=self.n_horizontal,
            n_vertical=self.n_vertical,
            dropout=self.dropout,
        )

    def _batch_loss(self, clicks: Tensor, targets: Tensor, noise: torch.Generator) -> Tensor:
        candidates, is_negative, is_real = self._with_negatives(targets, noise)
        logits = self.network_.logits(clicks, candidates.flatten(1)).view_as(candidates)
        loss = binary_loss(logits[..., 0], logits[..., 1:], is_negative)
        return loss.masked_fill(~is_real, 0.0)


class CaserNetwork(nn.Module):
    """The convolutions; index `n_items` is padding and embeds to zero."""

    def __init__(
        self,
        n_items: int,
        dim: int,
        window_size: int,
        *,
        n_horizontal: int,
        n_vertical: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.clicked = nn.Embedding(n_items + 1, dim, padding_idx=n_items)
        self.horizontal = nn.ModuleList(
            nn.Conv1d(dim, n_horizontal, height) for height in range(1, window_size + 1)
        )
        self.vertical = nn.Linear(window_size, n_vertical)
        self.dropout = nn.Dropout(dropout)
        self.dense = nn.Linear(n_horizontal * window_size + n_vertical * dim, dim)
        self.answer = nn.Embedding(n_items, dim)
        self.bias = nn.Parameter(torch.zeros(n_items))
        for table in (self.clicked, self.answer):
            nn.init.normal_(table.weight, std=1 / dim)
        with torch.no_grad():
            self.clicked.weight[n_items] = 0.0

    def encode(self, clicks: Tensor) -> Tensor:
        """Return one vector per history, shape (n, dim)."""
        image = self.clicked(clicks).transpose(1, 2)  # (n, dim, window_size)
        across = [torch.relu(layer(image)).amax(-1) for layer in self.horizontal]
        down = self.vertical(image).flatten(1)  # (n, dim * n_vertical)
        return torch.relu(self.dense(self.dropout(torch.cat([*across, down], dim=1))))

    def logits(self, clicks: Tensor, items: Tensor) -> Tensor:
        """Return the scores of `items` (n, m) after `clicks` (n, window_size), shape (n, m)."""
        queries = self.encode(clicks).unsqueeze(-1)  # (n, dim, 1)
        products: Tensor = self.answer(items) @ queries  # (n, m, 1)
        return products.squeeze(-1) + self.bias[items]

    def item_table(self) -> tuple[Tensor, Tensor]:
        """Return item vectors (n_items, dim) and biases (n_items,)."""
        return self.answer.weight.detach(), self.bias.detach()
