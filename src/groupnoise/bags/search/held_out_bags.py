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
    `by_candidates`: whether instances are scored by their bag's labels as candidates even in
        positive and negative bags, where the witness rate is the rule.
    `shares_background`: whether bags mostly have one label, and all have instances of none.
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
        """Whether bags are positive or negative, so that instances are scored by a witness rate."""
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
        """Score a member by its logits of instances and its log odds of bags.

        `log_odds`: by quantifier; the one of highest likelihood is taken. `settings`: of the
        member. `part`: bags that were held out, by default all; the others get no score.
        """
        part = np.ones(len(self.labels), dtype=bool) if part is None else part
        log_p = member_log_probabilities(logits, self.problem.is_binary(settings))
        by_quantifier = {
            quantifier: self.evaluate_bag_odds(
                each.clamp(-MAX_LOG_ODDS, MAX_LOG_ODDS).double().numpy(), part
            )
            for quantifier, each in log_odds.items()
        }
        best = max(by_quantifier, key=lambda each: float(by_quantifier[each].scores[part].mean()))
        return self._with_instances(replace(by_quantifier[best], answer=best), log_p, part)

    def reevaluate(self, predictions: HeldOutPredictions, part: BoolArray) -> HeldOutPredictions:
        """Score predictions again that were scored before a shared background was detected."""
        if predictions.log_p is None:
            return predictions
        kept = {name: getattr(predictions, name) for name in ("answer", "member", "copies")}
        of_bags = replace(self.evaluate_bag_odds(predictions.log_odds, part), **kept)
        return self._with_instances(of_bags, predictions.log_p, part)

    def _with_instances(
        self, of_bags: HeldOutPredictions, log_p: Tensor, part: BoolArray
    ) -> HeldOutPredictions:
        """Return predictions of bags with those of instances, scored by both."""
        if self.uses_witness_rate:
            rows = part[self.bag_of_row]
            held = replace(of_bags, log_p=log_p[torch.from_numpy(rows)])
            averaged, _ = averaged_instances([(held, 1.0)], self.problem)
            odds = (averaged[:, 0] - averaged[:, 1]).numpy()
            evidence = witness_evidence(odds, self.bag_of_row[rows], self.labels[:, 0])
            scores = of_bags.scores + INSTANCE_EVIDENCE * evidence
            return replace(of_bags, scores=scores[part], log_p=log_p)
        background = None
        if self.shares_background and log_p.shape[1] == self.labels.shape[1]:
            background = self._background_log_odds(log_p, part)
            log_p = with_background(log_p, background)
        scores = of_bags.scores + self.instance_scores(log_p, part)
        return replace(of_bags, scores=scores[part], log_p=log_p, background=background)

    def evaluate_bag_odds(
        self, log_odds: FloatArray, part: BoolArray | None = None
    ) -> HeldOutPredictions:
        """Score log odds of bags, calibrated on a part of them, by the likelihood of labels."""
        kind = (self.exclusive, self.problem.has_negative)
        held = slice(None) if part is None else part
        scale, shift = calibrate_bags(log_odds[held], self.labels[held], *kind)
        scores = label_log_likelihood(log_odds * scale + shift, self.labels, *kind)
        return HeldOutPredictions(log_odds, scale, shift, scores)

    def evaluate_average(self, taken: Sequence[tuple[HeldOutPredictions, float]]) -> FloatArray:
        """Return the criterion of an average of members, one score per bag.

        `taken`: predictions and weight of each member, whole-bag members last.
        """
        of_instances = [each for each in taken if each[0].log_p is not None]
        averaged, units = averaged_instances(of_instances, self.problem)
        scores = self.evaluate_bag_odds(pooled_log_odds(taken)).scores
        if self.uses_witness_rate:
            odds = (averaged[:, 0] - averaged[:, 1]).numpy()
            evidence = witness_evidence(odds, self.bag_of_row, self.labels[:, 0])
            return scores + INSTANCE_EVIDENCE * evidence
        weights = [weight for _, weight in of_instances]
        mean_spread = float(np.average([spread for spread, _ in units], weights=weights))
        everything = np.ones(len(self.labels), dtype=bool)
        return scores + self.instance_scores((mean_spread * averaged).log_softmax(-1), everything)

    def instance_scores(self, log_p: Tensor, part: BoolArray) -> FloatArray:
        """Return the mean log-likelihood of the bag's labels over the instances of each bag.

        Probabilities are calibrated first: most instances may be background, which no model can
        assign to a label.
        """
        group = self.bag_of_row
        if self.shares_background:
            values = centred_log_probabilities(log_p).numpy()
            shared = fit_shared_background(values, self.labels, group, part[group])
            log_likelihood = shared.log_likelihood
        else:
            log_likelihood = self._tempered(log_p, part)
        total = np.bincount(group, log_likelihood, minlength=len(self.labels))
        return total / self.problem.segments.sizes.numpy()

    def _tempered(self, log_p: Tensor, part: BoolArray) -> FloatArray:
        """Return the log probability of the bag's labels for each instance."""
        group = self.bag_of_row
        if self.problem.has_negative:
            values = log_p
            allowed = np.hstack([self.labels, ~self.labels.any(axis=1, keepdims=True)])
        else:
            values, allowed = log_p[:, : self.labels.shape[1]], self.labels
        frequency = (allowed.mean(axis=0) / allowed.mean(axis=0).sum())[None]
        return _tempered_candidates(values.double().numpy(), allowed[group], frequency, part[group])

    def _background_log_odds(self, log_p: Tensor, part: BoolArray) -> float:
        """Return the log odds of background against the geometric mean of the classes."""
        values = centred_log_probabilities(log_p).numpy()
        values = np.hstack([values, np.zeros((len(values), 1))])
        group = self.bag_of_row
        shared = fit_shared_background(values, self.labels, group, part[group])
        return shared.shift / shared.scale

    def may_share_background(self) -> bool:
        """Tell whether bags mostly have one of several labels and may share background."""
        is_plain = not self.problem.has_negative and not self.by_candidates
        is_single = (
            self.exclusive or float((self.labels.sum(axis=1) == 1).mean()) >= MIN_SINGLE_LABEL_RATE
        )
        return is_single and is_plain and self.labels.shape[1] > 1

    def finds_background(self, predictions: Sequence[HeldOutPredictions], part: BoolArray) -> bool:
        """Tell whether many held-out instances are alike in bags of all labels.

        `predictions`: of members without background; the one of highest likelihood decides.
        """
        group = self.bag_of_row
        shares = [
            background_share(each.log_p.double().numpy(), self.labels, group, part[group])
            for each in predictions
            if each.log_p is not None
        ]
        return max(shares)[1] > (MAX_SHARED if self.labels.shape[1] > 2 else MAX_SHARED_BY_TWO)

    def whole_bag_weight(self, of_members: FloatArray, of_whole: FloatArray) -> float:
        """Return the share of whole-bag members in the total weight.

        It is averaged over `SHARES` by the evidence of held-out bags for each: with few bags, the
        best one alone would be a matter of luck.

        `of_members`, `of_whole` (n_bags, n_named): calibrated log odds by the average of each kind.
        """
        evidence = [
            float(
                self.evaluate_bag_odds((1.0 - share) * of_members + share * of_whole).scores.sum()
            )
            for share in SHARES
        ]
        return credible_share(SHARES, evidence)


