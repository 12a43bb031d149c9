"""Labels of bags and instances in tables: spellings, missing labels, and the negative label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from groupnoise.bags.reading.inputs import has_all_witnesses
from groupnoise.bags.reading.negative_label import (
    BINARY_NEGATIVE_NAMES,
    NEGATIVE_NAMES,
    find_negative_label,
)
from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.words import counted, quoted
from groupnoise.exceptions import DataError
from groupnoise.io.answer_files import BAG_REVIEW_COLUMNS
from groupnoise.io.datasets import BagDataset, subset_bags
from groupnoise.io.labels.memberships import NO_LABEL, read_truth
from groupnoise.io.labels.normalization import normalize_labels
from groupnoise.io.labels.spellings import label_warnings
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table, read_table

ZERO, ONE = {"0", "0.0", "false"}, {"1", "1.0", "true"}
NEGATIVE_TRUTH = (*NO_LABEL, *NEGATIVE_NAMES, *BINARY_NEGATIVE_NAMES)
"""Lower-case words for an instance of the negative class, or of no class if there is none."""
GAPS = ("", "-1")


@dataclass(frozen=True)
class KnownLabels:
    """Labels of a fitted model that bags are read for.

    `classes`: the truth may name them although no bag has them.
    `negative`: its negative label.
    `has_sets`: whether bags may have several labels or none.
    """

    classes: tuple[str, ...] = ()
    negative: str | None = None
    has_sets: bool = False


def get_known_labels(fitted: Any) -> KnownLabels:
    """Return the labels of a fitted model; the negative label of a baseline goes by its name."""
    classes = tuple(str(label) for label in fitted.classes_.tolist())
    has_sets = bool(
        getattr(fitted, "_predicts_label_sets", getattr(fitted, "is_multi_label_", False))
    )
    own = getattr(fitted, "negative_label_", None)
    if own is None and not hasattr(fitted, "negative_label_"):
        own = negative_name(classes, np.zeros((0, len(classes)), dtype=bool))
    return KnownLabels(classes, None if own is None else str(own), has_sets)


def negative_name(class_names: Sequence[str], labels: BoolArray) -> str | None:
    """Return the label recognised as negative by its name, as in `fit`."""
    column, _ = find_negative_label("auto", np.asarray(class_names), labels)
    return None if column is None else class_names[column]


def negative_label_hint(fitted: Any) -> tuple[str, ...]:
    """Return a hint on `negative_label` if neither of two labels was recognised as negative."""
    is_open = getattr(fitted, "negative_label", None) == "auto" and fitted.negative_label_ is None
    if not is_open or len(fitted.classes_) != 2 or get_known_labels(fitted).has_sets:
        return ()
    one, other = map(str, fitted.classes_)
    return (
        f"neither {one!r} nor {other!r} was taken as the negative label; if bags of one contain "
        f"nothing of the other, say -p negative_label={one}, or {other}",
    )


def report_label_issues(
    class_names: Sequence[str], labels: BoolArray, locate: Callable[[int], str], report: Report
) -> None:
    """Report bags without a label, and labels that may be misspelt or placeholders.

    `labels` (n_bags, n_classes). `locate`: describes the place of a bag.
    """
    n_without = int((~labels.any(axis=1)).sum())
    if n_without:
        report(
            f"{n_without} of {counted(len(labels), 'bags')} "
            f"{'has' if n_without == 1 else 'have'} no "
            "label: all of their instances are "
            "background"
        )
    may_lack = n_without > 0 or bool((labels.sum(axis=1) > 1).any())
    remedy = (
        "where they mean that a bag has none, empty those cells"
        if may_lack
        else "where they mean that the label is not known, leave out those bags"
    )
    negative = negative_name(class_names, labels)
    for sentence in label_warnings(class_names, labels, locate, negative=negative, remedy=remedy):
        report(sentence)


def merge_spellings(
    names: list[str], memberships: BoolArray, group_of_row: IntArray, report: Report
) -> tuple[list[str], BoolArray]:
    """Merge spellings of one label that occur in the same bag, and report it.

    `memberships` (n_rows, n_classes): labels of the rows.
    """
    by_group = np.zeros((int(group_of_row.max()) + 1, len(names)), dtype=np.int64)
    np.add.at(by_group, group_of_row, memberships)
    counts = dict(zip(names, memberships.sum(axis=0).tolist(), strict=True))
    heard = {old: new for old, new in normalize_labels(counts).items() if new is not None}
    pairs = [(names.index(old), names.index(new)) for old, new in heard.items()]
    if not any((by_group[:, old] * by_group[:, new]).any() for old, new in pairs):
        return names, memberships
    merged = memberships.copy()
    for old, new in pairs:
        merged[:, new] |= merged[:, old]
    shown = [f"{old!r} as {new!r}" for old, new in heard.items()]
    report(
        f"read {', '.join(shown)}: bags hold both, which differ in capitals, blanks or marks alone"
    )
    kept = [number for number, name in enumerate(names) if name not in heard]
    return [names[number] for number in kept], merged[:, kept]


def read_bag_truth(
    table: Table,
    column: str,
    class_names: Sequence[str],
    labels: BoolArray,
    bag_of_row: IntArray,
    known: KnownLabels,
    report: Report,
) -> tuple[list[str], IntArray]:
    """Return the classes, and the class of each row, -1 where it is background or not known.

    Classes of the model that the truth names are added to those of the bags. Words such as
    `background` are the negative label where there is one; so are empty cells, if nothing else
    says it and every other label of a bag has an instance. `labels` (n_bags, n_classes): of the
    bags. `bag_of_row`: the bag of each row. `known`: what a model knows.
    """
    names = [*class_names, *(name for name in known.classes if name not in class_names)]
    padded = np.pad(labels, ((0, 0), (0, len(names) - labels.shape[1])))
    negative = known.negative if known.negative in names else negative_name(names, padded)
    text = table.frame[column].cast(pl.String).fill_null("").str.strip_chars().str.to_lowercase()
    called: dict[str, str | None] = dict.fromkeys(NEGATIVE_TRUTH, negative)
    are_codes = len(names) == 2 and text.is_in(ZERO | ONE).any() and not text.is_in(names).any()
    if negative is not None and are_codes:
        yes = names[1 - names.index(negative)]
        called |= dict.fromkeys(ZERO, negative) | dict.fromkeys(ONE, yes)
        report(f"column {column!r} holds 0 and 1: 0 is read as {negative!r}, 1 as {yes!r}")
    truth = read_truth(table, column, names, called)
    if negative is None:
        words = {*NEGATIVE_NAMES, *BINARY_NEGATIVE_NAMES} - {
            *NO_LABEL,
            *(name.lower() for name in names),
        }
        if said := sorted(words.intersection(text)):
            report(f"took {quoted(said)} in column {column!r} as background")
    else:
        place = names.index(negative)
        gaps = (truth < 0) & text.is_in(GAPS).to_numpy()
        others = padded & (np.arange(len(names)) != place)
        if (
            gaps.any()
            and not (truth == place).any()
            and has_all_witnesses(truth, others, bag_of_row)
        ):
            truth[gaps] = place
            report(
                f"{int(gaps.sum())} empty cells of column {column!r} are read as {negative!r}: "
                "no other cell means it, and every other label of a bag has an instance"
            )
    n_classes = max(len(class_names), int(truth.max(initial=-1)) + 1)
    return names[:n_classes], truth


def apply_review_answers(dataset: BagDataset, path: str) -> BagDataset:
    """Apply an export of `review` to bags: instance labels, and labels that no object carries.

    The latter are removed from their bag, which is dropped if no label remains. Lines about other
    bags are ignored.
    """
    table = read_table(path, words=BAG_REVIEW_COLUMNS)
    lacking = [name for name in BAG_REVIEW_COLUMNS if name not in table.frame.columns]
    if lacking:
        raise DataError(
            f"{path} is no export of `groupnoise review` about bags: it lacks {quoted(lacking)}. "
            "To learn from a column of the data, give its name."
        )
    bags = dataset.bags
    number = {str(each): place for place, each in enumerate(dataset.ids.tolist())}
    truth, labels = np.full(bags.n_objects, -1, dtype=np.int64), dataset.labels.copy()
    for row, (bag, label, position, who) in enumerate(
        table.frame.select(BAG_REVIEW_COLUMNS).iter_rows()
    ):
        if not who or bag not in number:
            continue
        at, sizes = number[bag], bags.sizes
        if label not in dataset.class_names:
            raise DataError(f"{table.locate(row)}: no bag has the label {label!r}.")
        if not position:
            labels[at, dataset.class_names.index(label)] = False
        elif position.isdecimal() and int(position) < sizes[at]:
            truth[bags.offsets[at] + int(position)] = dataset.class_names.index(label)
        else:
            raise DataError(
                f"{table.locate(row)}: bag {bag!r} has no object {position!r}; they go from 0 to "
                f"{sizes[at] - 1}."
            )
    teaches = labels.any(axis=1) | ~dataset.labels.any(axis=1)
    return subset_bags(replace(dataset, labels=labels, instance_labels=truth), teaches)


def fill_negative_label(dataset: BagDataset, negative: str | None) -> BagDataset:
    """Give bags without a label the negative label of the model, if it has one."""
    without = ~dataset.labels.any(axis=1)
    if negative is None or not without.any():
        return dataset
    names = [*dataset.class_names, *([] if negative in dataset.class_names else [negative])]
    labels = np.pad(dataset.labels, ((0, 0), (0, len(names) - len(dataset.class_names))))
    labels[without, names.index(negative)] = True
    return replace(dataset, labels=labels, class_names=names)
