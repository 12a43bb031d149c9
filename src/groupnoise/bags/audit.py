"""Audit of bags: descriptive statistics, suspicious labels, and the instance behind each label.

A label is suspicious if the log odds of the whole bag, compared with those of held-out bags, look
like those of bags with another label. Low odds alone, as of rare labels, are no evidence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groupnoise.audit.evidence import (
    Findings,
    ObjectTally,
    choice_columns,
    class_columns,
    object_posterior,
)
from groupnoise.bags.reading.labels import negative_name
from groupnoise.bags.search.shared_instances import find_shared_instances, hold_out_clusters
from groupnoise.core.arrays import BoolArray, Columns, FloatArray, IntArray, ragged_rows
from groupnoise.core.groups import Groups
from groupnoise.io.datasets import BagDataset
from groupnoise.io.description import (
    Description,
    add_features,
    count_oddity,
    histogram_of_classes,
    histogram_of_sizes,
)

HELD_OUT_QUANTILE = 0.6
"""Quantile of the odds of held-out bags with a label that a suspicious bag must reach."""
ODDS_MARGIN, MIN_ODDS = 2.0, 1.0
"""Log odds beyond the label frequencies that suffice, and minimum log odds; chosen on synthetic
bags of seeds 0 to 2."""
MIN_BAGS = 3
"""Minimum bags for a median."""
TINY = 1e-9
MAX_ODDS = 20.0


class BagSource:
    """Audit source of bags: each (bag, label) is a group, each instance an object.

    A bag without a label is a group of target -1: a label may be missing.

    `truth`: true labels of some instances for training, -1 elsewhere.
    `teaches`: bags used for training; all by default.
    """

    setting = "mil"

    def __init__(
        self, dataset: BagDataset, truth: IntArray | None = None, teaches: BoolArray | None = None
    ) -> None:
        self.dataset = dataset
        self.truth = truth
        self._decided: dict[str, Any] = {}
        self.teaches = np.ones(len(dataset.bags), dtype=bool) if teaches is None else teaches
        n_labels: IntArray = dataset.labels.sum(axis=1, dtype=np.int64)
        self.group_counts: IntArray = np.maximum(n_labels, 1)
        self.object_counts: IntArray = dataset.bags.sizes
        self.strata: IntArray = np.where(
            n_labels > 0, dataset.labels.argmax(axis=1), len(dataset.class_names)
        )
        self.clusters = hold_out_clusters(dataset.bags, dataset.patients)

    def __len__(self) -> int:
        return len(self.dataset.bags)

    @property
    def names(self) -> dict[str, NDArray[Any]]:
        """Labels, and the ids of bags and the rows of instances where the source has them."""
        labels = np.asarray(self.dataset.class_names)
        names = {"target": labels, "suggested": labels}
        if self.dataset.bag_ids is not None:
            names["source"] = self.dataset.bag_ids
        if self.dataset.source_rows is not None:
            names["object"] = self.dataset.source_rows
        return names

    def fit(self, estimator: Any, rows: IntArray) -> Any:
        """Return a clone of the estimator fitted on the bags at `rows`."""
        from sklearn.base import clone  # loads for seconds, and readers come by here

        rows = rows[self.teaches[rows]]
        bags = self.dataset.bags.subset(rows)
        named: dict[str, Any] = {}
        if self.clusters is not None:
            named["patients"] = self.clusters[rows]
        if self.truth is not None and (self.truth >= 0).any():
            known = Groups(self.truth[:, None], self.dataset.bags.offsets).subset(rows).objects
            named["truth"] = [label if label >= 0 else None for label in known[:, 0].tolist()]
        template = clone(estimator).set_params(**self._decided)
        fitted = template.fit(bags, self.dataset.labels[rows].astype(np.int64), **named)
        if getattr(fitted, "ensemble_", None) is not None and not self._decided:
            # Searched for once: what later folds take over are settings, not what was learned.
            self._decided = {"ensemble": fitted.decisions_.members}
            if fitted.negative_label_ is not None:
                self._decided["negative_label"] = fitted.negative_label_
        return fitted

    def calibrate(self, model: Any, rows: IntArray) -> None:
        """Calibrate a model on bags it has not seen."""
        rows = rows[self.teaches[rows]]
        columns = class_columns(model.classes_, self.dataset.class_names)
        labels = np.zeros((len(rows), len(model.classes_)), dtype=np.int64)
        labels[:, columns] = self.dataset.labels[rows]
        model.calibrate(self.dataset.bags.subset(rows), labels, only_if_better=False)

    def judge(self, model: Any, rows: IntArray) -> Findings:
        """Return the findings of a model on the bags at `rows`."""
        bags, labels = self.dataset.bags.subset(rows), self.dataset.labels[rows]
        columns = class_columns(model.classes_, self.dataset.class_names)
        fits = _class_probabilities(model, bags.objects)[:, columns]  # (n_objects, n_classes)
        instance = ragged_rows(self.dataset.bags.offsets[rows], bags.sizes)
        noise, tally = np.ones(bags.n_objects), ObjectTally(bags.n_objects)
        own = add_unlabelled_column(labels)
        bag, label = np.nonzero(own)
        is_bare = label == labels.shape[1]
        sizes = bags.sizes[bag]
        objects = ragged_rows(bags.offsets[bag], sizes)
        best = np.maximum.reduceat(fits, bags.offsets[:-1])  # (n_bags, n_classes)
        odds, held = _log_odds(model, bags, columns, best, own)
        suggested = _suggested(odds, own)
        # An unlabelled bag is checked for the label that it most likely lacks.
        asked = np.where(is_bare, suggested[bag], label)
        selected = model.select(bags.subset(bag), model.classes_[columns[asked]])
        found = object_posterior(selected.scores, selected.offsets)
        fit = fits[objects, np.repeat(asked, sizes)]  # P(label | instance)
        credibility = np.maximum.reduceat(fit, selected.offsets[:-1])
        carries = np.repeat(~is_bare, sizes)
        np.minimum.at(noise, objects, np.where(carries, 1.0 - fit * found.responsibility, 1.0))
        tally.add(objects, found)
        groups: Columns = {
            "source": rows[bag],
            "target": np.where(is_bare, -1, label),
            "size": sizes,
            "object": instance[objects[found.chosen]],
            **choice_columns(found, selected.offsets[:-1], selected.log_weight),
            "doubt": np.where(is_bare, 0.0, 1.0 - credibility),
            "suspicion": suspicion_scores(odds, own, held)[bag, label],
            "suggested": suggested[bag],
        }
        instances: Columns = {
            "source": np.repeat(rows, bags.sizes),
            "position": ragged_rows(np.zeros(len(rows)), bags.sizes),
            "object": instance,
            **tally.columns(),
            "noise": noise,
        }
        gain = label_gains(odds, own) if getattr(model, "ensemble_", None) is None else None
        return Findings(groups, instances, gain)


def label_gains(odds: FloatArray, labels: BoolArray) -> FloatArray:
    """Return the log likelihood of the labels of each bag beyond their frequencies, in nats.

    `odds`, `labels` (n_bags, n_classes + 1): the last column stands for no label.
    """
    rates = labels.mean(axis=0)
    varies = (rates > 0.0) & (rates < 1.0)
    odds, labels, rates = odds[:, varies], labels[:, varies], rates[varies]
    chance = np.where(labels, rates, 1.0 - rates)
    told = np.exp(-np.logaddexp(0.0, np.where(labels, -odds, odds)))
    # Odds have no bounds where all bags are told apart but one, which would outweigh the others:
    # by Laplace's rule of succession nothing is known of two bags among two more than these.
    doubt = 2.0 / (2.0 + len(odds))
    gains: FloatArray = np.log1p((1.0 - doubt) * (told / chance - 1.0)).sum(axis=1)
    return gains


def _class_probabilities(model: Any, instances: FloatArray) -> FloatArray:
    """Return P(class | instance), times P(not background) if there is a background target."""
    probabilities: FloatArray = model.predict_proba(instances)
    if getattr(model, "background", False):
        probabilities = probabilities * (1.0 - model.background_proba(instances))[:, None]
    return probabilities


class HeldOutOdds(NamedTuple):
    """Predictions of a model on held-out bags.

    `odds` (n_bags, n_classes + 1): log odds of each label, and last of none.
    `labels`: what they carry, in the same columns.
    """

    odds: FloatArray
    labels: BoolArray


def add_unlabelled_column(labels: BoolArray) -> BoolArray:
    """Return labels with a last column for bags without any."""
    return np.concatenate([labels, ~labels.any(axis=1, keepdims=True)], axis=1)


def suspicion_scores(odds: FloatArray, labels: BoolArray, held: HeldOutOdds) -> FloatArray:
    """Return how suspicious each label of each bag is; above one half it is an issue.

    One half is where another label, or none, leads the given one by as much as in most held-out
    bags that have that other label (`HELD_OUT_QUANTILE` of them), or by `ODDS_MARGIN` beyond the
    log ratio of their frequencies, and at least by `MIN_ODDS`. For bags with several labels the
    alternative is the absence of the label. A model that favours the labels of these bags more than
    those of held-out bags was trained on them, which is compensated.

    `odds`, `labels` (n_bags, n_classes + 1): of the bags audited. `held`: of held-out bags.
    """
    learned = np.zeros(odds.shape[1])
    for column, (mine, theirs) in enumerate(zip(labels.T, held.labels.T, strict=True)):
        if mine.sum() >= MIN_BAGS and theirs.sum() >= MIN_BAGS:
            more = np.median(odds[mine, column]) - np.median(held.odds[theirs, column])
            learned[column] = max(0.0, float(more))
    if (held.labels.sum(axis=1) == 1).all() and (labels.sum(axis=1) == 1).all():
        against = _evidence_for_other_labels(odds, held)
    else:
        against = -odds - np.diagonal(_bounds(-held.odds, ~held.labels, held.labels))
    return 0.5 + 0.5 * np.tanh(0.5 * (against + learned))


def _evidence_for_other_labels(odds: FloatArray, held: HeldOutOdds) -> FloatArray:
    """Return by how much other labels, or none, lead each label, beyond the bounds."""
    log_p, known = (-np.logaddexp(0.0, -each) for each in (odds, held.odds))
    occurs = held.labels.any(axis=0)
    others = ~np.eye(odds.shape[1], dtype=bool) & occurs
    rivals = [known[:, each].max(axis=1, initial=-MAX_ODDS) for each in others]
    bounds = _bounds(known - np.stack(rivals, axis=1), held.labels, held.labels)
    np.fill_diagonal(bounds, np.inf)
    against = [
        (log_p - bound).max(axis=1) - own for bound, own in zip(bounds.T, log_p.T, strict=True)
    ]
    return np.stack(against, axis=1)


def _bounds(margins: FloatArray, labels: BoolArray, instead: BoolArray) -> FloatArray:
    """Return the margin from which a bag looks like those of a label rather than of another.

    `margins` (n_bags, n_labels): lead of each label in log odds. `labels`: of the bags. `instead`:
    labels of the alternative.
    """
    n_own, n_other = labels.sum(axis=0), instead.sum(axis=0)
    frequent = np.maximum(0.0, np.log((1.0 + n_own[:, None]) / (1.0 + n_other)))
    usual = np.full(len(n_own), np.inf)
    for column in np.flatnonzero(n_own):
        usual[column] = np.quantile(margins[labels[:, column], column], HELD_OUT_QUANTILE)
    found: FloatArray = np.maximum(MIN_ODDS, np.minimum(usual[:, None], ODDS_MARGIN + frequent))
    found[n_own == 0] = np.inf  # what no bag has, none looks like
    return found


def _suggested(odds: FloatArray, labels: BoolArray) -> IntArray:
    """Return the most likely missing label of each bag, -1 if none is likely.

    `odds`, `labels` (n_bags, n_classes + 1): the last column stands for no label.
    """
    absent = np.where(labels, -np.inf, odds)
    absent[:, -1] = np.where(labels.sum(axis=1) > 1, 0.0, absent[:, -1])
    best: IntArray = absent.argmax(axis=1)
    n_classes = labels.shape[1] - 1
    best = np.where(best == n_classes, -1, best)
    return np.where(labels[:, -1], absent[:, :-1].argmax(axis=1), best)


def _log_odds(
    model: Any, bags: Groups, columns: IntArray, best: FloatArray, labels: BoolArray
) -> tuple[FloatArray, HeldOutOdds]:
    """Return log odds of the labels of bags, and of none, and those of held-out bags.

    A plain fit calibrated its bag probabilities on held-out bags and keeps them. Elsewhere the best
    match of a label beside that of the others is calibrated on the bags judged, which a cross-fit
    holds out.

    `columns`: of the model, by class. `best` (n_bags, n_classes): the best match of each class.
    `labels` (n_bags, n_classes + 1): what the bags carry.
    """
    ensemble = getattr(model, "ensemble_", None)
    if ensemble is not None:
        odds = _odds_of_proba(model.bag_proba(bags), ensemble, columns)
        known = model.bag_set_calibration_
        if known is None:
            return odds, HeldOutOdds(odds, labels)
        held = _odds_of_proba(known.probabilities, ensemble, columns)
        return odds, HeldOutOdds(held, add_unlabelled_column(known.belief[:, columns] > 0))
    # Loads torch, and readers come by here.
    from groupnoise.bags.search.ensemble import calibrate_bags

    log_best = np.log(np.maximum(best, TINY))
    odds = np.empty(labels.shape)
    for column in range(labels.shape[1]):
        is_other = np.arange(best.shape[1]) != column
        others = best[:, is_other].max(axis=1, initial=TINY)
        if column == best.shape[1]:
            contrast = np.log(np.maximum(1.0 - others, TINY) / others)
        else:
            contrast = log_best[:, column] - np.log(others)
        mine = labels[:, [column]]
        # Of a label that all have, or none, nothing can be told.
        odds[:, column] = 0.0 if mine.all() else -MAX_ODDS
        if 0 < mine.sum() < len(mine):
            scale, shift = calibrate_bags(contrast[:, None], mine, True, True)
            odds[:, column] = contrast * scale + shift
    return odds, HeldOutOdds(odds, labels)


def _odds_of_proba(proba: FloatArray, ensemble: Any, columns: IntArray) -> FloatArray:
    """Return the log odds of labels, and last of none, from P(label | bag) of a model's columns."""
    if ensemble.negative is not None:
        none = proba[:, ensemble.negative]
    elif ensemble.exclusive:
        none = 1.0 - proba.sum(axis=1)
    else:
        none = np.prod(1.0 - proba, axis=1)
    bounded = np.clip(np.c_[proba[:, columns], none], TINY, 1.0 - TINY)
    return np.log(bounded) - np.log1p(-bounded)


