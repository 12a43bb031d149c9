"""LRURec: linear recurrences with complex decays over a history, and an exact cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from groupnoise.clicks.baselines.sasrec import CausalNetwork, SASRecRecommender
from groupnoise.clicks.evidence.training import training_sequences
from groupnoise.core.chunked_softmax import log_normalizer
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring

RADII = (0.8, 0.99)
"""Range of the absolute decays of untrained recurrences."""
STATES_PER_DIMENSION = 2
EXPANSION = 4


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class LRURecRecommender(SASRecRecommender):
    r"""Linear recurrent units for sequential recommendation (Yue et al.).

    With u_t the normalised vector of click t, complex decays :math:`\lambda = e^{-e^\nu + i
    e^\theta}` of absolute value below one and \* the product by entries,

    .. math::
        h_t = \lambda * h_{t-1} + e^\gamma * (B u_t + b), \qquad
        u_t \leftarrow \mathrm{norm}(u_t + \mathrm{Re}(C h_t + c)),

    followed by a perceptron, block after block; the last state is multiplied with the table of the
    clicks, and every item has a bias. Trained with the exact cross-entropy on every next click of
    a history, which is cut into parts of `window_size` clicks.

    Parameters
    ----------
    n_blocks : int, default=2
        Recurrences.

    References
    ----------
    .. [1] Z. Yue, Y. Wang, Z. He, H. Zeng, J. McAuley, D. Wang. Linear recurrent units for
       sequential recommendation. WSDM 2024.

    Examples
    --------
    >>> log = [["tea", "jam", "rye"], ["oat", "jam", "fig"]] * 10
    >>> model = LRURecRecommender(learning_rate=0.003, max_epochs=40, random_state=0)
    >>> model.fit(log).recommend([["tea", "jam"], ["oat", "jam"]], top=1)[0].tolist()
    [['rye'], ['fig']]
    """

    n_negatives: int | None = field(init=False, default=None)
    n_heads: int = field(init=False, default=1)

    weight_decay: float = 0.01

    def _build(self) -> nn.Module:
        dropout = self._dropout_in_use()
        return LRURecNetwork(self.n_items_, self.dim, n_blocks=self.n_blocks, dropout=dropout)

    def _sequences(self, training: Groups) -> Groups:
        if training.targets is not None:
            return super()._sequences(training)
        return training_sequences(training, self.window_size)

    def _batch_loss(self, clicks: Tensor, only_target: bool, noise: torch.Generator) -> Tensor:
        states, targets = self._trained_positions(clicks, only_target)
        table, biases = self.network_.items.weight[: self.n_items_], self.network_.biases
        logits = (states * table[targets]).sum(-1) + biases[targets]
        return (log_normalizer(states, table, biases) - logits).mean()


class LRURecNetwork(CausalNetwork):
    """Blocks of linear recurrences over clicks; padding (index `n_items`) follows them."""

    def __init__(self, n_items: int, dim: int, *, n_blocks: int, dropout: float) -> None:
        super().__init__()
        self.n_items = n_items
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=n_items)
        nn.init.normal_(self.items.weight, std=0.02)
        self.biases = nn.Parameter(torch.zeros(n_items))
        self.input_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(_Block(dim, dropout) for _ in range(n_blocks))

    def states(self, clicks: Tensor) -> Tensor:
        """Return the state after each click, shape (n, size, dim)."""
        states: Tensor = self.dropout(self.input_norm(self.items(clicks)))
        for block in self.blocks:
            states = block(states)
        return states

    def item_table(self) -> tuple[Tensor, Tensor]:
        """Return item vectors (n_items, dim) and biases (n_items,)."""
        return self.items.weight[: self.n_items].detach(), self.biases.detach()


class _Block(nn.Module):
    """A linear recurrence, then a two-layer perceptron at each click."""

    def __init__(self, dim: int, dropout: float) -> None:
        super().__init__()
        n_states = STATES_PER_DIMENSION * dim
        inside, outside = (radius**2 for radius in RADII)
        radius_squared = inside + (outside - inside) * torch.rand(n_states)
        self.log_decay = nn.Parameter(torch.log(-0.5 * torch.log(radius_squared)))
        self.log_angle = nn.Parameter(torch.log(2 * torch.pi * torch.rand(n_states) + 1e-6))
        self.log_scale = nn.Parameter(0.5 * torch.log(1 - radius_squared))
        self.enter = nn.Linear(dim, 2 * n_states)  # real parts, then imaginary ones
        self.leave = nn.Linear(2 * n_states, dim)
        self.recurrence_norm = nn.LayerNorm(dim)
        self.perceptron = nn.Sequential(
            nn.Linear(dim, EXPANSION * dim),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(EXPANSION * dim, dim),
            nn.Dropout(dropout),
        )
        self.perceptron_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor) -> Tensor:
        radius = torch.exp(-torch.exp(self.log_decay))
        angle = torch.exp(self.log_angle)
        added = self.enter(states).unflatten(-1, (2, -1)) * torch.exp(self.log_scale)
        memory = complex_recurrence(
            radius * torch.cos(angle), radius * torch.sin(angle), added.transpose(0, 1)
        )
        read = self.leave(memory.transpose(0, 1).flatten(-2))
        states = self.recurrence_norm(states + self.dropout(read))
        return self.perceptron_norm(states + self.perceptron(states))


def complex_recurrence(real: Tensor, imaginary: Tensor, added: Tensor) -> Tensor:
    """Return h_t = (real + i imaginary) * h_{t-1} + added_t for each step t, from h = 0.

    Of shape (n_steps, n, 2, n_states): differentiable once. `real`, `imaginary`: parts of the
    decay. `added` (n_steps, n, 2, n_states): real, then imaginary parts.
    """
    return _ComplexRecurrence.apply(real, imaginary, added)  # type: ignore[no-untyped-call]


class _ComplexRecurrence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, real: Tensor, imaginary: Tensor, added: Tensor) -> Tensor:
        states = added.clone(memory_format=torch.contiguous_format)
        turn = torch.stack([-imaginary, imaginary])  # factors of the imaginary and the real part
        for step in range(1, len(states)):
            before = states[step - 1]
            states[step].addcmul_(real, before).addcmul_(turn, before.flip(1))
        ctx.save_for_backward(real, imaginary, states)
        return states

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        real, imaginary, states = ctx.saved_tensors
        grad = upstream.clone(memory_format=torch.contiguous_format)
        turn = torch.stack([imaginary, -imaginary])
        for step in range(len(grad) - 2, -1, -1):
            after = grad[step + 1]
            grad[step].addcmul_(real, after).addcmul_(turn, after.flip(1))
        later, before = grad[1:], states[:-1]
        grad_real = (later * before).sum((0, 1, 2))
        crossed = later[:, :, 1] * before[:, :, 0] - later[:, :, 0] * before[:, :, 1]
        return grad_real, crossed.sum((0, 1)), grad
