"""Bags of instances (multiple-instance learning) behind the commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.bags.audit import BagSource, describe_bags
from groupnoise.bags.evaluation import evaluate_bags
from groupnoise.bags.object_predictions import (
    background_name,
    object_probabilities,
    predicted_columns,
    threshold_notes,
)
from groupnoise.bags.reading.inputs import as_bags, read_bag_labels
from groupnoise.bags.reading.labels import (
    get_known_labels,
    negative_label_hint,
)
from groupnoise.bags.reading.reader import read_bags
from groupnoise.bags.search.shared_instances import hold_out_clusters
from groupnoise.core.arrays import FloatArray, IntArray
from groupnoise.core.class_metrics import (
    class_frequencies,
    indicator_to_labels,
    known_label_names,
)
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.datasets import BagDataset, subset_bags
from groupnoise.io.hold_out import draw_held_out
from groupnoise.io.setting import (
    Answers,
    Evaluation,
    RowLabels,
    Setting,
    bytes_of_values,
    check_labels_given,
    check_two_labels,
    fingerprints_of,
)

MAX_FINGERPRINT_ROWS = 1024
"""About how many instances of a large bag enter its fingerprint; all of them would take long."""
MAX_FINGERPRINT_VALUES = 1 << 28
"""About how many feature values enter the fingerprint of a data set."""


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
    read = staticmethod(read_bags)
    subset = staticmethod(subset_bags)
    describe = staticmethod(describe_bags)
    audit_source = BagSource

    def reader_options(self, fitted: Any) -> dict[str, Any]:
        """Return the labels that a model knows."""
        return {"known": get_known_labels(fitted)}

    def n_groups(self, dataset: BagDataset) -> int:
        """Return how many bags there are."""
        return len(dataset.bags)

    def hold_out(self, dataset: BagDataset, share: float, seed: int) -> IntArray:
        """Return bags to hold out of training, never the last one of a class.

        Where the source has a split, these are all bags that it does not assign to training.
        Otherwise bags of one patient stay together, and so do bags that share instances.
        """
        if dataset.split is not None:
            return np.flatnonzero(dataset.split != "train")
        clusters = hold_out_clusters(dataset.bags, dataset.patients)
        return draw_held_out(dataset.labels, share, seed, clusters=clusters)

    def check_labels(self, dataset: BagDataset) -> None:
        """Refuse bags that all have the same label."""
        columns = (dataset.columns or {}).get("label")
        check_two_labels(columns, dataset.labels, dataset.class_names)

    def arguments(self, dataset: BagDataset) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the bags and their label names, and their patients if these are known."""
        named = {} if dataset.patients is None else {"patients": dataset.patients}
        return (dataset.bags, indicator_to_labels(dataset.labels, dataset.class_names)), named

    def known_labels(self, dataset: BagDataset) -> list[str | None] | None:
        """Return the true labels that are known."""
        return known_label_names(dataset.instance_labels, dataset.class_names)

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
        shares = {"bag": class_frequencies(np.delete(dataset.labels, held_out, axis=0), names)}
        if truth is not None and (truth >= 0).any():
            truth = truth[~np.isin(dataset.bags.group_of_object, held_out)]
            shares["instance"] = class_frequencies(truth[:, None] == np.arange(len(names)), names)
        return shares

    def answer(
        self, fitted: Any, dataset: BagDataset, *, top: int = 10, exclude_seen: bool = True
    ) -> Answers:
        """Return a label for each instance, in the order of the source.

        An instance that is likelier of no class than of any has the label "background".
        """
        rows, bags = instance_sources(dataset)
        order = np.argsort(rows, kind="stable")
        try:
            probabilities = object_probabilities(fitted, dataset.bags)
        except DataError:
            if dataset.source_rows is not None:
                # In the order of the file, the message names the row of the file.
                fitted.predict_proba(dataset.bags.objects[order])
            raise
        predicted = predicted_columns(fitted, np.column_stack(probabilities))
        notes = threshold_notes(fitted, dataset.bags, predicted)
        probability, background = (each[order] for each in probabilities)
        labels = fitted.classes_.tolist()
        labels.append(background_name([str(label) for label in labels]))
        with_background, best = np.c_[probability, background], predicted[order]
        columns = {
            "row": rows[order].tolist(),
            "bag": bags[order].tolist(),
            "label": [labels[each] for each in best.tolist()],
            "probability": with_background[np.arange(len(best)), best].tolist(),
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
        return negative_label_hint(fitted)

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

    def features(self, dataset: BagDataset) -> FloatArray:
        """Return the features of all instances."""
        return dataset.bags.objects

    def identity_fingerprints(self, dataset: BagDataset) -> dict[str, NDArray[np.uint64]]:
        """Return fingerprints of the ids of bags and patients, where the source has them."""
        ids_by_kind = {"names": dataset.bag_ids, "patients": dataset.patients}
        return {
            kind: fingerprints_of(str(each).encode() for each in ids)
            for kind, ids in ids_by_kind.items()
            if ids is not None
        }

    def group_content(self, dataset: BagDataset, row: int) -> bytes:
        """Return the instances and the labels of a bag."""
        names = [dataset.class_names[label] for label in np.flatnonzero(dataset.labels[row])]
        instances = dataset.bags[row]
        some = instances[:: max(1, len(instances) // MAX_FINGERPRINT_ROWS)]
        return "\0".join(names).encode() + bytes_of_values(some)


def instance_sources(dataset: BagDataset) -> tuple[IntArray, NDArray[Any]]:
    """Return the row of the source and the id of the bag of each instance.

    Rows of data that does not come from a table are numbered in their own order.
    """
    rows = dataset.source_rows
    if rows is None:
        rows = np.arange(dataset.bags.n_objects)
    return rows, dataset.ids[dataset.bags.group_of_object]


SETTING = BagSetting()