def describe_bags(dataset: BagDataset) -> Description:
    """Return sizes, class balance, witnesses and oddities of bags."""
    sizes, names = dataset.bags.sizes, dataset.class_names
    n_bags_of = dataset.labels.sum(axis=0)
    draft = Description(dataset.name, "mil")
    draft.facts |= {
        "bags": len(dataset.bags),
        "instances": dataset.bags.n_objects,
        "features": dataset.bags.objects.shape[1],
        "classes": len(names),
        "instances per bag, mean": float(sizes.mean()),
        "labels per bag, mean": float(dataset.labels.sum(axis=1).mean()),
    }
    n_without = int((~dataset.labels.any(axis=1)).sum())
    if n_without and names:
        draft.facts["bags without a label"] = n_without
    if dataset.patients is not None:
        draft.facts["patients"] = len(np.unique(dataset.patients))
    if dataset.split is not None:
        draft.facts["bags to train on"] = int((dataset.split == "train").sum())
    if dataset.coordinate_names is not None:
        draft.facts["coordinates per instance"] = len(dataset.coordinate_names)
    draft.histograms += [
        histogram_of_sizes("Instances per bag", sizes),
        histogram_of_classes("Bags per class", n_bags_of, names),
    ]
    add_features(draft, dataset.bags.objects)
    shared = find_shared_instances(dataset.bags, dataset.patients)
    if shared is not None:
        draft.oddities += shared.findings(dataset.labels)
    draft.oddities += count_oddity(n_bags_of == 0, "classes", "without a bag", names)
    if dataset.instance_labels is None:
        draft.oddities.append("no instance label is known, so single instances cannot be scored")
    else:
        _add_instance_truth(draft, dataset, dataset.instance_labels)
    return draft


