"""What a data set holds and what is odd about it, before anything is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import IntArray
from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset

MAX_SINGLE_BARS = 24
"""Up to this many distinct sizes get a bar each; beyond, bins double in width."""


@dataclass(frozen=True)
class Histogram:
    """A titled row of bars.

    Attributes
    ----------
    title : str
        What is counted.
    labels : tuple of str
        What each bar stands for.
    counts : tuple of int
        How high each bar is.
    """

    title: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]


def histogram_of_sizes(title: str, sizes: ArrayLike) -> Histogram:
    """Count whole numbers: one bar each, or bins of 1, 2, 3-4, 5-8, ... where they reach far.

    Examples
    --------
    >>> histogram_of_sizes("sizes", [2, 2, 4])
    Histogram(title='sizes', labels=('2', '3', '4'), counts=(2, 0, 1))
    """
    values = np.asarray(sizes)
    least, most = int(values.min()), int(values.max())
    if most - least < MAX_SINGLE_BARS:
        counts = np.bincount(values - least, minlength=most - least + 1)
        labels = [str(value) for value in range(least, most + 1)]
        return Histogram(title, tuple(labels), tuple(counts.tolist()))
    upper = [0, *(2**power for power in range(int(np.ceil(np.log2(most))) + 1))]
    bins = np.searchsorted(upper, values)
    lower = [0, *(bound + 1 for bound in upper[:-1])]
    first = int(bins.min())
    labels = [
        f"{low}" if low == high else f"{low}-{high}"
        for low, high in zip(lower[first:], upper[first:], strict=True)
    ]
    counts = np.bincount(bins, minlength=len(upper))[first:]
    return Histogram(title, tuple(labels), tuple(counts.tolist()))


def histogram_of_classes(title: str, counts: ArrayLike, names: Sequence[str]) -> Histogram:
    """Show given counts, one bar per class, in the order of the classes."""
    return Histogram(title, tuple(names), tuple(np.asarray(counts).tolist()))


MAX_NAMED = 8
"""A sentence names this many features or classes at most."""


def count_oddity(
    is_odd: NDArray[np.bool_], noun: str, remark: str, names: Sequence[str] | None = None
) -> list[str]:
    """Return one sentence on how many entries are odd, and which; none if there are none.

    Examples
    --------
    >>> count_oddity(np.array([True, False, True]), "class", "without a bag", ["a", "b", "c"])
    ['2 classes without a bag: a, c']
    """
    n_odd = int(is_odd.sum())
    if n_odd == 0:
        return []
    sentence = f"{_counted(n_odd, noun)} {remark}"
    if names is None:
        return [sentence]
    odd = [name for name, odd in zip(names, is_odd, strict=True) if odd]
    more = f" and {n_odd - MAX_NAMED} more" if n_odd > MAX_NAMED else ""
    return [f"{sentence}: {', '.join(odd[:MAX_NAMED])}{more}"]


def is_duplicate_row(features: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows that repeat an earlier one exactly."""
    rows = np.ascontiguousarray(features)
    as_bytes = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first = np.unique(as_bytes, return_index=True)
    repeated = np.ones(len(rows), dtype=bool)
    repeated[first] = False
    return repeated


def is_constant_feature(features: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the columns that hold one value only."""
    constant: NDArray[np.bool_] = features.min(axis=0) == features.max(axis=0)
    return constant


def scale_oddity(features: NDArray[Any]) -> list[str]:
    """Remark on features of very different spread, which distances and step sizes suffer from."""
    spread = features.std(axis=0, dtype=np.float64)
    spread = spread[spread > 0]
    if len(spread) and spread.max() > 100 * spread.min():
        return ["the features differ more than a hundredfold in spread; scale them"]
    return []


def _counted(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}{'es' if noun.endswith('s') else 's'}"


CLICKS_TO_BE_TESTED = {"leave_one_out": 3, "authors": 7, "paper": 14}
"""Clicks a user needs to be held out by each protocol of `split_clicks`, at groups of 5."""

Facts = dict[str, "int | float | str"]


@dataclass(frozen=True)
class Description:
    """The answer of `describe`.

    Attributes
    ----------
    name : str
        Of the data set.
    setting : str
        `mil`, `pll` or `rs`.
    facts : dict
        Counts and means by what they count.
    histograms : tuple of Histogram
        Sizes and class balance.
    oddities : tuple of str
        One sentence for each thing worth a look before training.
    """

    name: str
    setting: str
    facts: Facts
    histograms: tuple[Histogram, ...]
    oddities: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON.

        Returns
        -------
        dict
            One entry per field.
        """
        return asdict(self)


@dataclass
class _Draft:
    """A description in the making."""

    facts: Facts = field(default_factory=dict)
    histograms: list[Histogram] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)

    def finish(self, name: str, setting: str) -> Description:
        return Description(name, setting, self.facts, tuple(self.histograms), tuple(self.oddities))


def describe(dataset: BagDataset | PartialLabelDataset | ClickDataset) -> Description:
    """Count what a data set holds and name what is odd about it.

    Parameters
    ----------
    dataset : BagDataset, PartialLabelDataset or ClickDataset
        What to look at.

    Returns
    -------
    Description
        Facts, histograms and warnings.

    Examples
    --------
    >>> from groupnoise.bags import load_digit_bags
    >>> description = describe(load_digit_bags(12, random_state=0))
    >>> description.facts["bags"], description.facts["classes"]
    (12, 6)
    """
    if isinstance(dataset, BagDataset):
        return _describe_bags(dataset)
    if isinstance(dataset, PartialLabelDataset):
        return _describe_candidates(dataset)
    return _describe_clicks(dataset)


