"""ComiRec: several interests of a history by self-attention, answered by the closest one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from groupnoise.clicks.baselines.losses import sampled_softmax_loss
from groupnoise.clicks.baselines.networks import VectorScoring, WindowRecommender
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import check_count
from groupnoise.core.docstrings import inherit_docstring
from groupnoise.core.groups import Groups


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class ComiRecRecommender(WindowRecommender, VectorScoring):
    r"""Controllable multi-interest recommendation with self-attention (Cen et al., ComiRec-SA).

    With H the vectors of the latest clicks and p those of their positions, K interests are

    .. math:: V = A^\top H, \qquad A = \mathrm{softmax}\big(\tanh((H + p) W_1^\top) W_2^\top\big),

    with a softmax over the clicks. Training picks, for each next click y, the interest with the
    largest :math:`v_k^\top e_y` and takes a sampled softmax under that one alone; an item is
    answered with its score under the interest that is closest to it.

    Parameters
    ----------
    n_interests : int, default=4
        K.
    n_negatives : int, default=256
        Items drawn against each batch.

    References
    ----------
    .. [1] Y. Cen, J. Zhang, X. Zou, C. Zhou, H. Yang, J. Tang. Controllable multi-interest
       framework for recommendation. KDD 2020.

    Examples
    --------
    >>> log = [["tea", "jam", "rye"], ["oat", "bun", "fig"]] * 10
    >>> model = ComiRecRecommender(learning_rate=0.01, max_epochs=20, random_state=0)
    >>> model.fit(log).recommend([["tea", "jam"], ["oat", "bun"]], top=1)[0].tolist()
    [['rye'], ['fig']]
    """

    n_targets: int = field(init=False, default=1)

    window_size: int = 20
    n_interests: int = 4
    n_negatives: int = 256
    max_epochs: int = 20

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("n_interests", self.n_interests)

    def _build(self) -> nn.Module:
        return ComiRecNetwork(self.n_items_, self.dim, self.window_size, self.n_interests)

    def _batch_loss(self, clicks: Tensor, targets: Tensor, noise: torch.Generator) -> Tensor:
        targets = targets[:, 0]
        interests = self.network_.encode(clicks)  # (n, n_interests, dim)
        table = self.network_.items.weight[: self.n_items_]
        closeness = torch.einsum("nkd,nd->nk", interests, table[targets])
        rows = torch.arange(len(targets), device=clicks.device)
        chosen = interests[rows, closeness.argmax(1)]
        drawn = torch.randint(self.n_items_, (self.n_negatives,), generator=noise)
        return sampled_softmax_loss(chosen, table, targets, drawn.to(clicks.device))

    def _rows_at_once(self, n_candidates: int | None) -> int:
        return max(1, super()._rows_at_once(n_candidates) // self.n_interests)

    def _score_all(self, histories: Groups) -> FloatArray:
        interests, vectors, _ = self._vectors(histories)
        scores: FloatArray = interests[:, 0] @ vectors.T
        for number in range(1, self.n_interests):
            np.maximum(scores, interests[:, number] @ vectors.T, out=scores)
        return scores

    def _score_some(self, histories: Groups, items: IntArray) -> FloatArray:
        interests, vectors, _ = self._vectors(histories)
        scores: FloatArray = np.einsum("nkd,nmd->nkm", interests, vectors[items]).max(axis=1)
        return scores


class ComiRecNetwork(nn.Module):
    """Attention over clicks that are aligned to the right, once for each interest."""

    def __init__(self, n_items: int, dim: int, window_size: int, n_interests: int) -> None:
        super().__init__()
        self.n_items = n_items
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=n_items)
        self.places = nn.Embedding(window_size, dim)
        for table in (self.items, self.places):
            nn.init.normal_(table.weight, std=dim**-0.5)
        with torch.no_grad():
            self.items.weight[n_items] = 0.0
        self.expand = nn.Linear(dim, 4 * dim, bias=False)
        self.attend = nn.Linear(4 * dim, n_interests, bias=False)

    def encode(self, clicks: Tensor) -> Tensor:
        """Return the interests of each window of clicks, shape (n, n_interests, dim)."""
        vectors = self.items(clicks)  # (n, size, dim)
        logits = self.attend(torch.tanh(self.expand(vectors + self.places.weight)))
        is_padding = (clicks == self.n_items).unsqueeze(-1)
        shares = torch.softmax(logits.masked_fill(is_padding, -torch.inf), dim=1)
        return torch.einsum("nsk,nsd->nkd", shares, vectors)

    def item_table(self) -> tuple[Tensor, Tensor]:
        """Return item vectors (n_items, dim) and biases (n_items,), all zero."""
        return self.items.weight[: self.n_items].detach(), torch.zeros(self.n_items)
