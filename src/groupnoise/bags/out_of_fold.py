"""What members say of bags they have not seen, and how likely that makes the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupnoise.bags.ensemble import FittedMember, calibrate_bags, label_log_likelihood
from groupnoise.bags.members import BagProblem, MemberBatch, MemberSettings, bag_presence
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.quantifier import Segments
from groupnoise.core.scaling import Scaler
from groupnoise.core.streamed_groups import StreamedGroups, scaled_groups
from groupnoise.decisions.portfolio import Option

N_FOLDS = 5
MAX_SEARCH_ROWS = 12_000
"""Instances that settings are compared on; of longer data as many bags are drawn."""
MAX_SEARCH_LOGITS = 120_000
"""Instances times targets that settings are compared on."""


@dataclass
class OutOfFold:
    """What models that have not seen a bag say of it.

    Parameters
    ----------
    log_p : Tensor of shape (n_rows, n_targets)
        log P(target | instance), free target last.
    log_odds : ndarray of shape (n_bags, n_named)
        Of the presence of each label, by the likelihood of the member.
    bag_scale, bag_shift : float
        What calibrates them.
    scores : ndarray of shape (n_bags,)
        The criterion, one per bag.
    """

    log_p: Tensor
    log_odds: FloatArray
    bag_scale: float
    bag_shift: float
    scores: FloatArray


class BagSearch:
    """Trials on one set of bags: folds, seeds and scaled rows are the same for all of them.

    Parameters
    ----------
    bags : Groups
        Training bags.
    labels : bool ndarray of shape (n_bags, n_named)
        The labels that bags are asked for.
    has_negative : bool
        Whether another class is negative.
    generator : numpy.random.Generator
        Decides the bags looked at, the folds and the initial weights.
    patients : ndarray of shape (n_bags,), optional
        Whom each bag comes from: bags of one patient are in one fold.
    """

    def __init__(
        self,
        bags: Groups,
        labels: BoolArray,
        has_negative: bool,
        generator: np.random.Generator,
        patients: NDArray[Any] | None = None,
    ) -> None:
        self.all_bags, self.all_labels, self.has_negative = bags, labels, has_negative
        n_targets = labels.shape[1] + 1
        n_rows = min(MAX_SEARCH_ROWS, max(2_000, MAX_SEARCH_LOGITS // n_targets))
        order = generator.permutation(len(bags))
        taken = np.sort(order[: max(1, int((np.cumsum(bags.sizes[order]) <= n_rows).sum()))])
        self.seed = int(generator.integers(2**31))
        self.bags = bags if len(taken) == len(bags) else bags.subset(taken)
        self.labels = labels[taken]
        self.problem = problem_of(self.bags, self.labels, has_negative)
        self.n_folds = max(2, min(N_FOLDS, len(taken) // 2))
        of_taken = None if patients is None else np.unique(patients[taken], return_inverse=True)[1]
        if of_taken is not None and of_taken.max() > 0:
            self.n_folds = max(2, min(self.n_folds, int(of_taken.max()) + 1))
        else:
            of_taken = None  # one patient cannot be held out of itself
        self.folds = draw_folds(self.labels, self.n_folds, generator, of_taken)
        self.exclusive = bool((labels.sum(axis=1) <= 1).all())
        self._rows: dict[str, Tensor] = {}
        self._found: dict[tuple[str, int], OutOfFold] = {}

    def rows(self, scaling: str) -> Tensor:
        """Return the instances under a scaling."""
        if scaling not in self._rows:
            scaled = Scaler(scaling).fit(self.bags.objects)(self.bags.objects)
            self._rows[scaling] = torch.from_numpy(scaled)
        return self._rows[scaling]

    def out_of_fold(
        self, option: Option, n_folds: int, siblings: Sequence[Option] = ()
    ) -> OutOfFold:
        """Return what an option says of bags it has not seen.

        Parameters
        ----------
        option : Option
            What to try.
        n_folds : int
            How many of the folds are held out, one after the other.
        siblings : sequence of Option, default=()
            Options of the same family, which are trained at the same time.

        Returns
        -------
        OutOfFold
            Bags of folds that were not held out are left at zero.
        """
        if (option.name, n_folds) not in self._found:
            together = [option, *(each for each in siblings if each.name != option.name)]
            for each, found in zip(together, self._train(together, n_folds), strict=True):
                self._found[each.name, n_folds] = found
        return self._found[option.name, n_folds]

    def _train(self, options: Sequence[Option], n_folds: int) -> list[OutOfFold]:
        settings = MemberSettings(**options[0].parameters)
        kept = torch.from_numpy(self.folds[:, None] != np.arange(n_folds)).float()
        kept = kept / kept.sum(0).clamp(min=1.0)
        rows = self.rows(settings.scaling)
        decays = [each.parameters["weight_decay"] for each in options for _ in range(n_folds)]
        batch = MemberBatch(
            rows,
            self.problem,
            kept.repeat(1, len(options)),
            decays,
            settings,
            torch.Generator().manual_seed(self.seed),
        ).train()
        held = torch.from_numpy(self.folds).clamp(max=n_folds - 1)
        with torch.no_grad():
            logits = batch.logits(rows)
            results = []
            for number in range(len(options)):
                column = (held + number * n_folds)[self.problem.segments.group]
                index = column.view(-1, 1, 1).expand(-1, 1, logits.shape[-1])
                results.append(self._judged(logits.gather(1, index).squeeze(1), settings, n_folds))
        return results

    def _judged(self, logits: Tensor, settings: MemberSettings, n_folds: int) -> OutOfFold:
        found = bag_presence(logits.unsqueeze(1), self.problem, settings)
        log_odds = found.log_odds.squeeze(1).clamp(-30.0, 30.0).double().numpy()
        log_p = member_log_probabilities(logits, self.problem.is_binary(settings))
        part = self.folds < n_folds
        scale, shift = calibrate_bags(
            log_odds[part], self.labels[part], self.exclusive, self.has_negative
        )
        scores = label_log_likelihood(
            log_odds * scale + shift, self.labels, self.exclusive, self.has_negative
        )
        scores = scores + self.instance_scores(log_p, part)
        return OutOfFold(log_p, log_odds, scale, shift, scores[part])

    def instance_scores(self, log_p: Tensor, part: BoolArray) -> FloatArray:
        """Return how likely the instances of each bag have one of its labels, on average.

        Most instances may be background, so that the chances are calibrated first: a model is
        not blamed for what no model can know.
        """
        segments = self.problem.segments
        group = segments.group.numpy()
        candidates = np.hstack([self.labels, ~self.labels.any(axis=1, keepdims=True)])
        named = log_p[:, : self.labels.shape[1]]
        if self.has_negative:
            values, allowed = log_p, candidates
        else:
            values, allowed = named, self.labels
        chance = (allowed.mean(axis=0) / allowed.mean(axis=0).sum())[None]
        fitted = _tempered_candidates(values.double().numpy(), allowed[group], chance, part[group])
        total = np.bincount(group, fitted, minlength=len(self.labels))
        result: FloatArray = total / segments.sizes.numpy()
        return result

    def fit_member(self, parameters: Mapping[str, Any], weight: float) -> FittedMember:
        """Return a member trained on all bags."""
        settings = MemberSettings(**parameters)
        return fit_member(
            settings, weight, self.all_bags, self.all_labels, self.has_negative, self.seed
        )


def fit_member(
    settings: MemberSettings,
    weight: float,
    bags: Groups,
    labels: BoolArray,
    has_negative: bool,
    seed: int,
) -> FittedMember:
    """Return a member trained on bags in memory, or on streamed ones from disk.

    Parameters
    ----------
    settings : MemberSettings
        What it is.
    weight : float
        How much it counts.
    bags : Groups
        Training bags.
    labels : bool ndarray of shape (n_bags, n_named)
        The labels that bags are asked for.
    has_negative : bool
        Whether another class is negative.
    seed : int
        Decides the initial weights and the bags of each step.
    """
    scaler, scaled = scaled_groups(settings.scaling, bags)
    rows = scaled if isinstance(scaled, StreamedGroups) else torch.from_numpy(scaled.objects)
    weights = torch.full((len(bags), 1), 1.0 / len(bags))
    generator = torch.Generator().manual_seed(seed)
    problem = problem_of(bags, labels, has_negative)
    batch = MemberBatch(rows, problem, weights, [settings.weight_decay], settings, generator)
    return FittedMember(settings, weight, scaler, batch.train().model(0))


def problem_of(bags: Groups, labels: BoolArray, has_negative: bool) -> BagProblem:
    """Return bags as members see them."""
    return BagProblem(Segments(torch.from_numpy(np.asarray(bags.sizes))), labels, has_negative)


def member_log_probabilities(logits: Tensor, binary: bool) -> Tensor:
    """Return log P(target | instance), free target last, from the logits of a member."""
    if binary:
        logits = torch.cat([logits, torch.zeros_like(logits)], dim=-1)
    return logits.log_softmax(-1)


def draw_folds(
    labels: BoolArray,
    n_folds: int,
    generator: np.random.Generator,
    patients: IntArray | None = None,
) -> IntArray:
    """Return the fold of each bag; bags of equal labels are spread evenly.

    Parameters
    ----------
    labels : bool ndarray of shape (n_bags, n_named)
        The labels of each bag.
    n_folds : int
        How many folds.
    generator : numpy.random.Generator
        Decides the folds.
    patients : int64 ndarray of shape (n_bags,), optional
        The number of the patient of each bag; patients are then spread by their first bag.

    Returns
    -------
    int64 ndarray of shape (n_bags,)
        The number of the fold.
    """
    if patients is not None:
        _, first, codes = np.unique(patients, return_index=True, return_inverse=True)
        of_patient: IntArray = draw_folds(labels[first], n_folds, generator)
        return of_patient[codes]
    _, kind = np.unique(labels, axis=0, return_inverse=True)
    order = generator.permutation(len(labels))
    order = order[np.argsort(kind.ravel()[order], kind="stable")]
    folds: IntArray = np.empty(len(labels), dtype=np.int64)
    folds[order] = np.arange(len(labels)) % n_folds
    return folds


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