def draw_folds(
    labels: BoolArray,
    n_folds: int,
    generator: np.random.Generator,
    patients: NDArray[Any] | None = None,
) -> IntArray:
    """Return the fold of each bag, stratified by labels.

    `labels`: of shape (n_bags, n_named). `patients`: the patient of each bag; patients are then
    stratified by their first bag.
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
    ensemble: BagEnsemble, predictions: Sequence[HeldOutPredictions], bags: HeldOutBags
) -> BagEnsemble:
    """Calibrate members to one scale, and their average to probabilities.

    `ensemble`: of :func:`combine_members`. `predictions`: of its members, then of its whole-bag
    members. `bags`: held-out bags.
    """
    members = []
    of_members = predictions[: len(ensemble.members)]
    averaged, units = averaged_instances(
        [(each, member.weight) for member, each in zip(ensemble.members, of_members, strict=True)],
        bags.problem,
    )
    for member, each, (spread, centre) in zip(ensemble.members, of_members, units, strict=True):
        shift = each.bag_shift + each.bag_scale * member.bag_shift
        members.append(
            replace(
                member,
                spread=spread,
                centre=centre,
                bag_scale=each.bag_scale,
                bag_shift=shift,
                background=each.background,
            )
        )
    statistics = [
        replace(whole, bag_scale=each.bag_scale, bag_shift=each.bag_shift)
        for whole, each in zip(ensemble.statistics, predictions[len(members) :], strict=True)
    ]
    weights = [*(each.weight for each in members), *(each.weight for each in statistics)]
    pooled = pooled_log_odds(list(zip(predictions, weights, strict=True)))
    free = averaged.shape[1] > ensemble.n_named
    of_instances = calibrate_instances(
        averaged, bags.problem, free, shares_background=bags.shares_background
    )
    of_bags = bags.evaluate_bag_odds(pooled)
    kind = (bags.exclusive, bags.problem.has_negative)
    # Squared: where bags are only half predictable, more of them blurs the ranking of instances.
    explained = bag_probability.explained_deviance(of_bags.scores, bags.labels, *kind) ** 2
    ensemble = replace(
        ensemble,
        members=members,
        statistics=statistics,
        scale=of_instances.scale,
        shift=of_instances.shift,
        bag_scale=of_bags.bag_scale,
        bag_shift=of_bags.bag_shift,
        bag_share=MAX_BAG_SHARE * explained,
        doubt=doubt_after(len(bags.labels)),
    )
    if of_instances.chances is None or ensemble.negative is None:
        return ensemble
    log_p = ensemble.averaged(each.log_p for each in predictions if each.log_p is not None)
    within = ensemble.within_bags(
        log_p, of_bags.calibrated_log_odds, bags.problem.segments.sizes.numpy()
    )
    positive = within[:, 1 - ensemble.negative].exp().numpy()
    return replace(ensemble, threshold=accurate_threshold(positive, of_instances.chances))


def averaged_instances(
    taken: Sequence[tuple[HeldOutPredictions, float]], problem: BagProblem
) -> tuple[Tensor, list[tuple[float, float | None]]]:
    """Return averaged log odds of instances, and the spread and the centre of each member.

    `taken`: predictions with `log_p` and the weights of their members. `problem`: their bags.
    """
    total, averaged, units = sum(weight for _, weight in taken), torch.zeros(()), []
    is_binary = problem.has_negative and problem.n_named == 1
    for predictions, weight in taken:
        assert predictions.log_p is not None
        centred = centred_log_probabilities(predictions.log_p)
        # About the mean of each target: a shift of all instances does not affect their ranking.
        spread = max(float((centred - centred.mean(0)).std()), 1e-6)
        centre = float(centred[:, 0].mean()) if is_binary else None
        units.append((spread, centre))
        log_p = in_units_of_spread(predictions.log_p, spread, centre)
        averaged = averaged + weight / total * log_p
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
    log_p: FloatArray, allowed: BoolArray, frequency: FloatArray, part: BoolArray
) -> FloatArray:
    """Return the log probability of allowed labels for each instance, at the best scale.

    Scaled log probabilities are added to the logarithms of the label frequencies.
    """
    prior = np.log(np.clip(frequency, 1e-12, None))
    best, highest = np.zeros(len(log_p)), -np.inf
    centred = log_p - log_p[part].mean(axis=0)
    for scale in (0.0, 0.03, 0.1, 0.25, 0.5, 1.0, 2.0):
        values = scale * centred + prior
        values = values - np.logaddexp.reduce(values, axis=1, keepdims=True)
        inside = np.logaddexp.reduce(np.where(allowed, values, -np.inf), axis=1)
        inside = np.maximum(inside, -10.0)
        if inside[part].mean() > highest:
            best, highest = inside, inside[part].mean()
    return best