def _add_instance_truth(draft: Description, dataset: BagDataset, truth: IntArray) -> None:
    """Add how many instances carry a label of their bag, and where none does."""
    names = dataset.class_names
    known = truth >= 0
    bag_of_object = dataset.bags.group_of_object
    is_witness = known & dataset.labels[bag_of_object, np.maximum(truth, 0)]
    has_witness = np.zeros(dataset.labels.shape, dtype=bool)
    has_witness[bag_of_object[is_witness], truth[is_witness]] = True
    lacks_witness = dataset.labels & ~has_witness
    # In sets of two classes negative instances in positive bags are the rule, not an oddity.
    negative = negative_name(names, dataset.labels)
    is_negative = np.array([name == negative for name in names])[np.maximum(truth, 0)]
    draft.facts |= {
        "fraction of instances with a label of their bag": float(is_witness.mean()),
        "instances of background or unknown class": int((~known).sum()),
        "bag labels without a known witness": int(lacks_witness.sum()),
    }
    draft.histograms.append(
        histogram_of_classes(
            "True instances per class", np.bincount(truth[known], minlength=len(names)), names
        )
    )
    draft.oddities += count_oddity(lacks_witness.ravel(), "bag labels", "without a known witness")
    draft.oddities += count_oddity(
        known & ~is_witness & ~is_negative,
        "instances",
        "of a true class that is no label of the bag",
    )
