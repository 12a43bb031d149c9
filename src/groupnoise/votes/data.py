"""Votes: which annotator gave which labels to which row, how sure, and how far they agree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from groupnoise.core.arrays import BoolArray, FloatArray, IntArray
from groupnoise.core.checks import did_you_mean
from groupnoise.core.words import counted
from groupnoise.exceptions import DataError
from groupnoise.io.tables.sources import Report
from groupnoise.votes.part_names import StatedVote, VoteValue

MAX_UNKNOWN = 5
"""Labels outside the list that are named at most."""


@dataclass(frozen=True)
class Votes:
    """Votes of annotators on rows, each a distribution over labels.

    A vote for one label puts all its weight there; a vote for several labels means "one of
    these"; weights by label say how sure the annotator is.

    Attributes
    ----------
    rows : int64 ndarray of shape (n_votes,)
        The row each vote is about.
    annotators : int64 ndarray of shape (n_votes,)
        Who gave it, as a position in `annotator_names`.
    weights : ndarray of shape (n_votes, n_classes)
        Weight of each label in a vote; sums to one.
    n_rows : int
        Number of rows, those without votes included.
    class_names : list of str
        The labels.
    annotator_names : list of str
        The annotators.
    named : bool ndarray of shape (n_votes, n_classes), optional
        The labels that a vote named, where doubt gave weight to others too; None where a label
        was named if it has weight.
    """

    rows: IntArray
    annotators: IntArray
    weights: FloatArray
    n_rows: int
    class_names: list[str]
    annotator_names: list[str]
    named: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def n_classes(self) -> int:
        """Number of labels."""
        return len(self.class_names)

    @property
    def counts(self) -> IntArray:
        """Votes of each row, shape (n_rows,)."""
        return np.bincount(self.rows, minlength=self.n_rows).astype(np.int64)

    @cached_property
    def by_annotator(self) -> list[tuple[IntArray, FloatArray]]:
        """Positions of the votes of each annotator, and their weights."""
        order = np.argsort(self.annotators, kind="stable")
        n_votes = np.bincount(self.annotators, minlength=len(self.annotator_names))
        parts = np.split(order, np.cumsum(n_votes)[:-1])
        return [(part, self.weights[part]) for part in parts]

    def take(self, chosen: BoolArray) -> Votes:
        """Return some of the votes on the same rows.

        Parameters
        ----------
        chosen : bool ndarray of shape (n_votes,)
            Which.

        Returns
        -------
        votes : Votes
            Rows, labels and annotators stay as they are.
        """
        return replace(
            self,
            rows=self.rows[chosen],
            annotators=self.annotators[chosen],
            weights=self.weights[chosen],
            named=None if self.named is None else self.named[chosen],
        )

    def totals(self) -> FloatArray:
        """Return the votes for each label of each row, shape (n_rows, n_classes).

        Returns
        -------
        totals : ndarray of shape (n_rows, n_classes)
            Sums of weights.
        """
        totals = np.zeros((self.n_rows, self.n_classes))
        np.add.at(totals, self.rows, self.weights)
        return totals

    def candidates(self) -> BoolArray:
        """Return which labels anybody named for a row, shape (n_rows, n_classes).

        Returns
        -------
        candidates : bool ndarray of shape (n_rows, n_classes)
            True where a label was named; doubt about one names no others.
        """
        candidates = np.zeros((self.n_rows, self.n_classes), dtype=bool)
        np.logical_or.at(candidates, self.rows, self.named_labels())
        return candidates

    def named_labels(self) -> BoolArray:
        """Return the labels that each vote named.

        Returns
        -------
        named : bool ndarray of shape (n_votes, n_classes)
            True where a label was named.
        """
        return np.asarray(self.weights > 0) if self.named is None else self.named

    def doubt(self) -> FloatArray:
        """Return the weight that each vote gives to every label it does not name.

        Returns
        -------
        doubt : ndarray of shape (n_votes,)
            0 where no confidence was said.
        """
        if self.named is None:
            return np.zeros(len(self))
        return np.asarray(np.where(self.named.all(axis=1), 0.0, self.weights.min(axis=1)))

    def first_choices(self) -> Votes:
        """Return what each vote says first: the label of most weight, however sure it is.

        Returns
        -------
        votes : Votes
            Labels of one vote that share the most weight share the vote.
        """
        is_first = self.weights >= self.weights.max(axis=1, keepdims=True) * (1.0 - 1e-9)
        weights = is_first / is_first.sum(axis=1, keepdims=True)
        return replace(self, weights=weights, named=None)

    def shares(self) -> FloatArray:
        """Return the share of the votes for each label, 0 in rows without votes.

        Returns
        -------
        shares : ndarray of shape (n_rows, n_classes)
            Rows with votes sum to one.
        """
        counts = self.counts
        return self.totals() / np.maximum(counts, 1)[:, None]

    @classmethod
    def from_entries(
        cls,
        entries: Iterable[tuple[int, str, VoteValue, float | None]],
        n_rows: int,
        *,
        class_names: Sequence[str] | None = None,
        annotator_names: Sequence[str] | None = None,
        locate: Any = None,
        report: Report | None = None,
    ) -> Votes:
        """Return votes from entries (row, annotator, value, confidence or None).

        Parameters
        ----------
        entries : iterable of tuple
            The value is a label, several labels, weights by label, or None for no vote. A
            confidence c in [0, 1] spreads 1 - c over all labels.
        n_rows : int
            Number of rows.
        class_names : sequence of str, optional
            All labels there are; by default those that were said, sorted.
        annotator_names : sequence of str, optional
            All annotators; by default in the order of their first vote.
        locate : callable, optional
            Given a row and an annotator, returns where the vote is written, for error messages.
        report : callable, optional
            Told how many votes were given twice alike.

        Returns
        -------
        votes : Votes
            A vote said twice alike counts once; twice differently is refused.
        """
        where = locate or (lambda row, _: f"row {row}")
        said: dict[tuple[int, str], tuple[dict[str, float], float | None]] = {}
        repeated: list[tuple[int, str]] = []
        for row, annotator, vote, confidence in entries:
            if not 0 <= row < n_rows:
                raise DataError(
                    f"a vote of {annotator!r} is about row {row} of {counted(n_rows, 'rows')}."
                )
            weights = labels_of(vote, where(row, annotator), annotator)
            if not weights:
                continue
            if confidence is not None and not 0.0 <= confidence <= 1.0:
                raise DataError(
                    f"{where(row, annotator)}: the confidence of {annotator!r} is {confidence:g}; "
                    "it must lie between 0 and 1; write 90 of 100 as 0.9."
                )
            given = weights, confidence
            before = said.setdefault((row, annotator), given)
            if before != given:
                raise DataError(
                    f"{where(row, annotator)}: {annotator!r} voted twice, for {_listed(*before)} "
                    f"and for {_listed(*given)}; keep one of the two votes."
                )
            if before is not given:
                repeated.append((row, annotator))
        if repeated and report is not None:
            row, annotator = repeated[0]
            were = "vote was" if len(repeated) == 1 else "votes were"
            report(
                f"{len(repeated)} {were} given more than once alike "
                f"and counted once, the first by {annotator!r} at {where(row, annotator)}"
            )
        names = list(class_names) if class_names is not None else _sorted_labels(said.values())
        position = {name: number for number, name in enumerate(names)}
        unknown: dict[str, tuple[int, str]] = {}
        for at, (weights, _) in said.items():
            for label in weights:
                if label not in position:
                    unknown.setdefault(label, at)
        if unknown:
            raise DataError(_outside_the_list(unknown, names, where))
        people = list(dict.fromkeys([*(annotator_names or ()), *(who for _, who in said)]))
        number_of = {name: number for number, name in enumerate(people)}
        matrix = np.zeros((len(said), len(names)))
        for vote_number, (weights, _) in enumerate(said.values()):
            for label, weight in weights.items():
                matrix[vote_number, position[label]] += weight
        sure = np.array([1.0 if sure is None else sure for _, sure in said.values()])
        named = None if (sure == 1.0).all() else matrix > 0
        if named is not None:
            matrix = sure[:, None] * matrix + (1.0 - sure[:, None]) / len(names)
        return cls(
            np.array([row for row, _ in said], dtype=np.int64),
            np.array([number_of[who] for _, who in said], dtype=np.int64),
            matrix,
            n_rows,
            names,
            people,
            named,
        )


def is_checked(votes: Votes, truth: IntArray | None) -> BoolArray:
    """Return the rows whose votes can be checked: by a second vote, or a true label.

    `truth`: the column of the true label of each row, -1 where it is not known.
    """
    is_paired = votes.counts > 1
    return is_paired if truth is None else np.asarray(is_paired | (truth >= 0))


def labels_of(vote: VoteValue, where: str, annotator: str) -> dict[str, float]:
    """Return the weight of each label in a vote, summing to one; empty where nothing was said."""
    if isinstance(vote, StatedVote):
        return labels_of(vote.said, where, annotator)
    cell: Any = vote
    if cell is None or (isinstance(cell, float) and np.isnan(cell)):
        return {}
    if isinstance(vote, Mapping):
        weights = {as_label(label): _number(weight) for label, weight in vote.items()}
        for label, weight in weights.items():
            if not np.isfinite(weight) or weight < 0:
                raise DataError(
                    f"{where}: {annotator!r} gives {label!r} the weight {vote.get(label)!r}; "
                    "weights are numbers of 0 or more."
                )
        weights = {label: weight for label, weight in weights.items() if weight > 0}
    elif isinstance(vote, str) or not isinstance(vote, Iterable):
        label = as_label(vote)
        weights = {label: 1.0} if label else {}
    else:
        weights = {as_label(label): 1.0 for label in vote if as_label(label)}
    total = sum(weights.values())
    return {label: weight / total for label, weight in weights.items()}


def _outside_the_list(
    unknown: Mapping[str, tuple[int, str]], names: Sequence[str], where: Callable[[int, str], str]
) -> str:
    """Return the error message on labels outside the list, with the first vote for each."""
    label, (row, annotator) = next(iter(unknown.items()))
    others = [
        f"{name!r} ({where(*at)}){did_you_mean(name, names)}"
        for name, at in list(unknown.items())[1:MAX_UNKNOWN]
    ]
    if len(unknown) > MAX_UNKNOWN:
        others.append(f"{len(unknown) - MAX_UNKNOWN} more")
    nor = f"; nor {'is' if len(others) == 1 else 'are'} {', '.join(others)}" if others else ""
    it = "them" if others else "it"
    return (
        f"{where(row, annotator)}: {annotator!r} names {label!r}, which is not one of the "
        f"{len(names)} labels{did_you_mean(label, names)}{nor}; correct {it} or add {it} to the "
        "list."
    )


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def as_label(value: Any) -> str:
    """Return a label as text; whole numbers without a decimal point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _sorted_labels(votes: Iterable[tuple[Mapping[str, float], float | None]]) -> list[str]:
    named = {label for weights, _ in votes for label in weights}
    if not named:
        raise DataError("there is no vote at all, so there is nothing to learn from.")
    is_number = all(label.lstrip("-").isdecimal() for label in named)
    return sorted(named, key=int if is_number else str)


