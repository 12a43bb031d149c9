"""SASRec trained with a sampled softmax: causal self-attention over a history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from groupnoise.clicks.baselines.networks import VectorScoring, left_aligned, sampled_softmax_loss
from groupnoise.clicks.evaluation.ranking import rank_targets
from groupnoise.clicks.evidence.model import hold_out_last
from groupnoise.clicks.evidence.options import DENSE_CLICKS_PER_ITEM
from groupnoise.core.arrays import IntArray, torch_generator
from groupnoise.core.batching import batch_rows
from groupnoise.core.checks import check_count
from groupnoise.core.chunked_softmax import log_normalizer
from groupnoise.core.device import evaluating_on_cpu, find_device
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.portfolio import is_auto
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.training.optimizer import Adam

MIN_HELD_OUT = 200
"""Fewest held-out clicks for early stopping."""
MAX_VALIDATION_SCORES = 50_000_000
"""Scores computed for one validation at most; of more, the first windows are used."""


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class SASRecRecommender(VectorScoring):
    r"""Self-attentive sequential recommendation (Kang & McAuley) with today's loss.

    A causal transformer reads the clicks; its state z_t at click t answers for the next one,

    .. math::
        s(y \mid x_1..x_t) = z_t^\top e_y, \qquad
        \mathcal L_t = -\log \frac{e^{s_y}}{e^{s_y} + \frac{|Y|}{m} \sum_{j=1}^m e^{s_j}},

    with one table e for clicks and answers and m uniform negatives shared by the batch. The
    published loss is a binary one with a single negative; the softmax against many raises its
    full-catalogue figures by more than any later architecture did.

    Whole histories train every position at once. Ready-made windows train their target alone.

    Parameters
    ----------
    dim : int, default=64
        Width of the item embeddings and the transformer.
    window_size : int, default=50
        The most clicks looked at.
    n_blocks : int, default=2
        Transformer blocks.
    n_heads : int, default=1
        Attention heads; must divide `dim`.
    dropout : float or "auto", default="auto"
        Share of activations dropped in training. "auto" is what the paper took: 0.2 where items
        have 50 clicks and more on average, 0.5 where they have fewer.
    n_negatives : int or None, default=256
        Items drawn against each batch; None takes the exact cross-entropy over the catalogue.
    weight_decay : float, default=0.0
        Share of `learning_rate` by which matrices shrink at each step, apart from the gradient.
    batch_size : int, default=128
        Histories per step.
    patience : int, default=20
        Epochs without gain before training stops. On few held-out clicks the gain goes up and
        down: after 5 it stops too early.
    early_stopping : bool, default=True
        Whether, without `validation`, the last clicks of up to 2000 histories say when to stop;
        the network is then trained anew on all clicks for as many epochs. Logs of fewer than 200
        histories that can spare a click, and ready-made windows, train to the end.

    References
    ----------
    .. [1] W.-C. Kang, J. McAuley. Self-attentive sequential recommendation. ICDM 2018.
    .. [2] A. Klenitskiy, A. Vasilev. Turning dross into gold loss: is BERT4Rec really better than
       SASRec? RecSys 2023.

    Examples
    --------
    >>> log = [["tea", "jam", "rye"], ["oat", "jam", "fig"]] * 10
    >>> model = SASRecRecommender(learning_rate=0.003, max_epochs=40, random_state=0)
    >>> model.fit(log).recommend([["tea", "jam"], ["oat", "jam"]], top=1)[0].tolist()
    [['rye'], ['fig']]
    """

    window_size: int = 50
    n_blocks: int = 2
    n_heads: int = 1
    dropout: float | str = "auto"
    n_negatives: int | None = 256
    batch_size: int = 128
    max_epochs: int = 200
    patience: int = 20
    early_stopping: bool = True

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.n_negatives is not None:
            check_count("n_negatives", self.n_negatives)
        check_count("n_blocks", self.n_blocks)
        check_count("n_heads", self.n_heads)
        if self.dim % self.n_heads:
            raise ParameterError(f"n_heads ({self.n_heads}) must divide dim ({self.dim}).")

    def _learn(
        self,
        training: Groups,
        *,
        validation: Groups | None = None,
        max_epochs: int | None = None,
    ) -> None:
        if validation is None and self.early_stopping and training.targets is None:
            generator = np.random.default_rng(0)  # not the one that draws initial weights
            held_out = hold_out_last(training, generator)
            if held_out is not None and len(held_out.queries) >= MIN_HELD_OUT:
                super()._learn(held_out.training, validation=held_out.queries)
                best = max(self.history_, key=lambda record: record["validation"])
                max_epochs = best["epoch"]
        super()._learn(training, validation=validation, max_epochs=max_epochs)

    def _dropout_in_use(self) -> float:
        if is_auto(self.dropout):
            return 0.2 if self.popularity_.mean() >= DENSE_CLICKS_PER_ITEM else 0.5
        return float(self.dropout)

    def _validator(self, validation: Groups, generator: np.random.Generator) -> Callable[[], float]:
        # Among 100 random items the gain stops rising long before that in the catalogue does.
        if validation.targets is None:
            raise DataError("validation windows need targets.")
        rows = max(1, min(len(validation), MAX_VALIDATION_SCORES // self.n_items_))
        windows = validation.subset(np.arange(rows))

        def gain() -> float:
            with evaluating_on_cpu(self.network_, find_device(self.device)):
                better, tied = rank_targets(self, windows, self.n_items_, "full")
            return float(np.mean(1 / np.log2(better + 0.5 * tied + 2)))

        return gain

    def _build(self) -> nn.Module:
        return SASRecNetwork(
            self.n_items_,
            self.dim,
            self.window_size,
            n_blocks=self.n_blocks,
            n_heads=self.n_heads,
            dropout=self._dropout_in_use(),
        )

    def _optimizer(self) -> torch.optim.Optimizer:
        matrices = [p for p in self.network_.parameters() if p.ndim > 1]
        vectors = [p for p in self.network_.parameters() if p.ndim == 1]
        parts: list[dict[str, Any]] = [
            {"params": matrices, "weight_decay": self.weight_decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        return Adam(parts, self.learning_rate)

    def _read(self, histories: Groups) -> IntArray:
        width = min(self.window_size, int(histories.sizes.max()))
        return left_aligned(histories, width, fill=self.n_items_)

    def _epoch_losses(
        self, training: Groups, generator: np.random.Generator
    ) -> Callable[[], Iterator[Tensor]]:
        sequences = self._sequences(training)
        only_target = training.targets is not None
        noise, device = torch_generator(generator), find_device(self.device)

        def losses() -> Iterator[Tensor]:
            sizes = np.minimum(sequences.sizes, self.window_size + 1)
            for rows in batch_rows(sizes, self.batch_size, generator):
                clicks = left_aligned(
                    sequences.subset(rows), int(sizes[rows].max()), fill=self.n_items_
                )
                yield self._batch_loss(torch.from_numpy(clicks).to(device), only_target, noise)

        return losses

    def _sequences(self, training: Groups) -> Groups:
        """Return sequences of two clicks and more: histories, or windows followed by a target."""
        if training.targets is None:
            long_enough = np.flatnonzero(training.sizes > 1)
            if len(long_enough) == 0:
                raise DataError("no history has two clicks; there is no next click to learn from.")
            return training.subset(long_enough)
        objects = np.insert(training.objects, training.offsets[1:], training.targets)
        return Groups(objects, training.offsets + np.arange(len(training) + 1))

    def _batch_loss(self, clicks: Tensor, only_target: bool, noise: torch.Generator) -> Tensor:
        """Return the mean loss over the positions of padded sequences (n, size)."""
        states, targets = self._trained_positions(clicks, only_target)
        table = self.network_.items.weight[: self.n_items_]
        if self.n_negatives is None:
            logits = (states * table[targets]).sum(-1)
            return (log_normalizer(states, table) - logits).mean()
        drawn = torch.randint(self.n_items_, (self.n_negatives,), generator=noise)
        return sampled_softmax_loss(states, table, targets, drawn.to(clicks.device)).mean()

    def _trained_positions(self, clicks: Tensor, only_target: bool) -> tuple[Tensor, Tensor]:
        """Return the states (positions, dim) of trained positions, and the click after each."""
        following = clicks[:, 1:]
        is_trained = following != self.n_items_  # (n, size - 1)
        if only_target:
            position = torch.arange(following.shape[1], device=clicks.device)
            is_trained &= position == is_trained.sum(1, keepdim=True) - 1
        return self.network_.states(clicks[:, :-1])[is_trained], following[is_trained]


class CausalNetwork(nn.Module):
    """A causal network over clicks, padded at the end with `n_items`."""

    n_items: int

    def states(self, clicks: Tensor) -> Tensor:
        """Return the state after each click, shape (n, size, dim)."""
        raise NotImplementedError

    def encode(self, clicks: Tensor) -> Tensor:
        """Return the state after the last click of each history, shape (n, dim)."""
        last = (clicks != self.n_items).sum(1) - 1
        return self.states(clicks)[torch.arange(len(clicks), device=clicks.device), last]


class SASRecNetwork(CausalNetwork):
    """A causal transformer over clicks; padding (index `n_items`) follows them.

    No click attends to later positions, so padding does not affect the clicks before it.
    """

    def __init__(
        self,
        n_items: int,
        dim: int,
        window_size: int,
        *,
        n_blocks: int,
        n_heads: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.n_items = n_items
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=n_items)
        self.places = nn.Embedding(window_size, dim)
        for table in (self.items, self.places):
            nn.init.normal_(table.weight, std=0.02)
        # At unit scale a click outweighs what untrained blocks add to it.
        self.input_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(_Block(dim, n_heads, dropout) for _ in range(n_blocks))
        self.norm = nn.LayerNorm(dim)

    def states(self, clicks: Tensor) -> Tensor:
        """Return the state after each click, shape (n, size, dim)."""
        embedded = self.items(clicks) + self.places.weight[: clicks.shape[1]]
        states: Tensor = self.dropout(self.input_norm(embedded))
        for layer in [*self.blocks, self.norm]:
            states = layer(states)
        return states

    def item_table(self) -> tuple[Tensor, Tensor]:
        """Return item vectors (n_items, dim) and biases (n_items,), all zero."""
        return self.items.weight[: self.n_items].detach(), torch.zeros(self.n_items)


class _Block(nn.Module):
    """Attention to earlier clicks, then a two-layer perceptron at each click."""

    def __init__(self, dim: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.attention_norm = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim)
        self.attention_out = nn.Linear(dim, dim)
        self.perceptron = nn.Sequential(
            nn.LayerNorm(dim),
            nn.Linear(dim, dim),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(dim, dim),
            nn.Dropout(dropout),
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor) -> Tensor:
        n, size, dim = states.shape
        mixed = self.query_key_value(self.attention_norm(states))
        query, key, value = mixed.view(n, size, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        attended = self.attention_out(attended.transpose(1, 2).reshape(n, size, dim))
        states = states + self.dropout(attended)
        return states + self.perceptron(states)
