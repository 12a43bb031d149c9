"""Descriptions of data sets: counts, histograms and oddities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from groupnoise.core.arrays import row_hashes
from groupnoise.core.words import counted
from groupnoise.io.datasets import BagDataset, ClickDataset, PartialLabelDataset

MAX_SINGLE_BARS = 24
"""Up to this many distinct sizes get a bar each; beyond, bins double in width."""
MAX_NAMED = 8
"""A sentence names this many features or classes at most."""


@dataclass(frozen=True)
class Histogram:
    """A titled row of bars.

    `title`: what is counted.
    `labels`: what each bar stands for.
    `counts`: how high each bar is.
    """

    title: str
    labels: tuple[str, ...]
    counts: tuple[int, ...]


def histogram_of_sizes(title: str, sizes: ArrayLike) -> Histogram:
    """Count whole numbers: one bar each, or bins of 1, 2, 3-4, 5-8, ... where they reach far.

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


def count_oddity(
    is_odd: NDArray[np.bool_], things: str, remark: str, names: Sequence[str] | None = None
) -> list[str]:
    """Return one sentence on how many entries are odd, and which; none if there are none.

    >>> count_oddity(np.array([True, False, True]), "classes", "without a bag", ["a", "b", "c"])
    ['2 classes without a bag: a, c']
    """
    n_odd = int(is_odd.sum())
    if n_odd == 0:
        return []
    sentence = f"{counted(n_odd, things)} {remark}"
    if names is None:
        return [sentence]
    odd = [name for name, odd in zip(names, is_odd, strict=True) if odd]
    more = f" and {n_odd - MAX_NAMED} more" if n_odd > MAX_NAMED else ""
    return [f"{sentence}: {', '.join(odd[:MAX_NAMED])}{more}"]


def is_duplicate_row(features: NDArray[Any]) -> NDArray[np.bool_]:
    """Mark the rows that repeat an earlier one exactly."""
    _, first = np.unique(row_hashes(features), return_index=True)
    repeated = np.ones(len(features), dtype=bool)
    repeated[first] = False
    return repeated


def scale_oddity(features: NDArray[Any]) -> list[str]:
    """Remark on features of very different spread, which distances and step sizes suffer from."""
    spread = features.std(axis=0, dtype=np.float64)
    spread = spread[spread > 0]
    if len(spread) and spread.max() > 100 * spread.min():
        return [
            "feature scales differ more than a hundredfold; `fit` scales them, other tools may not"
        ]
    return []


Facts = dict[str, "int | float | str"]


@dataclass
class Description:
    """The answer of `describe`.

    `setting`: `mil`, `pll` or `rs`.
    `facts`: counts and means by what they count.
    `histograms`: sizes and class balance.
    `oddities`: one sentence for each thing worth a look before training.
    """

    name: str
    setting: str
    facts: Facts = field(default_factory=dict)
    histograms: list[Histogram] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return asdict(self)


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
    from groupnoise.io.setting import setting_of

    return setting_of(dataset).describe(dataset)


def add_features(draft: Description, features: NDArray[Any]) -> None:
    """Add repeated rows, constant features and unequal scales."""
    is_duplicate = is_duplicate_row(features)
    is_constant = features.min(axis=0) == features.max(axis=0)
    draft.facts["duplicate rows"] = int(is_duplicate.sum())
    draft.facts["constant features"] = int(is_constant.sum())
    numbers = [str(column) for column in range(features.shape[1])]
    draft.oddities += [
        *count_oddity(is_duplicate, "rows", "with the same features as an earlier row"),
        *count_oddity(is_constant, "features", "without variation", numbers),
        *scale_oddity(features),
    ]


def format_fact(value: int | float | str) -> str:
    """Write a count with thousands apart, a mean with three digits or none, text as it is.

    >>> format_fact(47355), format_fact(0.13999), format_fact("keep")
    ('47,355', '0.14', 'keep')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
