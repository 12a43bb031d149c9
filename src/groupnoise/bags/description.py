"""What is known of bags before any training: sizes, class balance, witnesses and oddities."""

from __future__ import annotations

import numpy as np

from groupnoise.core.arrays import IntArray
from groupnoise.io.datasets import BagDataset
from groupnoise.io.description import (
    Description,
    DescriptionDraft,
    add_features,
    count_oddity,
    histogram_of_classes,
    histogram_of_sizes,
)


def describe_bags(dataset: BagDataset) -> Description:
    """Return sizes, class balance, witnesses and oddities of bags."""
    sizes, names = dataset.bags.sizes, dataset.class_names
    n_bags_of = dataset.labels.sum(axis=0)
    draft = DescriptionDraft()
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
    draft.oddities += count_oddity(n_bags_of == 0, "classes", "without a bag", names)
    if dataset.instance_labels is None:
        draft.oddities.append("no instance label is known, so single instances cannot be scored")
    else:
        _add_instance_truth(draft, dataset, dataset.instance_labels)
    return draft.finish(dataset.name, "mil")


def _add_instance_truth(draft: DescriptionDraft, dataset: BagDataset, truth: IntArray) -> None:
    """Add how many instances carry a label of their bag, and where none does."""
    names = dataset.class_names
    known = truth >= 0
    bag_of_object = dataset.bags.group_of_object
    is_witness = known & dataset.labels[bag_of_object, np.maximum(truth, 0)]
    has_witness = np.zeros(dataset.labels.shape, dtype=bool)
    has_witness[bag_of_object[is_witness], truth[is_witness]] = True
    lacks_witness = dataset.labels & ~has_witness
    # In sets of two classes negative instances in positive bags are the rule, not an oddity.
    is_negative = np.array([name == "negative" for name in names])[np.maximum(truth, 0)]
    draft.facts |= {
        "instances of a class of their bag, share": float(is_witness.mean()),
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
