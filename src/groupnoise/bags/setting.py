"""Bags of instances (multiple-instance learning) behind the commands, and what a model is worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.audit import BagSource, describe_bags
from groupnoise.bags.files import read_bags
from groupnoise.bags.forms import as_bags, is_complete, read_bag_labels
from groupnoise.bags.label_words import (
    about_negative,
    about_truth,
    figures_of_none,
    figures_with_background,
    known_labels_of,
    with_negative,
)
from groupnoise.bags.object_answers import (
    answered_columns,
    background_name,
    bag_probabilities,
    object_probabilities,
    where_labels_differ,
)
from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.class_metrics import (
    add_class_figures,
    calibration_metrics,
    class_metrics,
    columns_of_classes,
    label_set_metrics,
    labels_as_names,
    labels_where_known,
    majority_metrics,
    positions_of_labels,
    rates_of,
    shares_of,
    with_columns_of,
)
from groupnoise.core.groups import Groups
from groupnoise.core.selective import risk_coverage
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BagDataset, subset_bags
from groupnoise.io.label_spellings import as_spelt
from groupnoise.io.setting import (
    Answers,
    Evaluation,
    RowLabels,
    Setting,
    bytes_of_values,
    check_labels_given,
    check_two_labels,
)
from groupnoise.io.training_record import draw_held_out

OF_SETS = (
    "bags have several labels: accuracy is of the likeliest label, which must be one of them; "
    "exact match, Hamming loss, precision, recall, F1 and balanced accuracy are of all labels found"
)
NO_LABEL_ROW = "(no label)"
"""What bags without any label are called among the classes."""
MAX_FINGERPRINT_ROWS = 1024
"""About how many instances tell a large bag from others; the checksum of all would take long."""
MAX_FINGERPRINT_VALUES = 1 << 28
"""About how many features of all bags tell a set from others."""


class BagSetting(Setting[BagDataset]):
    """Bags of instances under bag labels."""

    name = "mil"
    units = "bags"
    object_name = "instance"
    column_options = (
        "group", "label", "labels", "patient", "split", "truth", "features", "label_separator",
        "fill",
    )  # fmt: skip
    models = ("predict_bags",)
    # An audit asks which instances match nothing, so they get somewhere to go.
    audit_parameters: ClassVar[dict[str, Any]] = {"background": True, "absent_strength": 1.0}
    read = staticmethod(read_bags)
    subset = staticmethod(subset_bags)
    describe = staticmethod(describe_bags)
    audit_source = BagSource

    def reader_options(self, fitted: Any) -> dict[str, Any]:
        """Return the labels that a model knows."""
        return {"known": known_labels_of(fitted)}

    def n_groups(self, dataset: BagDataset) -> int:
        """Return how many bags there are."""
        return len(dataset.bags)

    def hold_out(self, dataset: BagDataset, share: float, seed: int) -> IntArray:
        """Return bags to keep out of training, never the last one of a class.

        Where the source has a split, all that is not for training; bags of a patient together.
        """
        if dataset.split is not None:
            return np.flatnonzero(dataset.split != "train")
        return draw_held_out(dataset.labels, share, seed, clusters=dataset.patients)

    def check_labels(self, dataset: BagDataset) -> None:
        """Refuse bags that all have the same label."""
        columns = (dataset.columns or {}).get("label")
        check_two_labels(columns, dataset.labels, dataset.class_names)

    def arguments(self, dataset: BagDataset) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the bags and the names of their labels, and whom bags come from."""
        named = {} if dataset.patients is None else {"patients": dataset.patients}
        return (dataset.bags, labels_as_names(dataset.labels, dataset.class_names)), named

    def known_labels(self, dataset: BagDataset) -> list[str | None] | None:
        """Return the true labels that are known."""
        return labels_where_known(dataset.instance_labels, dataset.class_names)

    def evaluate(
        self,
        fitted: Any,
        dataset: BagDataset,
        rows: IntArray | None = None,
        *,
        seed: int = 0,
        shares: Mapping[str, Any] | None = None,
    ) -> Evaluation:
        """Measure by bag, and by instance where the truth is known."""
        part = dataset if rows is None else subset_bags(dataset, rows)
        return evaluate_bags(fitted, part, shares)

    def shares(self, dataset: BagDataset, held_out: IntArray) -> dict[str, Any]:
        """Return how frequent labels of bags are, and of instances where their truth is known."""
        names, truth = dataset.class_names, dataset.instance_labels
        found = {"bag": shares_of(np.delete(dataset.labels, held_out, axis=0), names)}
        if truth is not None and (truth >= 0).any():
            truth = truth[~np.isin(dataset.bags.group_of_object, held_out)]
            found["instance"] = shares_of(truth[:, None] == np.arange(len(names)), names)
        return found

    def answer(
        self, fitted: Any, dataset: BagDataset, *, top: int = 10, exclude_seen: bool = True
    ) -> Answers:
        """Return a label for each instance, in the order of the source.

        An instance that is likelier of no class than of any has the label "background".
        """
        rows, bags = origins_of_instances(dataset)
        order = np.argsort(rows, kind="stable")
        try:
            found = object_probabilities(fitted, dataset.bags)
        except DataError:
            if dataset.source_rows is not None:  # asked in their order, it tells rows of the file
                fitted.predict_proba(dataset.bags.objects[order])
            raise
        answered = answered_columns(fitted, np.column_stack(found))
        notes = where_labels_differ(fitted, dataset.bags, answered)
        probability, background = (each[order] for each in found)
        labels = fitted.classes_.tolist()
        labels.append(background_name([str(label) for label in labels]))
        everything, best = np.c_[probability, background], answered[order]
        columns = {
            "row": rows[order].tolist(),
            "bag": bags[order].tolist(),
            "label": [labels[each] for each in best.tolist()],
            "probability": everything[np.arange(len(best)), best].tolist(),
        }
        if background.any():
            columns["background"] = background.tolist()
        if dataset.source_rows is None and dataset.columns is not None:
            # In a file per bag, rows are counted in each of them.
            columns["row"] = (rows - dataset.bags.offsets[dataset.bags.group_of_object]).tolist()
        if dataset.coordinates is not None and dataset.coordinate_names is not None:
            for name, values in zip(
                dataset.coordinate_names, dataset.coordinates[order].T, strict=True
            ):
                columns[name] = values.tolist()
        return Answers(columns, rows[order], notes)

    def summary(self, dataset: BagDataset) -> str:
        """Return the numbers of bags, instances and classes."""
        counts = {"bags": len(dataset.bags), "instances": dataset.bags.n_objects}
        counts["classes"] = len(dataset.class_names)
        return ", ".join(counted(number, things) for things, number in counts.items())

    def advice(self, fitted: Any) -> tuple[str, ...]:
        """Say how a negative label is named, where there may be one."""
        return about_negative(fitted)

    def dataset_of(self, groups: Any, targets: Any) -> BagDataset:
        """Return a data set of bags and their labels."""
        check_labels_given(targets)
        bags = as_bags(groups)
        labels, classes = read_bag_labels(targets, len(bags))
        return BagDataset("bags", bags, labels, [str(label) for label in classes.tolist()])

    def row_labels(self, dataset: BagDataset) -> RowLabels | None:
        """Return the row of each instance with the labels of its bag."""
        if dataset.source_rows is None or dataset.columns is None:
            return None
        return RowLabels(
            dataset.source_rows,
            dataset.columns["label"],
            dataset.class_names,
            dataset.labels[dataset.bags.group_of_object],
        )

    def content(self, dataset: BagDataset) -> Iterable[Any]:
        """Yield instances, bags and labels."""
        rows = dataset.bags.objects
        yield rows[:: max(1, rows.size // MAX_FINGERPRINT_VALUES)]
        yield from (dataset.bags.offsets, dataset.labels)
        yield dataset.class_names

    def group_content(self, dataset: BagDataset, row: int) -> bytes:
        """Return the instances and the labels of a bag."""
        names = [dataset.class_names[label] for label in np.flatnonzero(dataset.labels[row])]
        instances = dataset.bags[row]
        some = instances[:: max(1, len(instances) // MAX_FINGERPRINT_ROWS)]
        return "\0".join(names).encode() + bytes_of_values(some)


def origins_of_instances(dataset: BagDataset) -> tuple[IntArray, NDArray[Any]]:
    """Return the row of the source and the id of the bag of each instance.

    Sets that are not read from a table number both in the order they come in.
    """
    rows = dataset.source_rows
    if rows is None:
        rows = np.arange(dataset.bags.n_objects)
    return rows, dataset.ids[dataset.bags.group_of_object]


SETTING = BagSetting()


def evaluate_bags(
    fitted: Any, dataset: BagDataset, shares: Mapping[str, Any] | None = None
) -> Evaluation:
    """Measure a model on bags, and on their instances where the truth of some is known.

    The area below the risk-coverage curve is the mean share of wrong answers when only the surest
    bags, or instances, are answered, over all numbers of them. Calibration error and log loss
    stand beside those of who claims the frequencies of labels.

    `fitted`: ours or a baseline. `shares`: how frequent labels were in training, as
    `BagSetting.shares` says it; where that is not known, labels of these bags are counted.
    """
    learned = known_labels_of(fitted)
    names, labels, numbers, about_labels = as_spelt(
        dataset.class_names, dataset.labels, dataset.instance_labels, learned.classes, "bags"
    )
    dataset = replace(dataset, class_names=names, labels=labels, instance_labels=numbers)
    dataset = with_negative(dataset, learned.negative)
    columns = columns_of_classes(dataset.class_names, fitted.classes_)
    levels: dict[str, tuple[BoolArray, FloatArray, BoolArray | None]]
    scores = bag_scores(fitted, dataset.bags)
    levels = {"bag": (dataset.labels, scores, None)}
    predicted = np.asarray(fitted.predict_bags(dataset.bags))
    sets = with_columns_of(predicted, columns) > 0 if predicted.ndim == 2 else None
    if sets is not None:  # figures of one answer are about the likeliest label
        predicted = fitted.classes_[scores.argmax(axis=1)]
    answers = {"bag": positions_of_labels(predicted, fitted.classes_, columns)}
    if not hasattr(fitted, "bag_scores") and (dataset.labels.sum(axis=1) > 1).any():
        return _covered(answers["bag"], dataset.labels, dataset.bags.n_objects)
    claims = with_columns_of(bag_probabilities(fitted, dataset.bags), columns)
    rates_by = {
        level: rates_of(each, dataset.class_names) for level, each in (shares or {}).items()
    }
    of_bags, of_truth = rates_by.get("bag"), rates_by.get("instance")
    rates = None if of_bags is None else of_bags[:-1]
    honesty = {"bag": calibration_metrics(dataset.labels, claims, rates)}
    counts = {"groups": len(dataset.bags), "instances": dataset.bags.n_objects}
    notes = [*about_labels, *([] if sets is None else [OF_SETS])]
    n_without = int((~dataset.labels.any(axis=1)).sum())
    if n_without:
        counts["bags without a label"] = n_without
        notes.append(
            f"{n_without} of {len(dataset.bags)} bags have no label: no answer about them is right "
            "but none, which accuracy leaves out"
        )
    with_background: dict[str, float] = {}
    if dataset.instance_labels is not None and (dataset.instance_labels >= 0).any():
        labels, is_rated = _instance_truth(dataset, dataset.instance_labels)
        probability, background = object_probabilities(fitted, dataset.bags)
        levels["instance"] = (labels, probability, is_rated)
        predicted = fitted.classes_[answered_columns(fitted, probability)]
        answers["instance"] = positions_of_labels(predicted, fitted.classes_, columns)
        counts["instances with known truth"] = int(labels.any(axis=1).sum())
        tells_background = bool(background.any() and is_rated.all())
        honesty["instance"] = _instance_calibration(
            labels, with_columns_of(probability, columns), background, tells_background, of_truth
        )
        if is_rated.all() and not labels.any(axis=1).all():
            everything = np.c_[probability, background] if background.any() else probability
            called = answered_columns(fitted, everything) == probability.shape[1]
            with_background = figures_with_background(
                labels, answers["instance"], called, background
            )
        notes += about_truth(labels, is_rated, with_background, bool(background.any()))
    metrics: dict[str, float] = {}
    majority: dict[str, float] = {}
    curves: dict[str, dict[str, list[float]]] = {}
    per_class: dict[str, dict[str, float]] = {name: {} for name in dataset.class_names}
    for level, (labels, values, rated) in levels.items():
        aligned = with_columns_of(np.asarray(values), columns)
        figures, by_class = class_metrics(labels, answers[level], aligned, rated)
        rates = of_truth if level == "instance" and of_truth is not None else of_bags
        rates = labels.mean(axis=0) if rates is None else rates[:-1]
        constant = majority_metrics(labels, rated, rates)
        if level == "bag" and sets is not None:
            of_sets, sets_by_class = label_set_metrics(labels, sets)
            figures, by_class = {**figures, **of_sets}, {**by_class, **sets_by_class}
            frequent = np.zeros_like(sets)
            frequent[:, rates.argmax()] = True
            constant |= label_set_metrics(labels, frequent)[0]
            if n_without:
                per_class[NO_LABEL_ROW] = figures_of_none(labels, sets)
        if level == "instance":
            figures |= with_background
        metrics |= {f"{level} {name}": value for name, value in figures.items()}
        majority |= {f"{level} {name}": value for name, value in constant.items()}
        known, best = labels.any(axis=1), answers[level]
        right = labels[np.arange(len(labels)), np.maximum(best, 0)] & (best >= 0)
        curve = risk_coverage(aligned[known].max(axis=1), right[known])
        metrics[f"{level} risk-coverage area"] = curve.area
        majority[f"{level} risk-coverage area"] = 1.0 - majority[f"{level} accuracy"]
        curves[f"{level}s"] = curve.points()
        for to, honest in zip((metrics, majority), honesty[level], strict=True):
            to |= {f"{level} {name}": value for name, value in honest.items()}
        names = dataset.class_names
        add_class_figures(per_class, names, labels, by_class, f"{level}s", f"{level} ")
    return Evaluation(metrics, counts, majority, per_class, tuple(notes), curves=curves)


def _covered(answers: IntArray, candidates: BoolArray, n_instances: int) -> Evaluation:
    """Measure a pair model on bags whose labels are candidates, of which one is true."""
    covered = candidates[np.arange(len(answers)), np.maximum(answers, 0)] & (answers >= 0)
    return Evaluation(
        {"bag covering rate": float(covered.mean())},
        {"groups": len(answers), "instances": n_instances},
        {"bag covering rate": float(candidates.mean(axis=0).max())},
        {},
        ("labels of bags are candidates here: the rate says how often the answer is one of them",),
    )


def _instance_calibration(
    labels: BoolArray,
    claims: FloatArray,
    background: FloatArray,
    tells_background: bool,
    rates: FloatArray | None,
) -> tuple[dict[str, float], dict[str, float]]:
    """Return calibration figures of instances; background is one more class where it is known."""
    known = labels.any(axis=1)
    if tells_background:
        return calibration_metrics(np.c_[labels, ~known], np.c_[claims, background], rates)
    claims = claims / np.maximum(1.0 - background, 1e-12)[:, None]
    classes_alone = None if rates is None else rates[:-1]
    return calibration_metrics(labels[known], claims[known], classes_alone)


def bag_scores(fitted: Any, bags: Groups) -> FloatArray:
    """Return the score of every class for each bag; a pair model gives probabilities of bags."""
    scores = (
        fitted.bag_scores(bags) if hasattr(fitted, "bag_scores") else fitted.predict_proba(bags)
    )
    return np.asarray(scores)


def _instance_truth(dataset: BagDataset, truth: IntArray) -> tuple[BoolArray, BoolArray]:
    """Return the class of each instance, and of which classes it is known whether it is one.

    Where every label of every bag has a witness the truth is complete, and an instance without a
    class is background: a negative of all classes. Otherwise it may be unknown, and is a negative
    only of the classes that its bag does not have.
    """
    labels = truth[:, None] == np.arange(len(dataset.class_names))
    bag_of_row = dataset.bags.group_of_object
    if is_complete(truth, dataset.labels, bag_of_row):
        return labels, np.ones(labels.shape, dtype=bool)
    return labels, (truth >= 0)[:, None] | ~dataset.labels[bag_of_row]