def _listed(weights: Mapping[str, float], confidence: float | None) -> str:
    labels = ", ".join(repr(label) for label in weights)
    return labels if confidence is None else f"{labels} with confidence {confidence:g}"


def krippendorff_alpha(votes: Votes) -> float:
    """Return Krippendorff's alpha for labels without an order (nominal).

    1 is perfect agreement, 0 what chance would give, below 0 systematic disagreement. Rows with a
    single vote say nothing about agreement and are left out. Of weights and confidences the label
    that has most counts; a vote for several labels alike is divided among them.

    Parameters
    ----------
    votes : Votes
        Who said what.

    Returns
    -------
    alpha : float
        NaN where no row has two votes; 1 where all votes are for one and the same label.

    Examples
    --------
    >>> entries = [(0, "a", "x", None), (0, "b", "x", None), (1, "a", "y", None)]
    >>> krippendorff_alpha(Votes.from_entries([*entries, (1, "b", "y", None)], n_rows=2))
    1.0
    """
    observed = coincidences(votes.first_choices())
    by_label = observed.sum(axis=1)
    total = by_label.sum()
    if total <= 1:
        return float("nan")
    disagreement = total - np.trace(observed)
    expected = (total**2 - (by_label**2).sum()) / (total - 1)
    if expected <= 0:
        return 1.0
    return float(1.0 - disagreement / expected)


def coincidences(votes: Votes) -> FloatArray:
    """Return how often two votes on one row are for labels c and k, shape (n_classes, n_classes).

    Each row counts as often as it has votes, whatever its number of pairs.
    """
    counts = votes.counts
    is_paired = counts[votes.rows] > 1
    scale = 1.0 / (counts[votes.rows] - 1)[is_paired]
    single = votes.weights[is_paired]
    paired_rows = counts > 1
    totals = votes.totals()[paired_rows]
    row_scale = 1.0 / (counts[paired_rows] - 1)
    together = (totals * row_scale[:, None]).T @ totals
    # A vote makes no pair with itself.
    return np.asarray(together - (single * scale[:, None]).T @ single)
