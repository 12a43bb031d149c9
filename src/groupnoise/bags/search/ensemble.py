"""Ensembles of members: instances are predicted by averaged log odds, bags by calibrated ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from groupnoise.bags.search.averaging import (
    averaged_log_odds,
    calibrated_log_probabilities,
    in_class_order,
)
from groupnoise.bags.search.bag_probability import (
    cap_at_bag_probability,
    chance_of_label,
    label_log_likelihood,
    log_bag_proba,
    log_none,
    mix_with_label_noise,
)
from groupnoise.bags.search.fitted_members import FittedMember, FittedStatistics
from groupnoise.bags.search.members import BagProblem
from groupnoise.bags.search.witness_rate import find_witness_rate, fit_shared_background
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, strip_prefix
from groupnoise.core.quantifier import (
    Segments,
    log_complement,
    log_label_likelihood,
    presence,
)

MAX_SHIFT = 30.0
MIN_PROBABILITY = 1e-30
MAX_BAG_SHARE = 0.5
"""Largest weight of a bag's log odds in its instances: below one, as each instance contributes to
the log odds of its bag already."""


@dataclass(frozen=True)
class BagEnsemble:
    """Members, and the calibration of their average.

    `members`: they predict instances and bags, and agree on whether there is a free target.
    `statistics`: whole-bag members, which predict bags alone. Weights of both kinds sum to one.
    `n_named`: labels that bags are asked for.
    `negative`: column of the negative label among all classes; then it is the free target.
    `exclusive`: whether no bag had more than one label.
    `has_negative`: whether bags may have none of the named labels: a class is negative, or some
        training bags had no label. Then there is a free target for their instances.
    `scale`, `shift`: of the averaged log odds of instances; the shift is that of the free target.
    `bag_scale`, `bag_shift`: of the averaged log odds of bags.
    `bag_share`: weight in each instance of the log odds of a label that its bag seems to lack; zero
        where held-out bags are predicted no better than by label frequencies.
    `threshold`: for positive and negative bags, the probability above which an instance is called
        positive.
    `doubt`: share of bags whose labels are taken to be random, so that a few held-out bags that
        were all predicted correctly make no probability certain.
    """

    members: Sequence[FittedMember]
    statistics: Sequence[FittedStatistics]
    n_named: int
    negative: int | None
    exclusive: bool
    has_negative: bool
    scale: float
    shift: float
    bag_scale: float
    bag_shift: float
    bag_share: float = 0.0
    threshold: float = 0.5
    doubt: float = 0.0

    def log_probabilities(self, rows: NDArray[Any]) -> Tensor:
        """Return log P(target | instance), classes in their order and a background last."""
        return self.averaged(each.log_probabilities(each.logits(rows)) for each in self.members)

    def averaged(self, log_p: Iterable[Tensor]) -> Tensor:
        """Return calibrated log P(target | instance) from that of each member, in their order."""
        weights = [member.weight for member in self.members]
        units = [(member.spread, member.centre) for member in self.members]
        average = averaged_log_odds(log_p, weights, units)
        free = average.shape[1] > self.n_named
        calibrated = calibrated_log_probabilities(average, self.scale, self.shift, free=free)
        return in_class_order(calibrated, self.negative)

    def log_probabilities_in_bags(
        self, rows: NDArray[Any], sizes: IntArray, temperature: float = 1.0
    ) -> Tensor:
        """Return log P(target | instance, its bag): a label that the bag seems to lack is unlikely.

        `sizes`: of the bags that the rows belong to, one after the other. `temperature`: what the
        log probabilities of instances are divided by.
        """
        logits = [member.logits(rows) for member in self.members]
        log_p = self.averaged(
            member.log_probabilities(each)
            for member, each in zip(self.members, logits, strict=True)
        )
        return self.within_bags(log_p / temperature, self.bag_log_odds(rows, sizes, logits), sizes)

    def within_bags(self, log_p: Tensor, log_odds: FloatArray, sizes: IntArray) -> Tensor:
        """Return log P(target | instance, its bag) from predictions of instances and of bags.

        Where instances may have none of the named labels, no label is likelier in an instance than
        in its bag.

        `log_p` (n_rows, n_targets): of instances, in the order of the classes. `log_odds` (n_bags,
        n_named): calibrated. `sizes`: of the bags.
        """
        kind = (self.exclusive, self.has_negative)
        present, absent = log_bag_proba(log_odds, *kind)
        against = np.clip(present - absent, -MAX_SHIFT, 0.0)
        # Doubt caps instances of confident bags, but raises none in a bag that lacks the label.
        most = np.exp(np.minimum(present, log_bag_proba(log_odds, *kind, self.doubt)[0]))
        if self.negative is not None:
            against = np.insert(against, self.negative, 0.0, axis=1)
        of_instances = torch.from_numpy(against.repeat(sizes, axis=0))
        log_p = log_p.clone()
        log_p[:, : against.shape[1]] += self.bag_share * of_instances
        log_p = log_p.log_softmax(-1)
        if log_p.shape[1] == self.n_named:
            return log_p
        free = self.n_named if self.negative is None else self.negative
        proba = log_p.exp().numpy()
        named = np.delete(np.arange(proba.shape[1]), free)
        capped = cap_at_bag_probability(proba[:, named], most, sizes)
        left = proba[:, named] - capped
        proba[:, named], proba[:, free] = capped, proba[:, free] + left.sum(axis=1)
        return torch.from_numpy(np.log(np.maximum(proba, MIN_PROBABILITY)))

    @property
    def is_binary(self) -> bool:
        """Whether bags are positive or negative."""
        return self.negative is not None and self.n_named == 1

    @property
    def is_free(self) -> bool:
        """Whether instances may have none of the named labels."""
        return self.has_negative or self.members[0].n_targets > self.n_named

    def answered(self, proba: FloatArray) -> IntArray:
        """Return the predicted column of each instance: the most probable, or by the threshold.

        `proba` (n_rows, n_classes), or with the background as a last column.
        """
        if self.negative is None or not self.is_binary:
            return proba.argmax(axis=1)
        positive = 1 - self.negative
        is_positive: BoolArray = proba[:, positive] > self.threshold
        return np.where(is_positive, positive, self.negative)

    def bag_log_odds(
        self, rows: NDArray[Any], sizes: IntArray, logits: Sequence[Tensor] | None = None
    ) -> FloatArray:
        """Return calibrated log odds of each named label in each bag, (n_bags, n_named).

        `logits`: of the rows by each member, where they are known already.
        """
        empty = np.zeros((len(sizes), self.n_named), dtype=bool)
        problem = BagProblem(
            Segments(torch.from_numpy(np.asarray(sizes))), empty, self.has_negative
        )
        total: Tensor | float = 0.0
        for number, member in enumerate(self.members):
            of_member = member.logits(rows) if logits is None else logits[number]
            total = total + member.weight * member.log_odds(of_member, problem)
        for whole in self.statistics:
            total = total + whole.weight * torch.from_numpy(whole.log_odds(rows, sizes))
        assert isinstance(total, Tensor)
        return (total * self.bag_scale + self.bag_shift).numpy()

    def log_proba_of_bags(self, log_odds: FloatArray) -> FloatArray:
        """Return log P(class | bag) from calibrated log odds of the named labels."""
        kind = (self.exclusive, self.has_negative)
        log_present, log_absent = log_bag_proba(log_odds, *kind, self.doubt)
        if self.negative is None:
            return log_present
        if self.exclusive:
            none = log_none(log_odds, self.doubt)
        else:
            none = log_absent.sum(axis=1)
        return np.insert(log_present, self.negative, none, axis=1)

    @property
    def has_unlabelled(self) -> bool:
        """Whether a bag may have no label at all, without a class that stands for that."""
        return self.has_negative and self.negative is None

    def likeliest_sets(self, log_proba: FloatArray) -> BoolArray:
        """Return the most probable label set of each bag, of the kind that training bags had.

        `log_proba` (n_bags, n_classes): as :meth:`log_proba_of_bags` returns it.
        """
        n_classes = log_proba.shape[1]
        if self.exclusive:  # labels and none share one probability
            proba = np.exp(log_proba)
            best = np.c_[proba, 1.0 - proba.sum(axis=1)].argmax(axis=1)
            return best[:, None] == np.arange(n_classes)
        present: BoolArray = log_proba > np.log(0.5)
        if self.negative is not None:
            present[:, self.negative] = False
            present[:, self.negative] = ~present.any(axis=1)
        elif not self.has_negative:
            present |= log_proba.argmax(axis=1)[:, None] == np.arange(n_classes)
        return present

    def log_odds_of_proba(self, proba: FloatArray) -> FloatArray:
        """Return the log odds of the named labels from P(class | bag), (n_bags, n_named)."""
        chance = chance_of_label(self.n_named, self.exclusive, self.has_negative)
        proba = np.clip((proba - self.doubt * chance) / (1.0 - self.doubt), 0.0, 1.0)
        log_p = np.log(np.maximum(proba, MIN_PROBABILITY))
        if self.negative is None:
            left = 1.0 - proba.sum(axis=1, keepdims=True) if self.has_negative else 1.0
            named, none = log_p, np.log(np.maximum(left, MIN_PROBABILITY))
        else:
            named, none = np.delete(log_p, self.negative, axis=1), log_p[:, [self.negative]]
        if not self.exclusive:
            none = np.log(np.maximum(-np.expm1(named), MIN_PROBABILITY))
        return named - none

    def as_record(self) -> dict[str, Any]:
        """Return everything but arrays as values for JSON."""
        names = [each.name for each in fields(self) if each.name not in ("members", "statistics")]
        rest = {name: getattr(self, name) for name in names}
        members = [member.as_record() for member in self.members]
        statistics = [whole.as_record() for whole in self.statistics]
        return {"members": members, "statistics": statistics, **rest}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of scalers and kernels, by member."""
        kinds: dict[str, Sequence[FittedMember | FittedStatistics]]
        kinds = {"member": self.members, "statistics": self.statistics}
        return {
            f"{kind}{number}.{name}": array
            for kind, members in kinds.items()
            for number, member in enumerate(members)
            for name, array in member.arrays().items()
        }

    def modules(self) -> nn.ModuleList:
        """Return the models of the members."""
        return nn.ModuleList(member.model for member in self.members)

    @classmethod
    def from_record(
        cls, record: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> BagEnsemble:
        """Return the ensemble of a record of :meth:`as_record`, its models without weights."""
        rest = {
            name: value for name, value in record.items() if name not in ("members", "statistics")
        }
        n_named, has_negative = int(record["n_named"]), bool(record["has_negative"])
        members = [
            FittedMember.from_record(each, of_member, n_named, has_negative)
            for each, of_member in _with_arrays(record["members"], arrays, "member")
        ]
        statistics = [
            FittedStatistics.from_record(each, of_member)
            for each, of_member in _with_arrays(record["statistics"], arrays, "statistics")
        ]
        return cls(members, statistics, **rest)


def _with_arrays(
    records: Sequence[Mapping[str, Any]], arrays: Mapping[str, NDArray[Any]], kind: str
) -> Iterator[tuple[Mapping[str, Any], dict[str, NDArray[Any]]]]:
    """Yield the record of each member of a kind, with its arrays."""
    for number, record in enumerate(records):
        yield record, strip_prefix(f"{kind}{number}.", arrays)


def calibrate_bags(
    log_odds: FloatArray, labels: BoolArray, exclusive: bool, has_negative: bool
) -> tuple[float, float]:
    """Return the scale and the shift under which held-out labels are likeliest.

    `log_odds` (n_bags, n_named): of bags that models have not seen. `labels`: of the same bags.
    `exclusive`, `has_negative`: as in :func:`log_bag_proba`.
    """

    def loss(scale: float, shift: float) -> float:
        values = log_odds * scale + shift
        return -float(label_log_likelihood(values, labels, exclusive, has_negative).mean())

    return _scale_and_shift(loss, has_shift=has_negative or not exclusive, spread=log_odds.std())


class InstanceScale(NamedTuple):
    """The calibration of averaged log odds of instances.

    `scale`, `shift`: of the log odds, and of the free target.
    `chances`: for positive and negative bags, P(positive | instance, label of its bag) of the
        instances it was fitted on.
    """

    scale: float
    shift: float
    chances: FloatArray | None = None


def calibrate_instances(
    averaged: Tensor, problem: BagProblem, free: bool, *, shares_background: bool = False
) -> InstanceScale:
    """Fit the calibration of averaged log odds of instances.

    As a rule by the noisy-or likelihood of held-out bag labels; for positive and negative bags by
    the witness rate; and for bags that share a background by the likelihood of their single labels.

    `averaged` (n_rows, n_targets): of instances that models have not seen. `free`: whether the last
    target is free. `shares_background`: whether it is a background that bags of all labels share.
    """
    if shares_background:
        group = problem.segments.group.numpy()
        shared = fit_shared_background(averaged.numpy(), problem.labels, group)
        return InstanceScale(shared.scale, shared.shift)
    labels = torch.from_numpy(problem.labels)
    if free and problem.n_named == 1 and 0 < problem.labels.sum() < len(problem.labels):
        odds = (averaged[:, 0] - averaged[:, 1]).numpy()
        group, is_positive = problem.segments.group.numpy(), problem.labels[:, 0]
        witnesses = find_witness_rate(odds, group, is_positive)
        share = witnesses.share * float(problem.labels[group, 0].mean())
        shift = math.log((1.0 - share) / share) - witnesses.constant
        return InstanceScale(witnesses.slope, shift, witnesses.chances(odds, group, is_positive))

    def loss(scale: float, shift: float) -> float:
        values = averaged * scale
        if free:
            values = torch.cat([values[:, :-1], values[:, -1:] + shift], dim=1)
        log_p = values.log_softmax(-1)[:, : problem.n_named]
        present = presence("noisy_or", log_p, log_complement(log_p), problem.segments)
        return -float(mix_with_label_noise(log_label_likelihood(present, labels).numpy()).mean())

    return InstanceScale(*_scale_and_shift(loss, has_shift=free, spread=float(averaged.std())))


def _scale_and_shift(
    loss: Callable[[float, float], float], *, has_shift: bool, spread: float
) -> tuple[float, float]:
    """Return the scale and the shift of lowest loss; a weak prior keeps both finite."""
    from scipy.optimize import minimize

    start = math.log(1.0 / max(spread, 1e-6))

    def bounded(values: FloatArray) -> float:
        log_scale, shift = float(values[0]), float(values[1]) if has_shift else 0.0
        if not (abs(log_scale - start) < 7.0 and abs(shift) < MAX_SHIFT):
            return 1e6
        penalty = 1e-3 * ((log_scale - start) ** 2 + 0.01 * shift**2)
        return loss(math.exp(log_scale), shift) + penalty

    first = np.array([start, 0.0]) if has_shift else np.array([start])
    simplex = first + np.vstack([np.zeros(len(first)), 1.5 * np.eye(len(first))])
    best = minimize(
        bounded,
        first,
        method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 0.01, "fatol": 1e-5, "maxiter": 80},
    ).x
    return math.exp(float(best[0])), float(best[1]) if has_shift else 0.0
