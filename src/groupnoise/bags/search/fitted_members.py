"""Trained members of an ensemble: those that answer of instances, and those of bags alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupnoise.bags.search.forests_and_kernels import ForestBatch, StatisticsModel, forest_model
from groupnoise.bags.search.member_training import MemberBatch, build_member
from groupnoise.bags.search.members import (
    FORESTS,
    KERNEL,
    MAX_LOG_ODDS,
    BagProblem,
    MemberSettings,
    bag_presence,
    make_problem,
)
from groupnoise.bags.search.self_training import student_model
from groupnoise.bags.search.witness_rate import with_background
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, offsets_from_sizes
from groupnoise.core.groups import Groups
from groupnoise.core.kernels import KernelEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.scaling import Scaler
from groupnoise.core.streamed_groups import StreamedGroups, scaled_groups
from groupnoise.core.trees import TreesEncoder
from groupnoise.training.saver import current_report

BLOCK_ROWS = 8_192
N_COPIES = {"identity": 1, "mlp": 3, **dict.fromkeys(FORESTS, 1)}
"""Models that are averaged where nothing is held out."""
NUMBERS = ("weight", "bag_scale", "bag_shift")
"""Numbers that a model folder stores for every member."""


@dataclass(frozen=True)
class FittedMember:
    """A trained member that predicts instances, and bags by them.

    `weight`: weights of an ensemble sum to one.
    `scaler`: fitted to the training instances.
    `model`: named targets first, a free one last.
    `n_copies`: how many models were averaged into it.
    `mixture`: for "mixture", the logit of the share of positive instances, and a constant.
    `answer`: quantifier by which it predicts bags, None for that of its likelihood.
    `spread`: standard deviation of its centred log probabilities about the mean of each target, on
        held-out instances.
    `centre`: mean of those of the positive target; None except for positive and negative bags, and
        where nothing was held out.
    `bag_scale`, `bag_shift`: the calibration of its log odds of bags.
    `background`: for members without such a target, log odds of background against the geometric
        mean of the classes; None where no instance is background.
    """

    settings: MemberSettings
    weight: float
    scaler: Scaler
    model: MatchingModel
    n_copies: int = 1
    mixture: tuple[float, float] = (0.0, 0.0)
    answer: str | None = None
    spread: float = 1.0
    centre: float | None = None
    bag_scale: float = 1.0
    bag_shift: float = 0.0
    background: float | None = None

    def logits(self, rows: NDArray[Any]) -> Tensor:
        """Return the logits of unscaled instances, shape (n_rows, n_targets)."""
        targets = torch.arange(self.model.n_targets)
        with torch.no_grad():
            parts = [
                self.model.logits(self.model.encode_objects(torch.from_numpy(part)), targets)
                for part in _blocks(rows, self.scaler)
            ]
        return torch.cat(parts)

    def log_probabilities(self, logits: Tensor) -> Tensor:
        """Return log P(target | instance) from logits, background last where there is one."""
        log_p = logits.log_softmax(-1)
        return log_p if self.background is None else with_background(log_p, self.background)

    @property
    def n_targets(self) -> int:
        """The number of classes and of the free target, if there is one."""
        return int(self.model.n_targets) + (self.background is not None)

    def log_odds(self, logits: Tensor, problem: BagProblem) -> Tensor:
        """Return the calibrated log odds of the labels of bags, shape (n_bags, n_named)."""
        if problem.is_binary(self.settings):
            logits = logits[:, :1] - logits[:, 1:]
        mixture = torch.tensor(self.mixture)
        present = bag_presence(logits, problem, self.settings, mixture, self.answer)
        log_odds = present.log_odds.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS).double()
        return log_odds * self.bag_scale + self.bag_shift

    def as_record(self) -> dict[str, Any]:
        """Return all but arrays as JSON can hold it."""
        names = (*NUMBERS, "n_copies", "answer", "spread", "centre", "background")
        rest = {name: getattr(self, name) for name in names}
        encoder = self.model.object_encoder
        if isinstance(encoder, TreesEncoder):
            rest["trees"] = encoder.sizes()
        if isinstance(encoder, KernelEncoder):
            rest["kernel"] = encoder.sizes()
        return {"settings": asdict(self.settings), "mixture": list(self.mixture), **rest}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of its scaler; the model stores its own weights."""
        return self.scaler.arrays()

    @classmethod
    def from_record(
        cls,
        record: Mapping[str, Any],
        arrays: dict[str, NDArray[Any]],
        n_named: int,
        has_negative: bool,
    ) -> FittedMember:
        """Return the member of a record of :meth:`as_record`, its model without weights."""
        settings = MemberSettings(**record["settings"])
        n_targets = n_named + int(has_negative or settings.background)
        scaler = Scaler.from_arrays(settings.scaling, arrays)
        if settings.encoder in FORESTS:
            model = forest_model(TreesEncoder.of_sizes(record["trees"], scaler.width, n_targets))
        elif settings.encoder == KERNEL:
            model = student_model(KernelEncoder.of_sizes(record["kernel"], scaler.width, n_targets))
        else:
            model = build_member(scaler.width, n_targets, settings, int(record["n_copies"]))
        rest: dict[str, Any] = {name: float(record[name]) for name in ("spread", *NUMBERS)}
        rest |= {name: record[name] for name in ("n_copies", "answer", "centre", "background")}
        rate, constant = map(float, record["mixture"])
        return cls(settings, scaler=scaler, model=model, mixture=(rate, constant), **rest)


