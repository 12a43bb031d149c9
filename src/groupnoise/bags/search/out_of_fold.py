"""Trials of members on folds of one set of bags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from groupnoise.bags.search.ensemble import BagEnsemble
from groupnoise.bags.search.fitted_members import (
    FittedMember,
    FittedStatistics,
    average_copies,
    make_batch,
)
from groupnoise.bags.search.forests_and_kernels import MAX_SUPPORT, StatisticsKernel
from groupnoise.bags.search.full_training import HELD_OUT, train_on_all
from groupnoise.bags.search.held_out_bags import HeldOutBags, HeldOutPredictions, draw_folds
from groupnoise.bags.search.members import (
    PSEUDO_LABELS,
    STATISTICS,
    MemberSettings,
    bag_presence,
    bag_quantifiers,
    make_problem,
)
from groupnoise.bags.search.students import held_out_student, train_student
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.scaling import Scaler
from groupnoise.decisions.portfolio import Option

N_FOLDS = 5
MAX_SEARCH_ROWS = 12_000
"""Instances that settings are compared on; of longer data as many bags are drawn."""
MAX_SEARCH_LOGITS = 120_000
"""Instances times targets that settings are compared on."""


class BagSearch:
    """Cross-validation with the same folds, seeds and scaled rows for all members.

    `bags`: training bags.
    `labels` (n_bags, n_named): the labels that bags are asked for.
    `has_negative`: whether another class is negative.
    `generator`: decides the bags looked at, the folds and the initial weights.
    `patients`: the patient of each bag; bags of one patient are in one fold.
    `by_candidates`: see `HeldOutBags`.
    """

    def __init__(
        self,
        bags: Groups,
        labels: BoolArray,
        has_negative: bool,
        generator: np.random.Generator,
        patients: NDArray[Any] | None = None,
        *,
        by_candidates: bool = False,
    ) -> None:
        self.all_bags, self.all_labels, self.has_negative = bags, labels, has_negative
        self.patients = patients
        order = generator.permutation(len(bags))
        fits = np.cumsum(bags.sizes[order]) <= search_rows(labels)
        taken = np.sort(order[: max(1, int(fits.sum()))])
        self.taken = taken
        self.seed = int(generator.integers(2**31))
        self.bags = bags if len(taken) == len(bags) else bags.subset(taken)
        self.labels = labels[taken]
        self.problem = make_problem(self.bags, self.labels, has_negative)
        self.n_folds = max(2, min(N_FOLDS, len(taken) // 2))
        of_taken = None if patients is None else patients[taken]
        if of_taken is not None and (n_patients := len(np.unique(of_taken))) > 1:
            self.n_folds = min(self.n_folds, n_patients)
        self.folds = draw_folds(self.labels, self.n_folds, generator, of_taken)
        self.exclusive = bool((labels.sum(axis=1) <= 1).all())
        self.held_out = HeldOutBags(self.problem, self.exclusive, by_candidates)
        self._training_bags: tuple[Groups, BoolArray] | None = None
        self._rows: dict[str, tuple[Scaler, Tensor]] = {}
        self._kernels: dict[tuple[str, float, bool], StatisticsKernel] = {}
        self._found: dict[tuple[str, int], HeldOutPredictions] = {}

    @property
    def covers_all(self) -> bool:
        """Whether settings are compared on all bags."""
        return self.bags is self.all_bags

    @property
    def is_sample(self) -> bool:
        """Whether a part of all bags to hold out is larger than what settings are compared on."""
        return HELD_OUT * len(self.bags) < len(self.all_bags) and self._training_bags is None

    def scaled(self, scaling: str) -> tuple[Scaler, Tensor]:
        """Return a scaling, and the instances under it."""
        if scaling not in self._rows:
            scaler = Scaler(scaling).fit(self.bags.objects)
            self._rows[scaling] = scaler, torch.from_numpy(scaler(self.bags.objects))
        return self._rows[scaling]

    def out_of_fold(
        self, option: Option, n_folds: int, siblings: Sequence[Option] = ()
    ) -> HeldOutPredictions:
        """Return out-of-fold predictions of an option.

        Bags of folds that were not held out are left at zero. `n_folds`: how many of the folds are
        held out in turn. `siblings`: options that are trained in the same batch where possible.
        """
        if (option.name, n_folds) not in self._found:
            if option.parameters["likelihood"] == STATISTICS:
                self._found[option.name, n_folds] = self._whole_bags(option)
                return self._found[option.name, n_folds]
            batch = MemberSettings(**option.parameters).batch
            together = {option.name: option}
            for each in siblings:
                if MemberSettings(**each.parameters).batch == batch:
                    together[each.name] = each
            # Adjacent members of one likelihood are computed together.
            ordered = sorted(together.values(), key=lambda each: each.parameters["likelihood"])
            for each, found in zip(ordered, self._train(ordered, n_folds), strict=True):
                self._found[each.name, n_folds] = found
        return self._found[option.name, n_folds]

    def detect_background(self, options: Sequence[Option], n_folds: int) -> bool:
        """Detect, by members without background, whether bags of all labels share a background.

        From then on it is taken into account.

        `options`: the members, trained in one batch where possible; those with background and
        those without instance predictions are left out.
        """
        if self.held_out.shares_background or not self.held_out.may_share_background():
            return self.held_out.shares_background
        predictions = [
            self.out_of_fold(option, n_folds, options)
            for option in options
            if not option.parameters["background"]
            and option.parameters["likelihood"] not in (STATISTICS, PSEUDO_LABELS)
        ]
        held = self.folds < n_folds
        if not predictions or not self.held_out.finds_background(predictions, held):
            return False
        self.assume_background()
        return True

    def assume_background(self) -> None:
        """Score all members with a background that bags of all labels share."""
        if self.held_out.may_share_background():
            self.held_out = replace(self.held_out, shares_background=True)
            for (name, n_held), each in self._found.items():
                self._found[name, n_held] = self.held_out.reevaluate(each, self.folds < n_held)

    def _train(self, options: Sequence[Option], n_folds: int) -> list[HeldOutPredictions]:
        settings = [MemberSettings(**each.parameters) for each in options]
        if n_folds < self.n_folds:
            # A first look: the ranking after half of the steps mostly persists.
            settings = [replace(each, max_epochs=-(-each.max_epochs // 2)) for each in settings]
        kept = self.folds[:, None] != np.arange(n_folds)
        complete = n_folds == self.n_folds and self.covers_all
        if complete:  # one more copy sees all bags, and all copies are averaged
            kept = np.hstack([kept, np.ones((len(kept), 1), dtype=bool)])
        weights = torch.from_numpy(kept).float()
        scaler, rows = self.scaled(settings[0].scaling)
        weights = weights / weights.sum(0).clamp(min=1.0)
        batch = make_batch(rows, self.problem, weights, settings, self.seed).train()
        held = torch.from_numpy(self.folds).clamp(max=n_folds - 1)
        with torch.no_grad():
            assert isinstance(batch.rows, Tensor)
            logits = batch.logits(batch.rows)
            results = []
            for number, each in enumerate(settings):
                columns = batch.columns(number)
                arguments = (logits[:, columns], self.problem, each, batch.mixture[:, columns])
                of_bags = {
                    answer: _select_fold(bag_presence(*arguments, answer).log_odds, held)
                    for answer in bag_quantifiers(each)
                }
                predictions = self.held_out.evaluate_member(
                    _select_fold(logits[:, columns], held[self.problem.segments.group]),
                    of_bags,
                    each,
                    self.folds < n_folds,
                )
                if n_folds == self.n_folds:
                    predictions.copies = logits[:, columns]
                if complete:
                    predictions.member = average_copies(batch, number, scaler, predictions.answer)
                results.append(predictions)
        return results

    def out_of_fold_student(
        self, option: Option, teachers: Sequence[tuple[Option, float]]
    ) -> HeldOutPredictions | None:
        """Return predictions of a student for bags that neither it nor its teachers have seen.

        None where too few bags fit into its training set. `teachers`: members and their weights.
        """
        key = option.name, self.n_folds
        if key not in self._found:
            settings = MemberSettings(**option.parameters)
            options = [each for each, _ in teachers]
            predictions = [
                (self.out_of_fold(each, self.n_folds, options), weight) for each, weight in teachers
            ]
            rows = self.scaled(settings.scaling)[1]
            student = held_out_student(
                settings, predictions, self.held_out, rows, self.folds, self.seed
            )
            if student is None:
                return None
            self._found[key] = student
        return self._found[key]

    def fit_student(
        self, option: Option, teacher: BagEnsemble, answer: str | None
    ) -> FittedMember | None:
        """Return a student of members that were trained on all bags.

        None where too few bags fit into its training set. `teacher`: the members, their free target
        last. `answer`: quantifier by which the student predicts bags.
        """
        settings = MemberSettings(**option.parameters)
        bags, labels = self._training_bags or (self.all_bags, self.all_labels)
        scaler = self.scaled(settings.scaling)[0]
        return train_student(settings, teacher, scaler, bags, labels, self.seed, answer)

    def _whole_bags(self, option: Option) -> HeldOutPredictions:
        """Return out-of-fold predictions of a whole-bag member."""
        settings = MemberSettings(**option.parameters)
        kernel = self._kernel(settings, of_all=False)
        log_odds = kernel.held_out(self.labels, self.folds, settings.weight_decay)
        return self.held_out.evaluate_bag_odds(log_odds)

    def _kernel(self, settings: MemberSettings, of_all: bool) -> StatisticsKernel:
        key = (settings.scaling, settings.width, of_all)
        if key not in self._kernels:
            scaler, scaled = self.scaled(settings.scaling)
            rows = scaler(self.all_bags.objects) if of_all else scaled.numpy()
            offsets = np.asarray((self.all_bags if of_all else self.bags).offsets)
            self._kernels[key] = StatisticsKernel(rows, offsets, settings.width)
        return self._kernels[key]

    def fit_whole_bag_member(self, option: Option, weight: float) -> FittedStatistics:
        """Return a whole-bag member trained on all bags, or on the sample if there are too many."""
        settings = MemberSettings(**option.parameters)
        of_all = not self.covers_all and len(self.all_bags) <= MAX_SUPPORT
        labels = self.all_labels if of_all else self.labels
        model = self._kernel(settings, of_all).fit(labels, settings.weight_decay)
        return FittedStatistics(settings, weight, self.scaled(settings.scaling)[0], model)

    def predict_whole_bags(self, option: Option, held: IntArray) -> FloatArray:
        """Return the log odds of held-out bags by a whole-bag member trained on all others."""
        settings = MemberSettings(**option.parameters)
        folds = np.isin(np.arange(len(self.all_bags)), held) - 1
        kernel = self._kernel(settings, of_all=True)
        return kernel.held_out(self.all_labels, folds, settings.weight_decay)[held]

    def set_training_bags(self, bags: Groups, labels: BoolArray, negative: int | None) -> None:
        """Set the bags of the final training, where they are not those of the comparison.

        `bags`: all bags, and instances with known labels as bags of one. `labels`: of shape
        (n_bags, n_classes). `negative`: column of the negative label.
        """
        named = labels if negative is None else np.delete(labels, negative, axis=1)
        self._training_bags = bags, named

    def fit_members(self, options: Sequence[Option]) -> list[FittedMember]:
        """Return members trained on all bags; those that already were are not trained again."""
        fitted: dict[str, FittedMember] = {}
        for option in options:
            trial = self._found.get((option.name, self.n_folds))
            if trial is not None and trial.member is not None and self._training_bags is None:
                fitted[option.name] = trial.member
        waiting = [option for option in options if option.name not in fitted]
        bags, labels = self._training_bags or (self.all_bags, self.all_labels)
        settings = [self.settings_for_all(option) for option in waiting]
        trials = [self._found.get((option.name, self.n_folds)) for option in waiting]
        # Held-out bags calibrate the quantifier that they chose, and no other.
        answers = [None if trial is None else trial.answer for trial in trials]
        trained = train_on_all(
            *(settings, bags, labels, self.has_negative, self.seed), answers=answers
        ).members
        fitted.update({each.name: one for each, one in zip(waiting, trained, strict=True)})
        return [fitted[option.name] for option in options]

    def settings_for_all(self, option: Option) -> MemberSettings:
        """Return the settings of an option for a training on all bags."""
        settings = MemberSettings(**option.parameters)
        return settings.with_scaled_decay(len(self.bags), len(self.all_bags))


def search_rows(labels: BoolArray) -> int:
    """Return how many instances settings are compared on."""
    n_targets = int(labels.shape[1]) + 1
    return min(MAX_SEARCH_ROWS, max(2_000, MAX_SEARCH_LOGITS // n_targets))


def _select_fold(values: Tensor, fold: Tensor) -> Tensor:
    """Return the values by the model that has not seen a row, (n_rows, n_values)."""
    index = fold.view(-1, 1, 1).expand(-1, 1, values.shape[-1])
    return values.gather(1, index).squeeze(1)
