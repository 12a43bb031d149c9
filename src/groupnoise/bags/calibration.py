"""Calibrated instance probabilities and sets of labels, by bags that were held out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from groupnoise.bags.prediction import BagPredictions
from groupnoise.bags.reading.inputs import has_all_witnesses, read_instance_labels
from groupnoise.bags.search.bag_probability import calibrate_bag_odds, calibrate_instance_odds
from groupnoise.bags.search.ensemble import BagEnsemble
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.groups import Groups
from groupnoise.core.selective import SetCalibration, belief_in_candidates, check_calibrated
from groupnoise.core.streamed_groups import apply_in_blocks
from groupnoise.core.words import inherit_docstring
from groupnoise.training.calibration import (
    CalibratedSets,
    Calibration,
    fit_set_calibration,
    has_enough_known_labels,
    known_label_columns,
    select_queries,
)
from groupnoise.training.temperature import (
    CalibrationTrial,
    Likelihood,
    candidate_likelihood,
    cross_validate_temperature,
    fit_temperature,
    mix_with_chance,
)

BAG_PREFIX = "bag_sets"
"""What names of the held-out bags begin with in a model folder."""


@inherit_docstring
class BagCalibration(CalibratedSets, Calibration, BagPredictions):
    """Calibration of instance probabilities, and of sets of labels, with labelled bags."""

    bag_set_calibration_: SetCalibration | None = None

    def calibrate(
        self,
        bags: Any,
        y: Any,
        *,
        groups: ArrayLike | None = None,
        truth: Any = None,
        only_if_better: bool = True,
    ) -> Any:
        """Make probabilities of bags and instances honest with bags held out from training.

        After a plain `fit` the log odds of bags get a scale and a shift, and those of instances in
        positive and negative bags follow, none being likelier than its bag; `truth` gives them a
        scale and a shift of their own. Of several labels, and under the training loop, one
        temperature for all instances makes the labels of the bags as likely as possible. All of it
        is kept near what it was where bags are few. Labels change where a probability passes the
        point that decides them. `save` keeps the calibration, and `fit` forgets it.
        `calibration_trials_` says what it is worth on bags that it was not fitted on.

        Parameters
        ----------
        bags : sequence of arrays, array or Groups
            As in `fit`, but bags it has not seen.
        y : array-like
            Their labels, as in `fit`.
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row.
        truth : array-like of shape (n_instances,), optional
            True labels of instances, in the order of the rows given; None where one is not known,
            or where it is background and every label of every bag has an instance. Fewer than fifty
            are not used, which is warned of.
        only_if_better : bool, default=True
            Whether probabilities stay as they are unless bags of other folds become likelier.

        Returns
        -------
        object
            The classifier itself.
        """
        instances, labels = self._read_labelled(bags, y, groups)
        known = read_instance_labels(truth, self.classes_, instances, groups)
        ensemble = self.ensemble_
        temperature, trials = self.calibration_temperature_, []
        if ensemble is not None:
            parts = self._parts(instances)
            log_odds = np.concatenate([ensemble.bag_log_odds(*part) for part in parts])
            ensemble, log_odds, trial = calibrate_bag_odds(
                ensemble, log_odds, labels, only_if_better=only_if_better
            )
            trials.append(trial)
        if ensemble is None or not ensemble.is_binary:
            temperature, trial = self._temperature(instances, labels, known, only_if_better)
            trials.append(trial)
        elif known is not None and has_enough_known_labels(known):
            ensemble, trial = calibrate_instance_odds(
                ensemble, log_odds, instances, known, only_if_better=only_if_better
            )
            trials.append(trial)
        if ensemble is not None:
            self._set_ensemble(ensemble)
        self._store_calibration(len(instances), "bags", trials, temperature)
        return self

    def _copy_calibration(self, other: Any) -> None:
        super()._copy_calibration(other)
        if other.ensemble_ is not None:
            scales = ("scale", "shift", "bag_scale", "bag_shift", "threshold", "doubt")
            own = {name: getattr(other.ensemble_, name) for name in scales}
            assert self.ensemble_ is not None
            self._set_ensemble(replace(self.ensemble_, **own))

    def _temperature(
        self, instances: Groups, labels: BoolArray, known: IntArray | None, only_if_better: bool
    ) -> tuple[float, CalibrationTrial]:
        """Return the temperature of instances, and what it is worth."""
        log_all = torch.from_numpy(
            apply_in_blocks(
                instances,
                lambda rows: self._log_probabilities(
                    self._scale_unless_ensemble(rows), 1.0
                ).numpy(),
            )
        )
        n_classes, judged_by = labels.shape[1], ""
        targets = np.minimum(np.arange(log_all.shape[1]), n_classes)
        if known is None or not has_all_witnesses(known, labels, instances.group_of_object):
            targets = targets[:n_classes]
        elif len(targets) > n_classes:  # the others are background, as `evaluate` counts them
            known = np.where(known < 0, n_classes, known)
        if known is not None and has_enough_known_labels(known):
            is_known = known >= 0
            log_all = log_all[torch.from_numpy(is_known), : len(targets)].log_softmax(-1)
            likelihood = candidate_likelihood(known[is_known, None] == targets)
        else:
            likelihood = bag_likelihood(instances.offsets, labels, self._negative_column())
            judged_by = "all labels of a bag"
        now = self.calibration_temperature_
        trial = cross_validate_temperature(
            "instances", [log_all], likelihood, now=now, judged_by=judged_by
        )
        if not trial.is_taken and only_if_better:
            return now, trial
        return fit_temperature([log_all], likelihood), trial

    def _set_ensemble(self, ensemble: BagEnsemble) -> None:
        """Take over a calibrated ensemble; what sets of labels are drawn by follows."""
        held, before = self.bag_set_calibration_, self.ensemble_
        if held is not None and before is not None:
            scale = ensemble.bag_scale / before.bag_scale
            shift = ensemble.bag_shift - scale * before.bag_shift
            log_odds = before.log_odds_of_proba(held.probabilities) * scale + shift
            proba = np.exp(ensemble.log_proba_of_bags(log_odds))
            self.bag_set_calibration_ = SetCalibration(proba, held.belief)
        self.ensemble_ = ensemble

    def _negative_column(self) -> int | None:
        found = np.flatnonzero(self.classes_ == getattr(self, "negative_label_", None))
        return int(found[0]) if len(found) else None

    def calibrate_sets(
        self, bags: Any, y: Any, *, groups: ArrayLike | None = None, truth: Any = None
    ) -> Any:
        """Calibrate :meth:`predict_set`, :meth:`predict_bag_set` and :meth:`abstain`.

        Sets of bags need no more than that bags are drawn alike. Of an instance the labels of its
        bag are the candidates, and the negative label where there is one; without its true label
        the assumption is that the other labels of a bag do not depend on which one is its own.

        Parameters
        ----------
        truth : array-like of shape (n_instances,), optional
            True labels of instances; None where one is not known.

        Returns
        -------
        object
            The classifier itself.
        """
        instances, labels = self._read_labelled(bags, y, groups)
        allowed = self._possible(instances, labels)
        proba = self.predict_proba(instances.objects)
        outside = self.background_proba(instances.objects)
        columns = None if truth is None else known_label_columns(truth, self.classes_, len(proba))
        self.set_calibration_ = calibrated_instances(proba, allowed, columns, outside)
        self.bag_set_calibration_ = SetCalibration(
            self.bag_proba(instances),
            labels / np.maximum(labels.sum(axis=1, keepdims=True), 1),
        )
        return self

    def _background_of(self, X: ArrayLike) -> FloatArray:
        return self.background_proba(X)

    def _possible(self, bags: Groups, labels: BoolArray) -> BoolArray:
        """Return the labels that instances may have, shape (n_instances, n_classes)."""
        possible: BoolArray = labels[bags.group_of_object]
        if self.negative_label_ is not None:
            possible |= self.classes_ == self.negative_label_
        return possible

    def query(
        self,
        bags: Any,
        y: Any,
        n: int = 10,
        *,
        strategy: str = "margin",
        groups: ArrayLike | None = None,
        truth: Any = None,
    ) -> IntArray:
        """Return the instances whose true label would help most, the first first.

        An instance may have the labels of its bag and the negative label; where no label is
        negative and every bag has one label, it may have any.

        Parameters
        ----------
        bags : sequence of arrays, array or Groups
            Labelled bags, those of `fit` as a rule.
        y : array-like
            Their labels.
        n : int, default=10
            How many instances.
        strategy : {"change", "margin", "random"}, default="margin"
            By the margin between the two likeliest labels; by how much an answer is expected to
            change what is believed of the instance and of those like it, which is counted once
            and was behind on the bags measured; or at random, to compare with.
        truth : array-like of shape (n_instances,), optional
            True labels that are known already, as in `fit`: such instances are not asked about.

        Returns
        -------
        int64 ndarray of shape (at most n,)
            Positions of instances in the order of the rows given, for `fit(truth=)`.
        """
        instances, labels = self._read_labelled(bags, y, groups)
        possible = self._possible(instances, labels)
        if self.negative_label_ is None and (labels.sum(axis=1) == 1).all():
            possible = np.ones_like(possible)
        known = read_instance_labels(truth, self.classes_, instances, groups)
        proba = np.exp(self.predict_log_proba(instances.objects))
        belief = belief_in_candidates(proba, possible, known)
        rows = instances.objects.reshape(len(belief), -1)
        asked = select_queries(belief, rows, n, strategy=strategy)
        if groups is None:
            return asked
        numbers = np.arange(len(belief))[:, None]
        return Groups.from_rows(numbers, groups)[0].objects[asked, 0].astype(np.int64)

    def _set_arrays(self) -> dict[str, NDArray[Any]]:
        found = self.bag_set_calibration_
        of_bags = {} if found is None else found.arrays(BAG_PREFIX)
        return {**super()._set_arrays(), **of_bags}

    def _restore_sets(self, arrays: dict[str, NDArray[Any]]) -> None:
        super()._restore_sets(arrays)
        self.bag_set_calibration_ = SetCalibration.from_arrays(BAG_PREFIX, arrays)

    def predict_bag_set(
        self,
        bags: Any,
        alpha: float = 0.1,
        *,
        groups: ArrayLike | None = None,
        by_class: bool = False,
    ) -> BoolArray:
        """Return for each bag the labels that hold its own with probability 1 - alpha.

        Parameters
        ----------
        bags : sequence of arrays, array or Groups
            As in `fit`.
        alpha : float, default=0.1
            The share of labels that may be missed.
        by_class : bool, default=False
            Whether that holds for the bags of every class by itself.

        Returns
        -------
        bool ndarray of shape (n_bags, n_classes)
            True where a label of `classes_` belongs to the set.
        """
        calibration = check_calibrated(self.bag_set_calibration_)
        return calibration.sets(self.bag_proba(bags, groups=groups), alpha, by_class=by_class)

    def abstain_bags(
        self, bags: Any, risk: float = 0.05, *, groups: ArrayLike | None = None
    ) -> BoolArray:
        """Return the bags to leave unanswered, so that few of the answers given are wrong.

        Parameters
        ----------
        bags : sequence of arrays, array or Groups
            As in `fit`.
        risk : float, default=0.05
            The share of wrong answers that is accepted among those given. An answer is right if
            the likeliest label is one of the bag's.
        groups : array-like of shape (n_rows,), optional
            The bag of each flat row.

        Returns
        -------
        bool ndarray of shape (n_bags,)
            True where to abstain.
        """
        held = check_calibrated(self.bag_set_calibration_)
        right = SetCalibration(held.probabilities, (held.belief > 0).astype(np.float64))
        return right.abstains(self.bag_proba(bags, groups=groups), risk)


def calibrated_instances(
    probabilities: FloatArray, possible: BoolArray, truth: IntArray | None, background: FloatArray
) -> SetCalibration:
    """Fit the calibration of instance sets, including instances of bags without a label.

    Every prediction for an instance of an unlabelled bag is wrong, which only abstention counts.
    """
    inside = possible.any(axis=1) if truth is None else possible.any(axis=1) | (truth >= 0)
    known = None if truth is None else truth[inside]
    found = fit_set_calibration(probabilities[inside], possible[inside], known, background[inside])
    if inside.all() or found.answers is None:
        return found
    sure = ((1.0 - background)[:, None] * probabilities)[~inside].max(axis=1)
    outside = np.stack([sure, np.zeros(len(sure))], axis=1)
    return replace(found, answers=np.concatenate([found.answers, outside]))


def bag_likelihood(offsets: IntArray, labels: BoolArray, negative: int | None = None) -> Likelihood:
    """Return the likelihood of bag labels.

    Bags with one label each are asked which class is matched most; bags with several, or where a
    class is negative, which classes at least one instance has and which none has (noisy-or): most
    instances of a positive bag may be negative.

    `offsets`: where the instances of each bag begin. `labels`: of shape (n_bags, n_classes).
    `negative`: the column of the negative class, which no bag is asked for.
    """
    present = torch.from_numpy(labels)
    n_bags, n_classes = labels.shape
    bag = torch.repeat_interleave(torch.arange(n_bags), torch.from_numpy(np.diff(offsets)))

    def over_bags(values: Tensor) -> Tensor:
        return values.new_zeros(n_bags, n_classes).index_add_(0, bag, values)

    def which(log_proba: Tensor) -> Tensor:
        # On log scale: a bag that is background throughout leaves the classes next to nothing.
        values = log_proba[:, :n_classes]
        position = bag.unsqueeze(-1).expand_as(values)
        peak = values.new_full((n_bags, n_classes), -torch.inf)
        peak = peak.scatter_reduce_(0, position, values, "amax")
        log_mass = peak + over_bags((values - peak[bag]).exp()).log()
        return mix_with_chance(log_mass.softmax(-1)[present], 1.0 / n_classes)

    def present_or_absent(log_proba: Tensor) -> Tensor:
        tiny = torch.finfo(log_proba.dtype).eps
        proba = log_proba[:, :n_classes].exp().clamp(max=1.0 - tiny)
        log_absent = over_bags(torch.log1p(-proba))
        log_present = torch.log((-torch.expm1(log_absent)).clamp(min=tiny))
        each = torch.where(present, log_present, log_absent)
        if negative is None:
            return each.sum(-1)
        named = torch.arange(n_classes) != negative
        return mix_with_chance(each[:, named].sum(-1).exp(), 0.5 ** (n_classes - 1))

    if negative is not None:
        return present_or_absent
    return which if (labels.sum(axis=1) == 1).all() else present_or_absent