@dataclass(frozen=True)
class FittedStatistics:
    """A trained whole-bag member, which predicts bags but no instances.

    `weight`: weights of an ensemble sum to one.
    `scaler`: fitted to the training instances.
    `model`: predicts the labels of bags.
    `bag_scale`, `bag_shift`: the calibration of its log odds of bags.
    """

    settings: MemberSettings
    weight: float
    scaler: Scaler
    model: StatisticsModel
    bag_scale: float = 1.0
    bag_shift: float = 0.0

    def log_odds(self, rows: NDArray[Any], sizes: IntArray) -> FloatArray:
        """Return the calibrated log odds of the labels of bags, shape (n_bags, n_named)."""
        return (
            self.model(self.scaler(rows), offsets_from_sizes(sizes)) * self.bag_scale
            + self.bag_shift
        )

    def as_record(self) -> dict[str, Any]:
        """Return all but arrays as JSON can hold it."""
        rest = {name: getattr(self, name) for name in NUMBERS}
        return {"settings": asdict(self.settings), **rest}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of its scaler and its kernel."""
        return {**self.scaler.arrays(), **self.model.arrays()}

    @classmethod
    def from_record(
        cls, record: Mapping[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> FittedStatistics:
        """Return the member of a record of :meth:`as_record`."""
        settings = MemberSettings(**record["settings"])
        scaler = Scaler.from_arrays(settings.scaling, arrays)
        model = StatisticsModel.from_arrays(settings.width, arrays)
        numbers = {name: float(record[name]) for name in NUMBERS}
        return cls(settings, scaler=scaler, model=model, **numbers)


def _blocks(rows: NDArray[Any], scaler: Scaler) -> Iterator[NDArray[np.float32]]:
    for start in range(0, max(1, len(rows)), BLOCK_ROWS):
        yield scaler(rows[start : start + BLOCK_ROWS])


def make_batch(
    rows: Tensor | StreamedGroups,
    problem: BagProblem,
    bag_weights: Tensor,
    settings: Sequence[MemberSettings],
    seed: int,
) -> MemberBatch | ForestBatch:
    """Return a batch of untrained members, which share an encoder."""
    kind = ForestBatch if settings[0].encoder in FORESTS else MemberBatch
    return kind(rows, problem, bag_weights, settings, torch.Generator().manual_seed(seed))


def train_batch(
    settings: Sequence[MemberSettings],
    bags: Groups,
    labels: BoolArray,
    has_negative: bool,
    seed: int,
    held: Sequence[int] | IntArray = (),
) -> tuple[MemberBatch | ForestBatch, Scaler]:
    """Return a trained batch of members, and the scaling of their features.

    Members differ in likelihood and weight decay alone; those of one likelihood are adjacent.
    `held`: bags that the first copy of each member has not seen.
    """
    scaler, scaled = scaled_groups(settings[0].scaling, bags)
    rows = scaled if isinstance(scaled, StreamedGroups) else torch.from_numpy(scaled.objects)
    weights = torch.ones(len(bags), 2 if len(held) else N_COPIES[settings[0].encoder])
    if len(held):
        weights[held, 0] = 0.0
    batch = make_batch(
        rows, make_problem(bags, labels, has_negative), weights / weights.sum(0), settings, seed
    )
    return batch.train(current_report()), scaler


def average_copies(
    batch: MemberBatch | ForestBatch, number: int, scaler: Scaler, answer: str | None = None
) -> FittedMember:
    """Return the mean of the copies of a member; its bag shift corrects for the averaging.

    `answer`: quantifier by which it predicts bags.
    """
    rate, constant = batch.mixture[:, batch.columns(number), 0].mean(1).tolist()
    model = batch.model(number)
    return FittedMember(
        batch.settings[number],
        1.0,
        scaler,
        model,
        batch.n_copies,
        (rate, constant),
        answer,
        bag_shift=averaging_shift(batch, number, answer),
    )


def averaging_shift(
    batch: MemberBatch | ForestBatch, number: int, answer: str | None = None
) -> float:
    """Return by how much averaging the copies of a member lowers the log odds of bags.

    The highest mean logit of a bag is below the mean of the highest logits by each copy, but
    members are calibrated on held-out bags, which one copy each predicts. The difference is
    measured on training bags; it hardly depends on whether copies have seen a bag.

    `answer`: quantifier by which the member predicts bags.
    """
    if batch.n_copies == 1:
        return 0.0
    settings, (logits, problem) = batch.settings[number], batch.trained_logits
    values = logits[:, batch.columns(number)]
    shares = batch.mixture[:, batch.columns(number)]
    means = batch.averaged(values), shares.mean(1, keepdim=True)
    with torch.no_grad():
        each = bag_presence(values, problem, settings, shares, answer).log_odds
        averaged = bag_presence(means[0], problem, settings, means[1], answer).log_odds
    difference = each.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS).mean(1, keepdim=True)
    difference = difference - averaged.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS)
    return float(difference.double().mean())
