"""AttRec, ComiRec and Caser: attention and convolutions over the last few clicks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from groupnoise.clicks.baselines.networks import (
    VectorScoring,
    WindowRecommender,
    binary_loss,
    hinge_loss,
    sampled_softmax_loss,
)
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.checks import check_count, check_positive
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring

_ADAGRAD_START = 0.05


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class AttRecRecommender(VectorScoring, WindowRecommender):
    r"""Self-attentive metric learning (Zhang et al.), the paper's "Att".

    Queries and keys are one ReLU projection Q of the click embeddings plus a sinusoidal time
    signal; values are the embeddings X themselves. With A the row-wise softmax of
    :math:`QQ^\top/\sqrt d`, its diagonal set to zero, and m the mean of the rows of AX,

    .. math::
        s(y \mid X) = -\lVert x_y - m \rVert^2, \qquad
        \mathcal L = \sum_j \left[ \gamma - s_y + s_j \right]_+ .

    Embeddings are kept inside the unit ball. A single click has no companion to attend to; its m
    is the click itself. The published score adds the distance to a user vector, which is left
    out here, because a recommender of this package answers histories of users it never saw.

    Parameters
    ----------
    dim : int, default=100
        Width d of the item embeddings.
    margin : float, default=0.5
        The margin gamma.
    learning_rate : float, default=0.05
        Step size of Adagrad, the published optimiser.
    weight_decay : float, default=0.001
        Weight decay of the projection alone.

    References
    ----------
    .. [1] S. Zhang, Y. Tay, L. Yao, A. Sun, J. An. Next item recommendation with self-attentive
       metric learning. AAAI 2019 workshop on recommender systems and natural language processing.

    Examples
    --------
    >>> log = [["tea", "jam"], ["oat", "fig"], ["rye", "ham"]] * 10
    >>> model = AttRecRecommender(dim=8, learning_rate=0.1, max_epochs=40, random_state=0)
    >>> model.fit(log).recommend([["oat"]], top=1)[0].tolist()
    [['fig']]
    """

    dim: int = 100
    margin: float = 0.5
    learning_rate: float = 0.05
    weight_decay: float = 1e-3
    batch_size: int = 1000

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive("margin", self.margin)

    def _build(self) -> nn.Module:
        return AttRecNetwork(self.n_items_, self.dim, self.window_size)

    def _optimizer(self) -> torch.optim.Optimizer:
        network = self.network_
        # The published loss is a sum over the batch, ours a mean: dividing what is added to the
        # gradient and to its square makes Adagrad take the same steps.
        decay = self.weight_decay / self.batch_size
        parts: list[dict[str, Any]] = [
            {"params": network.items.parameters()},
            {"params": network.project.parameters(), "weight_decay": decay},
        ]
        optimizer = torch.optim.Adagrad(
            parts,
            lr=self.learning_rate,
            initial_accumulator_value=_ADAGRAD_START / self.batch_size**2,
        )
        optimizer.register_step_post_hook(lambda *_: network.enter_unit_ball())
        return optimizer

    def _batch_loss(self, clicks: Tensor, targets: Tensor, noise: torch.Generator) -> Tensor:
        candidates, is_negative, is_real = self._with_negatives(targets, noise)
        distances = self.network_.squared_distances(clicks, candidates.flatten(1))
        scores = -distances.view_as(candidates)
        loss = hinge_loss(scores[..., 0], scores[..., 1:], is_negative, margin=self.margin)
        return loss.masked_fill(~is_real, 0.0)


class AttRecNetwork(nn.Module):
    """Attention over clicks; index `n_items` is padding and is never attended to."""

    time_signal: Tensor

    def __init__(self, n_items: int, dim: int, window_size: int) -> None:
        super().__init__()
        self.n_items = n_items
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=n_items)
        nn.init.normal_(self.items.weight, std=dim**-0.5)
        self.project = nn.Linear(dim, dim, bias=False)
        signal = sinusoidal_signal(window_size, dim)
        self.register_buffer("time_signal", signal, persistent=False)
        self.enter_unit_ball()

    @torch.no_grad()
    def enter_unit_ball(self) -> None:
        """Shorten every embedding longer than one; keep padding at zero."""
        norms = self.items.weight.norm(dim=1, keepdim=True)
        self.items.weight.div_(norms.clamp(min=1.0))
        self.items.weight[self.n_items] = 0.0

    def encode(self, clicks: Tensor) -> Tensor:
        """Return twice m of each history, shape (n, dim), so that inner products rank distances."""
        return 2 * self.interest(clicks)

    def interest(self, clicks: Tensor) -> Tensor:
        """Return m, the mean attended embedding of each history, shape (n, dim)."""
        is_real = clicks != self.n_items  # (n, size)
        values: Tensor = self.items(clicks)  # (n, size, dim)
        queries = torch.relu(self.project(values + self.time_signal))
        affinity = queries @ queries.transpose(1, 2) / values.shape[-1] ** 0.5
        # A finite fill keeps the rows of padded queries defined; they are not averaged below.
        weights = affinity.masked_fill(~is_real.unsqueeze(1), -1e9).softmax(-1)
        n_real = is_real.sum(1, keepdim=True)  # (n, 1)
        own = torch.eye(clicks.shape[1], dtype=torch.bool, device=clicks.device)
        weights = weights.masked_fill(own & (n_real > 1).unsqueeze(-1), 0.0)
        attended = (weights @ values).masked_fill(~is_real.unsqueeze(-1), 0.0)
        return attended.sum(1) / n_real

    def squared_distances(self, clicks: Tensor, items: Tensor) -> Tensor:
        """Return the squared distances of `items` (n, m) to each history's m, shape (n, m)."""
        difference: Tensor = self.items(items) - self.interest(clicks).unsqueeze(1)  # (n, m, dim)
        return difference.square().sum(-1)

    def item_table(self) -> tuple[Tensor, Tensor]:
        """Return item vectors (n_items, dim) and biases (n_items,).

        A squared distance less the part all items share is :math:`|x|^2 - 2 x^T m`.
        """
        vectors = self.items.weight[: self.n_items].detach()
        return vectors, -vectors.square().sum(1)


def sinusoidal_signal(size: int, dim: int) -> Tensor:
    """Return sines, then cosines, of the position at geometric wavelengths, shape (size, dim)."""
    position = torch.arange(size).unsqueeze(1)
    half = (dim + 1) // 2
    wavelength = 10_000 ** (torch.arange(half) / half)
    angle = position / wavelength
    return torch.cat([angle.sin(), angle.cos()], dim=1)[:, :dim]


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
        return np.einsum("nkd,nmd->nkm", interests, vectors[items]).max(axis=1)


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
        attention = torch.softmax(logits.masked_fill(is_padding, -torch.inf), dim=1)
        return torch.einsum("nsk,nsd->nkd", attention, vectors)

    def item_table(self) -> tuple[Tensor, Tensor]:
        """Return item vectors (n_items, dim) and biases (n_items,), all zero."""
        return self.items.weight[: self.n_items].detach(), torch.zeros(self.n_items)


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
