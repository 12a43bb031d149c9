"""Base classes of the neural recommenders: losses, training, scoring in blocks, and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from groupnoise.clicks.baselines.base import ItemToItemBaseline
from groupnoise.clicks.items.catalogue import ItemHistories
from groupnoise.clicks.windows.cutting import cut_windows
from groupnoise.core.arrays import (
    FloatArray,
    IntArray,
    ProgressCallback,
    RandomState,
    generator_from,
    torch_generator,
)
from groupnoise.core.checks import check_count, check_dropout, check_positive
from groupnoise.core.device import CPU, evaluating_on_cpu, find_device
from groupnoise.core.groups import Groups
from groupnoise.core.words import inherit_docstring
from groupnoise.decisions.portfolio import is_auto
from groupnoise.exceptions import DataError
from groupnoise.training.networks import rebuild_network, seeded, train_network
from groupnoise.training.optimizer import Adam

if TYPE_CHECKING:
    from typing_extensions import Self

_VALIDATION_NEGATIVES = 100


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class NeuralRecommender(ItemToItemBaseline):
    """A recommender whose scores come from a network trained by gradient descent.

    A subclass builds its network and yields the loss of each batch of an epoch.

    Parameters
    ----------
    dim : int, default=64
        Width of the item embeddings.
    window_size : int, default=5
        The most clicks looked at, the latest of a history.
    learning_rate : float, default=0.001
        Adam's step size.
    weight_decay : float, default=0.0
        Added to the gradient.
    batch_size : int, default=256
        Windows per step.
    max_epochs : int, default=50
        The most passes over the data.
    patience : int, default=5
        Stop after so many epochs without a better validation value.
    device : str, default="auto"
        Where the training runs: "cpu", "cuda", "cuda:1", "mps"; "auto" takes a CUDA device where
        there is one. Fitted models lie in the memory of the CPU, and answer there.
    on_epoch : callable or None, default=None
        Called with a record (epoch, loss, seconds, validation) after every epoch.
    random_state : int, generator or None, default=None
        Decides initial weights, batches and negatives.

    Attributes
    ----------
    network_ : nn.Module
        The trained network.
    history_ : list of dict
        One record per epoch.
    """

    _learned: ClassVar[str] = "network_"

    dim: int = 64
    window_size: int = 5
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    batch_size: int = 256
    max_epochs: int = 50
    patience: int = 5
    device: str = "auto"
    on_epoch: ProgressCallback | None = None
    random_state: RandomState = None

    def fit(
        self,
        histories: ItemHistories | Groups,
        y: object = None,
        *,
        item_ids: Any = None,
        validation: Groups | None = None,
    ) -> Self:
        """Learn from click histories.

        Parameters
        ----------
        validation : Groups, optional
            Windows of item indices with targets that were held out. Training stops when the
            targets' discounted gain among 100 random items (SASRec and LRURec: in the whole
            catalogue) has not risen for `patience` epochs, and the best epoch is restored.
        """
        training = self._prepare(histories, item_ids)
        self._learn(training, validation=validation)
        return self

    def _check_parameters(self) -> None:
        for name in ("dim", "window_size", "batch_size", "max_epochs", "patience"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate)
        check_positive("weight_decay", self.weight_decay, allow_zero=True)
        if not is_auto(getattr(self, "dropout", "auto")):
            check_dropout(self.dropout)

    def _learn(
        self,
        training: Groups,
        *,
        validation: Groups | None = None,
        max_epochs: int | None = None,
    ) -> None:
        generator = generator_from(self.random_state)
        device = find_device(self.device)
        with seeded(generator):
            self.network_: Any = self._build().to(device)
            losses = self._epoch_losses(training, generator)
            self.history_ = train_network(
                self.network_,
                self._optimizer(),
                lambda: ((loss, 1) for loss in losses()),
                max_epochs=max_epochs or self.max_epochs,
                patience=self.patience,
                validate=None if validation is None else self._validator(validation, generator),
                on_epoch=self.on_epoch,
            )
        self.network_.to(CPU)

    @abstractmethod
    def _build(self) -> nn.Module:
        """Return a fresh network for `n_items_` items."""

    @abstractmethod
    def _epoch_losses(
        self, training: Groups, generator: np.random.Generator
    ) -> Callable[[], Iterator[Tensor]]:
        """Return a function that yields the mean loss of each batch of one epoch."""

    def _read(self, histories: Groups) -> IntArray:
        """Return the clicks the network reads, shape (n, window_size), padded with `n_items_`."""
        return right_aligned(histories, self.window_size, fill=self.n_items_)

    def _optimizer(self) -> torch.optim.Optimizer:
        return Adam(
            self.network_.parameters(),
            self.learning_rate,
            weight_decay=self.weight_decay,
            decoupled=False,
        )

    def _validator(self, validation: Groups, generator: np.random.Generator) -> Callable[[], float]:
        """Return a function that computes NDCG of held-out targets among sampled negatives."""
        if validation.targets is None:
            raise DataError("validation windows need targets.")
        negatives = generator.integers(self.n_items_, size=(len(validation), _VALIDATION_NEGATIVES))
        candidates = np.column_stack([validation.targets, negatives])

        def gain() -> float:
            with evaluating_on_cpu(self.network_, find_device(self.device)):
                scores = self.scores(validation, candidates)
            target, others = scores[:, :1], scores[:, 1:]
            position = (others > target).sum(1) + 0.5 * (others == target).sum(1)
            return float(np.mean(1 / np.log2(position + 2)))

        return gain

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: value.numpy() for name, value in self.network_.state_dict().items()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.network_ = rebuild_network(self._build, arrays)


@inherit_docstring
@dataclass(kw_only=True, eq=False, repr=False)
class WindowRecommender(NeuralRecommender):
    """A network trained on batches of windows: a few clicks and what follows them.

    Parameters
    ----------
    n_targets : int, default=3
        Clicks after a window that count as its targets; ready-made windows have one.
    n_negatives : int, default=1
        Items drawn against each target.
    """

    n_targets: int = 3
    n_negatives: int = 1

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_count("n_targets", self.n_targets)
        check_count("n_negatives", self.n_negatives)

    def _epoch_losses(
        self, training: Groups, generator: np.random.Generator
    ) -> Callable[[], Iterator[Tensor]]:
        windows = training_windows(training, self.window_size, self.n_targets, self.n_items_)
        clicks = torch.from_numpy(self._read(windows))
        targets = torch.from_numpy(np.asarray(windows.targets, dtype=np.int64))
        noise, device = torch_generator(generator), find_device(self.device)

        def losses() -> Iterator[Tensor]:
            for rows in torch.randperm(len(targets), generator=noise).split(int(self.batch_size)):
                loss = self._batch_loss(clicks[rows].to(device), targets[rows].to(device), noise)
                yield loss.sum() / len(rows)

        return losses

    @abstractmethod
    def _batch_loss(self, clicks: Tensor, targets: Tensor, noise: torch.Generator) -> Tensor:
        """Return the loss of each of `targets` (n, n_targets), 0 where it is padding."""

    def _with_negatives(
        self, targets: Tensor, noise: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw negatives for each target.

        Returns `candidates` (n, n_targets, 1 + n_negatives): each target, then its negatives;
        `is_negative` (n, n_targets, n_negatives): False where a draw equals the target;
        `is_real` (n, n_targets): False where the target is padding, for which item 0 stands in.
        """
        is_real = targets != self.n_items_
        targets = targets.masked_fill(~is_real, 0)
        drawn, is_negative = draw_negatives_for(targets, self.n_items_, self.n_negatives, noise)
        return torch.cat([targets.unsqueeze(-1), drawn], dim=-1), is_negative, is_real