def _describe_bags(dataset: BagDataset) -> Description:
    sizes, names = dataset.bags.sizes, dataset.class_names
    n_bags_of = dataset.labels.sum(axis=0)
    draft = _Draft()
    draft.facts |= {
        "bags": len(dataset.bags),
        "instances": dataset.bags.n_objects,
        "features": dataset.bags.objects.shape[1],
        "classes": len(names),
        "instances per bag, mean": float(sizes.mean()),
        "labels per bag, mean": float(dataset.labels.sum(axis=1).mean()),
    }
    draft.histograms += [
        histogram_of_sizes("Instances per bag", sizes),
        histogram_of_classes("Bags per class", n_bags_of, names),
    ]
    _add_features(draft, dataset.bags.objects)
    draft.oddities += count_oddity(n_bags_of == 0, "class", "without a bag", names)
    if dataset.instance_labels is None:
        draft.oddities.append("no instance label is known, so single instances cannot be scored")
    else:
        _add_instance_truth(draft, dataset, dataset.instance_labels)
    return draft.finish(dataset.name, "mil")


def _add_instance_truth(draft: _Draft, dataset: BagDataset, truth: IntArray) -> None:
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
    draft.oddities += count_oddity(lacks_witness.ravel(), "bag label", "without a known witness")
    draft.oddities += count_oddity(
        known & ~is_witness & ~is_negative,
        "instance",
        "of a true class that is no label of the bag",
    )


def _describe_candidates(dataset: PartialLabelDataset) -> Description:
    names = dataset.class_names
    n_candidates = dataset.candidates.sum(axis=1)
    n_candidate_of = dataset.candidates.sum(axis=0)
    draft = _Draft()
    draft.facts |= {
        "rows": len(dataset.features),
        "features": dataset.features.shape[1],
        "classes": len(names),
        "candidates per row, mean": float(n_candidates.mean()),
        "rows with more than one candidate, share": float((n_candidates > 1).mean()),
    }
    draft.histograms += [
        histogram_of_sizes("Candidates per row", n_candidates),
        histogram_of_classes("Rows each class is a candidate of", n_candidate_of, names),
    ]
    _add_features(draft, dataset.features)
    draft.oddities += count_oddity(n_candidate_of == 0, "class", "in no candidate set", names)
    if dataset.truth is None:
        draft.oddities.append("no true label is known, so predictions cannot be scored")
    else:
        _add_label_truth(draft, dataset, dataset.truth)
    return draft.finish(dataset.name, "pll")


def _add_label_truth(draft: _Draft, dataset: PartialLabelDataset, truth: IntArray) -> None:
    """Add how often each class is the truth, and where truth is unknown or no candidate."""
    names = dataset.class_names
    known = truth >= 0
    is_inside = dataset.candidates[np.arange(len(truth)), np.maximum(truth, 0)]
    n_true_of = np.bincount(truth[known], minlength=len(names))
    draft.facts["rows without truth"] = int((~known).sum())
    draft.histograms.append(
        histogram_of_classes("Rows each class is the truth of", n_true_of, names)
    )
    draft.oddities += [
        *count_oddity(~known, "row", "without a true label"),
        *count_oddity(known & ~is_inside, "row", "with a true label outside the candidates"),
        *count_oddity(n_true_of == 0, "class", "true of no row", names),
    ]


def _describe_clicks(dataset: ClickDataset) -> Description:
    histories, lengths = dataset.histories, dataset.histories.sizes
    n_clicks_of = np.bincount(histories.objects, minlength=dataset.n_items)
    pairs = histories.group_of_object * dataset.n_items + histories.objects
    busiest = np.sort(n_clicks_of)[::-1][: max(1, dataset.n_items // 100)]
    draft = _Draft()
    draft.facts |= {
        "users": len(histories),
        "items": dataset.n_items,
        "clicks": histories.n_objects,
        "clicks per user, mean": float(lengths.mean()),
        "clicks per item, mean": float(n_clicks_of.mean()),
        "clicks on the busiest 1 % of items, share": float(busiest.sum() / histories.n_objects),
        "clicks on an item the user clicked before": len(pairs) - len(np.unique(pairs)),
    }
    if dataset.is_stray is not None:
        draft.facts["stray clicks, share"] = float(dataset.is_stray.mean())
    for protocol, least in CLICKS_TO_BE_TESTED.items():
        n_short = int((lengths < least).sum())
        draft.facts[f"users never tested under `{protocol}` (fewer than {least} clicks)"] = n_short
    for key, value in dataset.notes.items():
        if isinstance(value, (int, float, str)):
            draft.facts[key.replace("_", " ")] = value
    draft.histograms += [
        histogram_of_sizes("Clicks per user", lengths),
        histogram_of_sizes("Clicks per item", n_clicks_of),
    ]
    draft.oddities += [
        *count_oddity(lengths == 1, "user", "with a single click, too few for any group"),
        *count_oddity(n_clicks_of == 0, "item", "without a click"),
    ]
    if dataset.titles is not None:
        without_title = np.array([not title.strip() for title in dataset.titles])
        draft.oddities += count_oddity(without_title, "item", "without a title")
    return draft.finish(dataset.name, "rs")


def _add_features(draft: _Draft, features: NDArray[Any]) -> None:
    """Add repeated rows, constant features and unequal scales."""
    is_duplicate, is_constant = is_duplicate_row(features), is_constant_feature(features)
    draft.facts["duplicate rows"] = int(is_duplicate.sum())
    draft.facts["constant features"] = int(is_constant.sum())
    numbers = [str(column) for column in range(features.shape[1])]
    draft.oddities += [
        *count_oddity(is_duplicate, "row", "of features that repeat an earlier one"),
        *count_oddity(is_constant, "feature", "without variation", numbers),
        *scale_oddity(features),
    ]
