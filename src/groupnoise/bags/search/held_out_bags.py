"""Held-out predictions of members: their criterion, calibration and average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupnoise.bags.search import bag_probability
from groupnoise.bags.search.averaging import centred_log_probabilities, in_units_of_spread
from groupnoise.bags.search.bag_probability import doubt_after, label_log_likelihood
from groupnoise.bags.search.ensemble import (
    MAX_BAG_SHARE,
    BagEnsemble,
    calibrate_bags,
    calibrate_instances,
)
from groupnoise.bags.search.fitted_members import FittedMember, FittedStatistics
from groupnoise.bags.search.member_weights import credible_share
from groupnoise.bags.search.members import MAX_LOG_ODDS, BagProblem, MemberSettings
from groupnoise.bags.search.witness_rate import (
    MAX_SHARED,
    MAX_SHARED_BY_TWO,
    accurate_threshold,
    background_share,
    fit_shared_background,
    with_background,
    witness_evidence,
)
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray, stratified_folds

INSTANCE_EVIDENCE = 0.3
"""Weight of the evidence of instances beside that of positive and negative bags."""
SHARES = {0.0: 1.0, 0.1: 1.0, 0.25: 1.0, 0.5: 0.5, 0.75: 0.5, 0.95: 0.5}
"""Total weights of whole-bag members that are considered, and their prior credibility."""
MIN_SINGLE_LABEL_RATE = 0.7
"""Minimum fraction of bags with one label for a background that bags share."""


@dataclass
class HeldOutPredictions:
    """Out-of-sample predictions of a member.

    `log_odds` (n_bags, n_named): of the presence of each label, calibrated by `bag_scale` and
        `bag_shift`.
    `scores`: the criterion, one per bag.
    `answer`: quantifier of the log odds, None without one.
    `log_p` (n_rows, n_targets): log P(target | instance), free target last; None for whole-bag
        members.
    `member`: the member itself, if it was trained at the same time.
    `background`: log odds of a shared background, for members without a background target.
    `copies` (n_rows, n_copies, n_logits): logits of all instances, seen or not, by each copy.
    """

    log_odds: FloatArray
    bag_scale: float
    bag_shift: float
    scores: FloatArray
    answer: str | None = None
    log_p: Tensor | None = None
    member: FittedMember | None = None
    background: float | None = None
    copies: Tensor | None = None

    @property
    def calibrated_log_odds(self) -> FloatArray:
        """Calibrated log odds of the labels of bags."""
        return self.log_odds * self.bag_scale + self.bag_shift


@dataclass(frozen=True)
class HeldOutBags:
    """Held-out bags, and the criterion of members on them.

    `problem`: the bags and the labels they are asked for.
    `exclusive`: whether no bag has more than one label.
    `by_candidates`: whether instances are judged as those of several labels are, however many there
        are.
    `shares_background`: whether bags mostly have one label and instances of none are found in all.
    """

    problem: BagProblem
    exclusive: bool
    by_candidates: bool = False
    shares_background: bool = False

    @property
    def labels(self) -> BoolArray:
        """The labels of the bags, (n_bags, n_named)."""
        return self.problem.labels

    @property
    def bag_of_row(self) -> IntArray:
        """The bag of each instance."""
        return self.problem.segments.group.numpy()

    @property
    def uses_witness_rate(self) -> bool:
        """Whether bags are positive or negative, so that instances tell of a witness rate."""
        is_binary = self.problem.has_negative and self.problem.n_named == 1
        has_both = 0 < int(self.labels.sum()) < len(self.labels)
        return is_binary and has_both and not self.by_candidates

    def evaluate_member(
        self,
        logits: Tensor,
        log_odds: Mapping[str, Tensor],
        settings: MemberSettings,
        part: BoolArray | None = None,
    ) -> HeldOutPredictions:
        """Return what logits of instances and log odds of bags are worth.

        `log_odds`: by each quantifier that the member may answer by; the likeliest is taken.
        `settings`: of the member. `part`: bags that were held out, by default all; the others are
        left out of the scores.
        """
        part = np.ones(len(self.labels), dtype=bool) if part is None else part
        log_p = member_log_probabilities(logits, self.problem.is_binary(settings))
        answers = {
            answer: self.evaluate_bag_odds(
                each.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS).double().numpy(), part
            )
            for answer, each in log_odds.items()
        }
        answer = max(answers, key=lambda each: float(answers[each].scores[part].mean()))
        return self._with_instances(replace(answers[answer], answer=answer), log_p, part)

    def reevaluate(self, found: HeldOutPredictions, part: BoolArray) -> HeldOutPredictions:
        """Return what answers are worth that were judged before it was known what bags share."""
        if found.log_p is None:
            return found
        of_bags = self.evaluate_bag_odds(found.log_odds, part)
        of_bags = replace(of_bags, answer=found.answer, member=found.member, copies=found.copies)
        return self._with_instances(of_bags, found.log_p, part)

    def _with_instances(
        self, found: HeldOutPredictions, log_p: Tensor, part: BoolArray
    ) -> HeldOutPredictions:
        """Return answers with what is said of instances, and its worth."""
        if self.uses_witness_rate:
            told = part[self.bag_of_row]
            own = replace(found, log_p=log_p[torch.from_numpy(told)])
            averaged, _ = averaged_instances([(own, 1.0)], self.problem)
            odds = (averaged[:, 0] - averaged[:, 1]).numpy()
            evidence = witness_evidence(odds, self.bag_of_row[told], self.labels[:, 0])
            scores = found.scores + INSTANCE_EVIDENCE * evidence
            return replace(found, scores=scores[part], log_p=log_p)
        level = None
        if self.shares_background and log_p.shape[1] == self.labels.shape[1]:
            level = self._level_of_background(log_p, part)
            log_p = with_background(log_p, level)
        scores = found.scores + self.instance_scores(log_p, part)
        return replace(found, scores=scores[part], log_p=log_p, background=level)

    def evaluate_bag_odds(
        self, log_odds: FloatArray, part: BoolArray | None = None
    ) -> HeldOutPredictions:
        """Return what log odds of bags are worth, calibrated on a part of them."""
        kind = (self.exclusive, self.problem.has_negative)
        told = slice(None) if part is None else part
        scale, shift = calibrate_bags(log_odds[told], self.labels[told], *kind)
        scores = label_log_likelihood(log_odds * scale + shift, self.labels, *kind)
        return HeldOutPredictions(log_odds, scale, shift, scores)

    def evaluate_average(self, taken: Sequence[tuple[HeldOutPredictions, float]]) -> FloatArray:
        """Return the criterion of members that answer together, one score per bag.

        `taken`: what each says of these bags, and its weight; those that see bags as a whole last.
        """
        own = [each for each in taken if each[0].log_p is not None]
        averaged, units = averaged_instances(own, self.problem)
        scores = self.evaluate_bag_odds(pooled_log_odds(taken)).scores
        if self.uses_witness_rate:
            odds = (averaged[:, 0] - averaged[:, 1]).numpy()
            evidence = witness_evidence(odds, self.bag_of_row, self.labels[:, 0])
            return scores + INSTANCE_EVIDENCE * evidence
        weights = [weight for _, weight in own]
        usual = float(np.average([spread for spread, _ in units], weights=weights))
        everything = np.ones(len(self.labels), dtype=bool)
        return scores + self.instance_scores((usual * averaged).log_softmax(-1), everything)

    def instance_scores(self, log_p: Tensor, part: BoolArray) -> FloatArray:
        """Return how likely the instances of each bag have one of its labels, on average.

        Most instances may be background, so that the chances are calibrated first: a model is
        not blamed for what no model can know.
        """
        group = self.bag_of_row
        if self.shares_background:
            values = centred_log_probabilities(log_p).numpy()
            fitted = fit_shared_background(values, self.labels, group, part[group]).log_likelihood
        else:
            fitted = self._tempered(log_p, part)
        total = np.bincount(group, fitted, minlength=len(self.labels))
        return total / self.problem.segments.sizes.numpy()

    def _tempered(self, log_p: Tensor, part: BoolArray) -> FloatArray:
        """Return the log chance of the labels of its bag for each instance."""
        group = self.bag_of_row
        if self.problem.has_negative:
            values = log_p
            allowed = np.hstack([self.labels, ~self.labels.any(axis=1, keepdims=True)])
        else:
            values, allowed = log_p[:, : self.labels.shape[1]], self.labels
        chance = (allowed.mean(axis=0) / allowed.mean(axis=0).sum())[None]
        return _tempered_candidates(values.double().numpy(), allowed[group], chance, part[group])

    def _level_of_background(self, log_p: Tensor, part: BoolArray) -> float:
        """Return log odds of background against the mean of the classes."""
        values = centred_log_probabilities(log_p).numpy()
        values = np.hstack([values, np.zeros((len(values), 1))])
        group = self.bag_of_row
        found = fit_shared_background(values, self.labels, group, part[group])
        return found.shift / found.scale

    def may_share_background(self) -> bool:
        """Tell whether bags mostly have one of several labels, so that they may share the rest."""
        is_plain = not self.problem.has_negative and not self.by_candidates
        is_single = (
            self.exclusive or float((self.labels.sum(axis=1) == 1).mean()) >= MIN_SINGLE_LABEL_RATE
        )
        return is_single and is_plain and self.labels.shape[1] > 1

    def finds_background(self, found: Sequence[HeldOutPredictions], part: BoolArray) -> bool:
        """Tell whether many held-out instances are alike in bags of all labels.

        `found`: what members without background say; the one that tells most of labels is heard.
        """
        group = self.bag_of_row
        shares = []
        for each in found:
            assert each.log_p is not None
            values = each.log_p.double().numpy()
            shares.append(background_share(values, self.labels, group, part[group]))
        return max(shares)[1] > (MAX_SHARED if self.labels.shape[1] > 2 else MAX_SHARED_BY_TWO)

    def whole_bag_weight(self, of_members: FloatArray, of_whole: FloatArray) -> float:
        """Return how much members that see bags as a whole count beside the others.

        A few weights are averaged by the evidence of held-out bags for each: the likeliest one
        alone would follow chance where bags are few.

        `of_members`, `of_whole` (n_bags, n_named): calibrated log odds by the average of each kind.
        """
        found = [
            float(
                self.evaluate_bag_odds((1.0 - share) * of_members + share * of_whole).scores.sum()
            )
            for share in SHARES
        ]
        return credible_share(SHARES, found)


def draw_folds(
    labels: BoolArray,
    n_folds: int,
    generator: np.random.Generator,
    patients: NDArray[Any] | None = None,
) -> IntArray:
    """Return the fold of each bag; bags of equal labels are spread evenly.

    The number of the fold. `labels`: of shape (n_bags, n_named). `patients`: whom each bag comes
    from; patients are then spread by their first bag.
    """
    kinds = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    return stratified_folds(kinds, n_folds, generator, patients)


def combine_members(
    members: Sequence[FittedMember],
    statistics: Sequence[FittedStatistics],
    labels: BoolArray,
    negative: int | None,
) -> BagEnsemble:
    """Return an uncalibrated ensemble of members, for training bags with these labels."""
    exclusive = bool((labels.sum(axis=1) <= 1).all())
    has_negative = negative is not None or not labels.any(axis=1).all()
    return BagEnsemble(
        members, statistics, labels.shape[1], negative, exclusive, has_negative, scale=1.0,
        shift=0.0, bag_scale=1.0, bag_shift=0.0, doubt=doubt_after(len(labels)),
    )  # fmt: skip


def calibrate_ensemble(
    ensemble: BagEnsemble, found: Sequence[HeldOutPredictions], bags: HeldOutBags
) -> BagEnsemble:
    """Calibrate members to one scale, and their average to probabilities.

    `ensemble`: of :func:`combine_members`. `found`: held-out predictions of its members, then of
    its whole-bag members. `bags`: held-out bags.
    """
    members = []
    averaged, units = averaged_instances(
        [(said, member.weight) for member, said in zip(ensemble.members, found, strict=False)],
        bags.problem,
    )
    for member, said, (spread, centre) in zip(ensemble.members, found, units, strict=False):
        shift = said.bag_shift + said.bag_scale * member.bag_shift
        members.append(
            replace(
                member,
                spread=spread,
                centre=centre,
                bag_scale=said.bag_scale,
                bag_shift=shift,
                background=said.background,
            )
        )
    statistics = [
        replace(whole, bag_scale=said.bag_scale, bag_shift=said.bag_shift)
        for whole, said in zip(ensemble.statistics, found[len(members) :], strict=True)
    ]
    weights = [*(each.weight for each in members), *(each.weight for each in statistics)]
    pooled = pooled_log_odds(list(zip(found, weights, strict=True)))
    free = averaged.shape[1] > ensemble.n_named
    of_instances = calibrate_instances(
        averaged, bags.problem, free, shares_background=bags.shares_background
    )
    of_bags = bags.evaluate_bag_odds(pooled)
    kind = (bags.exclusive, bags.problem.has_negative)
    # Squared: on sets whose bags are half told, their word blurs the order of instances.
    told = bag_probability.explained_deviance(of_bags.scores, bags.labels, *kind) ** 2
    ensemble = replace(
        ensemble,
        members=members,
        statistics=statistics,
        scale=of_instances.scale,
        shift=of_instances.shift,
        bag_scale=of_bags.bag_scale,
        bag_shift=of_bags.bag_shift,
        bag_share=MAX_BAG_SHARE * told,
        doubt=doubt_after(len(bags.labels)),
    )
    if of_instances.chances is None or ensemble.negative is None:
        return ensemble
    log_p = ensemble.averaged(said.log_p for said in found if said.log_p is not None)
    within = ensemble.within_bags(
        log_p, of_bags.calibrated_log_odds, bags.problem.segments.sizes.numpy()
    )
    positive = within[:, 1 - ensemble.negative].exp().numpy()
    return replace(ensemble, threshold=accurate_threshold(positive, of_instances.chances))


def averaged_instances(
    taken: Sequence[tuple[HeldOutPredictions, float]], problem: BagProblem
) -> tuple[Tensor, list[tuple[float, float | None]]]:
    """Return averaged log odds of instances, and the spread and the centre of each member.

    `taken`: what members that answer of instances say, and their weights. `problem`: their bags.
    """
    total, averaged, units = sum(weight for _, weight in taken), torch.zeros(()), []
    is_binary = problem.has_negative and problem.n_named == 1
    for said, weight in taken:
        assert said.log_p is not None
        centred = centred_log_probabilities(said.log_p)
        # About the mean of each target: what all instances share says nothing of their order.
        spread = max(float((centred - centred.mean(0)).std()), 1e-6)
        centre = float(centred[:, 0].mean()) if is_binary else None
        units.append((spread, centre))
        averaged = averaged + weight / total * in_units_of_spread(said.log_p, spread, centre)
    return averaged, units


def pooled_log_odds(taken: Sequence[tuple[HeldOutPredictions, float]]) -> FloatArray:
    """Return the weighted sum of calibrated log odds of bags, (n_bags, n_named)."""
    return np.sum([weight * each.calibrated_log_odds for each, weight in taken], axis=0)


def member_log_probabilities(logits: Tensor, binary: bool) -> Tensor:
    """Return log P(target | instance), free target last, from the logits of a member."""
    if binary:
        logits = torch.cat([logits, torch.zeros_like(logits)], dim=-1)
    return logits.log_softmax(-1)


def _tempered_candidates(
    log_p: FloatArray, allowed: BoolArray, chance: FloatArray, part: BoolArray
) -> FloatArray:
    """Return the log chance of the labels of its bag for each instance, at the best temperature.

    The answers are mixed with the frequencies of the labels as much as pays.
    """
    prior = np.log(np.clip(chance, 1e-12, None))
    best, most = np.zeros(len(log_p)), -np.inf
    centred = log_p - log_p[part].mean(axis=0)
    for temperature in (0.0, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0):
        values = temperature * centred + prior
        values = values - np.logaddexp.reduce(values, axis=1, keepdims=True)
        inside = np.logaddexp.reduce(np.where(allowed, values, -np.inf), axis=1)
        inside = np.maximum(inside, -10.0)
        if inside[part].mean() > most:
            best, most = inside, inside[part].mean()
    return best