class VectorScoring(NeuralRecommender):
    """A network whose score is the inner product of a history vector and an item vector.

    The network turns clicks into vectors of shape (n, dim) in `encode`, and gives item vectors
    (n_items, dim) and biases (n_items,) in `item_table`.
    """

    def _rows_at_once(self, n_candidates: int | None) -> int:
        # Candidates are scored by a copy of their vectors for each history.
        return super()._rows_at_once(None if n_candidates is None else n_candidates * self.dim)

    def _score_all(self, histories: Groups) -> FloatArray:
        queries, vectors, biases = self._vectors(histories)
        return queries @ vectors.T + biases

    def _score_some(self, histories: Groups, items: IntArray) -> FloatArray:
        queries, vectors, biases = self._vectors(histories)
        return np.einsum("nd,nmd->nm", queries, vectors[items]) + biases[items]

    @torch.no_grad()
    def _vectors(self, histories: Groups) -> tuple[FloatArray, FloatArray, FloatArray]:
        self.network_.eval()
        queries = self.network_.encode(torch.from_numpy(self._read(histories)))
        vectors, biases = self.network_.item_table()
        return queries.numpy(), vectors.numpy(), biases.numpy()


def binary_loss(positive: Tensor, negatives: Tensor, is_negative: Tensor) -> Tensor:
    r"""Return :math:`-\log\sigma(s_y) - \sum_j \log\sigma(-s_j)`, shape (...).

    `positive`: logit of each target. `negatives` (..., n_negatives): logits of its negatives.
    `is_negative` (..., n_negatives): False where a draw equals the target, which is then ignored.
    """
    penalties = F.softplus(negatives).masked_fill(~is_negative, 0.0)
    return F.softplus(-positive) + penalties.sum(-1)


