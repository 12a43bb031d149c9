"""Training of many small models under likelihoods of bags at once.

The models of all folds, likelihoods and weight decays are stacked in the same arrays, so that one
step of Adam trains all of them. The results are ordinary matching models: the copies of a member,
trained on different bags from different initial weights, are averaged into one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from groupnoise.bags.search.members import BagProblem, Batch, MemberSettings, bag_loss
from groupnoise.core.arrays import ProgressCallback
from groupnoise.core.device import CPU, current_device, keeping_freed_memory
from groupnoise.core.encoders import EmbeddingEncoder, IdentityEncoder, MLPEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.quantifier import Segments
from groupnoise.core.streamed_groups import StreamedGroups
from groupnoise.core.threads import threads_for
from groupnoise.training.optimizer import Adam

MAX_STEP_ROWS = 1 << 16
"""Maximum instances of a step; of longer data each step draws as many bags as fit."""
MIN_PART_ROWS, MIN_PART_BAGS, MAX_PARTS = 1 << 13, 64, 4
"""Minimum instances and bags of a mini-batch, and maximum mini-batches of an epoch: four steps on a
quarter of the data each take as long as one on all of it, and learn more."""
MAX_STEP_UNITS = 1 << 24
"""Maximum hidden units of a step, over all models and instances."""
MAX_WIDTH = 256
"""Maximum inputs of hidden layers; wider data is reduced to as many principal components."""
N_ITERATIONS = 3
WARM_UP = 0.1
BETAS = (0.9, 0.98)


class MemberBatch(Batch):
    """Models that differ in likelihood, weight decay and bags, and are trained together.

    `rows` (n_rows, n_features): scaled instances, in memory or read from disk bag by bag.
    `problem`: their bags.
    `bag_weights` (n_bags, n_copies): weight of each bag for each copy of each member, 0 where it is
        held out. Columns sum to one.
    `settings`: the members; they differ in likelihood and weight decay alone.
    `generator`: draws the initial weights, and the bags of a step where they are too many.
    """

    def __init__(
        self,
        rows: Tensor | StreamedGroups,
        problem: BagProblem,
        bag_weights: Tensor,
        settings: Sequence[MemberSettings],
        generator: torch.Generator,
    ) -> None:
        super().__init__(rows, problem, bag_weights, settings, generator)
        self.common, width = settings[0], self.width
        self.is_linear = self.common.encoder == "identity"
        self.directions: Tensor | None = None
        if not self.is_linear and width > MAX_WIDTH:
            some = rows if isinstance(rows, Tensor) else self.rows_of(self._some_bags())
            self.directions = principal_directions(some, MAX_WIDTH, generator)
            width = MAX_WIDTH
            if isinstance(rows, Tensor):
                self.rows = rows @ self.directions
        decays = torch.tensor([each.weight_decay for each in settings])
        self.weight_decay = decays.repeat_interleave(self.n_copies)
        self.labels = torch.from_numpy(problem.labels).unsqueeze(1)
        self.weights = self._initial_weights(width)
        size = float(problem.segments.sizes.float().mean())
        rate = min(0.5, 1.5 / size)
        self.mixture[0] = math.log(rate / (1.0 - rate))
        self._noise: Tensor | None = None
        self.device = CPU
        self._placed: tuple[Tensor, BagProblem, Tensor, Tensor] | None = None

    def _initial_weights(self, width: int) -> list[Tensor]:
        """Return initial weights, the same for all members but different for each copy."""
        common, n_copies, n_members = self.common, self.n_copies, len(self.settings)
        problem, draw = self.problem, self.generator
        n_out = 1 if problem.is_binary(common) else problem.n_named + problem.n_free(common)
        n_models = n_members * n_copies
        if self.is_linear:
            first = _normal((width, n_out), 0.01 if n_out > 1 else 0.0, draw)
            weights = [first.repeat(n_models, 1, 1), torch.zeros(n_models, n_out)]
        else:
            hidden = common.hidden
            first = _normal((n_copies, width, hidden), width**-0.5, draw)
            last = _normal((n_copies, hidden, n_out), 0.5 * hidden**-0.5, draw)
            weights = [
                first.repeat(n_members, 1, 1),
                torch.zeros(n_models, hidden),
                last.repeat(n_members, 1, 1),
                torch.zeros(n_models, n_out),
            ]
        if n_out == 1:
            for number, each in enumerate(self.settings):
                weights[-1][self.columns(number)] = _first_bias(each.likelihood, problem.segments)
        return weights

    def logits(self, rows: Tensor, *, training: bool = False) -> Tensor:
        """Return the logits of rows under every model, (n_rows, n_models, n_out)."""
        first, bias = self.weights[0], self.weights[1]
        n_models, width, out = first.shape
        flat = torch.addmm(bias.flatten(), rows, first.transpose(0, 1).reshape(width, -1))
        if self.is_linear:
            return flat.view(len(rows), n_models, out)
        values = F.relu(flat)
        if training and self.common.dropout:
            masked = values.view(len(rows), n_models, out) * self._dropout_mask(len(rows), out)
            values = masked.view(len(rows), -1)
        last, bias = self.weights[2], self.weights[3]
        if last.shape[2] > 1:
            hidden = values.view(len(rows), n_models, out).transpose(0, 1)
            return torch.baddbmm(bias.unsqueeze(1), hidden, last).transpose(0, 1)
        # For a single logit, one product with a block-diagonal matrix is faster than one per model.
        blocks = last.unsqueeze(2) * torch.eye(n_models, device=last.device).view(
            n_models, 1, n_models, 1
        )
        mixed = torch.addmm(bias.flatten(), values, blocks.view(n_models * out, -1))
        return mixed.view(len(rows), n_models, -1)

    def _dropout_mask(self, n_rows: int, hidden: int) -> Tensor:
        """Return one mask for all models, a slice of a long draw, as drawing is slow."""
        size = n_rows * hidden
        if self._noise is None or len(self._noise) < 2 * size:
            keep = 1.0 - self.common.dropout
            self._noise = torch.empty(2 * size).bernoulli_(keep, generator=self.generator) / keep
        start = int(torch.randint(size, (), generator=self.generator))
        return self._noise[start : start + size].view(n_rows, 1, hidden).to(self.device)

    def train(self, report: ProgressCallback | None = None) -> MemberBatch:
        """Train all models on the device in use, and return them on the CPU."""
        saves = self._saves()
        if saves is not None and saves.restore(self):
            return self
        self._move(current_device())
        learned = [*self.weights, self.mixture]
        for tensor in learned:
            tensor.requires_grad_()
        optimizer = Adam(learned, self.common.learning_rate, betas=BETAS)
        n_steps = self.common.max_epochs * self._n_parts
        work = self._max_rows * sum(each.numel() for each in learned)
        with threads_for(work), keeping_freed_memory():
            for step in range(n_steps):
                if saves is not None:
                    saves.check_stop()
                for group in optimizer.param_groups:
                    group["lr"] = self.common.learning_rate * _rate(step, n_steps)
                optimizer.zero_grad()
                loss = self._loss(step / n_steps)
                loss.backward()
                optimizer.step()
                if report is not None:
                    mean = float(loss.detach()) / len(self.weight_decay)
                    report({"epoch": step + 1, "n_epochs": n_steps, "loss": mean})
        for tensor in learned:
            tensor.requires_grad_(False)
        self._move(CPU)
        if saves is not None:
            saves.save(self)
        return self

    def _origins(self) -> Iterator[Tensor]:
        yield from (self.problem.segments.sizes, self.labels, self.bag_weights)
        yield from (*self.weights, self.generator.get_state())

    def pack(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the trained tensors, and the state of the generator."""
        tensors = [*self.weights, self.mixture, self.generator.get_state()]
        return {}, {str(number): tensor.numpy() for number, tensor in enumerate(tensors)}

    def unpack(self, content: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore packed tensors."""
        *weights, mixture, state = (
            torch.from_numpy(np.array(arrays[str(number)])) for number in range(len(arrays))
        )
        self.weights, self.mixture = weights, mixture
        self.generator.set_state(state)

    def _move(self, device: torch.device) -> None:
        """Move everything that is trained to a device."""
        self.device, self._placed = device, None
        self.weights = [tensor.to(device) for tensor in self.weights]
        self.mixture = self.mixture.to(device)
        self.weight_decay = self.weight_decay.to(device)

    def _loss(self, progress: float) -> Tensor:
        rows, problem, labels, weights = self._on_device()
        logits = self.logits(rows, training=True)
        loss = torch.zeros(())
        start = 0
        for _, alike in groupby(self.settings, key=lambda each: each.likelihood):
            members = list(alike)
            end = start + len(members) * self.n_copies
            counted = weights.repeat(1, len(members))
            each = bag_loss(
                logits[:, start:end],
                problem,
                labels,
                members[0],
                counted > 0,
                progress,
                self.mixture[:, start:end],
            )
            loss = loss + torch.where(counted > 0, each * counted, 0.0).sum()
            start = end
        norm = sum(((tensor**2).sum((1, 2)) for tensor in self.weights[::2]), torch.zeros(()))
        return loss + 0.5 * (self.weight_decay * norm).sum()

    def _on_device(self) -> tuple[Tensor, BagProblem, Tensor, Tensor]:
        """Return the rows, bags, labels and weights of a step on the device of the training."""
        if self._placed is not None:
            return self._placed
        part = self._part()
        if self.device.type == "cpu":
            return part
        rows, problem, labels, weights = part
        device = self.device
        part = rows.to(device), problem.to(device), labels.to(device), weights.to(device)
        if problem is self.problem:  # every step is on all bags
            self._placed = part
        return part

    def _part(self) -> tuple[Tensor, BagProblem, Tensor, Tensor]:
        """Return the rows, bags, labels and weights of a step."""
        if isinstance(self.rows, Tensor) and len(self.rows) <= self._max_rows:
            return self.rows, self.problem, self.labels, self.bag_weights
        bags = self._some_bags()
        weights = self.bag_weights[bags]
        weights = weights / weights.sum(0).clamp(min=torch.finfo(weights.dtype).tiny)
        problem = self.problem.subset(bags.numpy())
        return self.rows_of(bags), problem, self.labels[bags], weights

    @cached_property
    def _max_rows(self) -> int:
        """Maximum instances of a step."""
        n_units = len(self.settings) * self.n_copies * (1 if self.is_linear else self.common.hidden)
        return min(-(-self._n_rows // self._n_parts), max(1, MAX_STEP_UNITS // n_units))

    @cached_property
    def _n_rows(self) -> int:
        """Maximum instances of an epoch."""
        return min(MAX_STEP_ROWS, int(self.problem.segments.sizes.sum()))

    @cached_property
    def _n_parts(self) -> int:
        """Steps of an epoch: one for small data."""
        n_bags = int(self._n_rows / float(self.problem.segments.sizes.float().mean()))
        most = min(self._n_rows // MIN_PART_ROWS, n_bags // MIN_PART_BAGS)
        return max(1, min(MAX_PARTS, most))

    def _some_bags(self) -> Tensor:
        """Draw as many bags as fit into a step."""
        sizes = self.problem.segments.sizes
        order = torch.randperm(len(sizes), generator=self.generator)
        n_bags = int((sizes[order].cumsum(0) <= self._max_rows).sum().clamp(min=1))
        return order[:n_bags].sort().values

    def rows_of(self, bags: Tensor) -> Tensor:
        """Return the inputs of models for the instances of some bags, bag after bag."""
        rows = super().rows_of(bags)
        if self.directions is None or isinstance(self.rows, Tensor):
            return rows
        return rows @ self.directions

    @staticmethod
    def averaged(logits: Tensor) -> Tensor:
        """Return the logits of the mean of copies, (n_rows, 1, n_out)."""
        return logits.mean(1, keepdim=True)

    @cached_property
    def trained_logits(self) -> tuple[Tensor, BagProblem]:
        """Logits of the trained models for the instances of one step, and their bags."""
        rows, problem, _, _ = self._part()
        with torch.no_grad():
            return self.logits(rows), problem

    def model(self, number: int) -> MatchingModel:
        """Return a model that averages the copies of a member, free target last.

        The weights of linear copies are averaged; the hidden units of others are concatenated.
        """
        arrays = [tensor[self.columns(number)].detach() for tensor in self.weights]
        first = arrays[0]
        if self.directions is not None:
            first = self.directions @ first
        if self.is_linear:
            last, bias = first.mean(0), arrays[1].mean(0)
        else:
            last = arrays[2].flatten(0, 1) / self.n_copies
            bias = arrays[3].mean(0)
        if self.problem.is_binary(self.common):
            # The logit is that of the named target; the free one stays at zero.
            last = torch.cat([last, torch.zeros_like(last)], dim=1)
            bias = torch.cat([bias, torch.zeros_like(bias)])
        model = build_member(first.shape[1], len(bias), self.common, self.n_copies)
        if self.is_linear:
            state = {"target_encoder.weight": last.t().contiguous()}
        else:
            state = {
                "object_encoder.layers.0.weight": first.transpose(1, 2).flatten(0, 1),
                "object_encoder.layers.0.bias": arrays[1].flatten(),
                "object_encoder.layers.1.weight": last.t().contiguous(),
                "object_encoder.layers.1.bias": torch.zeros(len(bias)),
                "target_encoder.weight": torch.eye(len(bias)),
            }
        model.load_state_dict({**state, "bias": bias.unsqueeze(1)})
        return model.eval()


def build_member(
    n_features: int, n_targets: int, settings: MemberSettings, n_copies: int
) -> MatchingModel:
    """Return an untrained model of a member, with the hidden units of all its copies."""
    generator = torch.Generator().manual_seed(0)
    is_linear = settings.encoder == "identity"
    hidden = settings.hidden * n_copies
    encoder = (
        IdentityEncoder()
        if is_linear
        else MLPEncoder(n_features, (hidden,), n_targets, generator=generator)
    )
    dim = n_features if is_linear else n_targets
    table = EmbeddingEncoder(n_targets, dim, std=0.01, generator=generator)
    return MatchingModel(encoder, table, n_targets=n_targets, has_bias=True)


def principal_directions(rows: Tensor, n_directions: int, generator: torch.Generator) -> Tensor:
    """Return principal directions, (n_features, n_directions), scaled to unit mean square.

    They are computed by subspace iteration from random directions, of uncentred rows.
    """
    drawn = _normal((rows.shape[1], n_directions), 1.0, generator)
    directions = torch.linalg.qr(drawn).Q
    for _ in range(N_ITERATIONS):
        directions = torch.linalg.qr(rows.t() @ (rows @ directions)).Q
    size = float((rows @ directions).square().mean().sqrt())
    return directions / max(size, 1e-12)


def _normal(shape: tuple[int, ...], std: float, generator: torch.Generator) -> Tensor:
    return torch.empty(shape).normal_(0.0, 1.0, generator=generator) * std


def _first_bias(likelihood: str, segments: Segments) -> float:
    """Return the bias under which an untrained model gives a bag even odds of being positive."""
    if likelihood == "noisy_or":
        chance = 1.0 - 0.5 ** (1.0 / float(segments.sizes.float().mean()))
        return math.log(chance / (1.0 - chance))
    return -1.0 if likelihood == "max" else 0.0


def _rate(step: int, n_steps: int) -> float:
    """Return the factor of the learning rate: a short warm-up, then a cosine to zero."""
    share = (step + 1) / n_steps
    if share < WARM_UP:
        return share / WARM_UP
    return 0.5 * (1.0 + math.cos(math.pi * (share - WARM_UP) / (1.0 - WARM_UP)))