def hinge_loss(
    positive: Tensor, negatives: Tensor, is_negative: Tensor, *, margin: float
) -> Tensor:
    r"""Return :math:`\sum_j [m - s_y + s_j]_+`, shape (...); parameters as in `binary_loss`."""
    violation = F.relu(margin - positive.unsqueeze(-1) + negatives)
    return violation.masked_fill(~is_negative, 0.0).sum(-1)


def sampled_softmax_loss(
    queries: Tensor, table: Tensor, targets: Tensor, negatives: Tensor
) -> Tensor:
    r"""Return the cross-entropy of the target against uniformly drawn items, shape (n,).

    A drawn item stands for :math:`|Y| / m` items of the catalogue, so the logarithm of that is
    added to its logit; the sum over draws then estimates the full normalizer without bias.

    `queries`: of shape (n, dim). `table` (n_items, dim): item vectors; a logit is an inner product.
    `negatives`: items drawn once for the whole batch; a draw that equals the target is left out.
    """
    positive = (queries * table[targets]).sum(-1, keepdim=True)  # (n, 1)
    weight = torch.log(torch.tensor(len(table) / len(negatives), dtype=queries.dtype))
    drawn = queries @ table[negatives].T + weight  # (n, n_negatives)
    drawn = drawn.masked_fill(negatives == targets.unsqueeze(-1), -torch.inf)
    return torch.logsumexp(torch.cat([positive, drawn], dim=-1), dim=-1) - positive.squeeze(-1)


def draw_negatives_for(
    targets: Tensor, n_items: int, n_negatives: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw items uniformly for each target; return them and whether they differ from it."""
    drawn = torch.randint(n_items, (*targets.shape, n_negatives), generator=generator)
    drawn = drawn.to(targets.device)
    return drawn, drawn != targets.unsqueeze(-1)


def training_windows(training: Groups, size: int, n_targets: int, fill: int) -> Groups:
    """Return windows whose targets are the clicks that follow, shape (n_groups, n_targets).

    Groups that have targets already are used as they are, with that one target. From whole
    histories sliding windows are cut; `fill` stands where a history ends too soon.
    """
    if training.targets is not None:
        return Groups(training.objects, training.offsets, training.targets[:, None])
    windows = cut_windows(training, size=size, min_size=1)
    first = training.offsets[windows.users] + windows.positions
    following = first[:, None] + np.arange(n_targets)
    inside = following < training.offsets[windows.users + 1, None]
    last = training.n_objects - 1
    targets = np.where(inside, training.objects[np.minimum(following, last)], fill)
    return Groups(windows.groups.objects, windows.groups.offsets, targets)


def right_aligned(groups: Groups, size: int, fill: int) -> IntArray:
    """Return the last `size` objects of each group, padding before them, shape (n_groups, size)."""
    position = np.arange(size)
    index = groups.offsets[1:, None] - size + position
    is_real = index >= groups.offsets[:-1, None]
    return np.where(is_real, groups.objects[np.maximum(index, 0)], fill).astype(np.int64)


def left_aligned(groups: Groups, size: int, fill: int) -> IntArray:
    """Return the last `size` objects of each group, padding after them, shape (n_groups, size)."""
    kept = np.minimum(groups.sizes, size)[:, None]
    position = np.arange(size)
    index = groups.offsets[1:, None] - kept + position
    last = groups.n_objects - 1
    return np.where(position < kept, groups.objects[np.minimum(index, last)], fill).astype(np.int64)
