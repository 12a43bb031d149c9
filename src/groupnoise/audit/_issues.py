"""GroupIssues: what an audit found, as tables and as ranked lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._checks import check_choice, require
from groupnoise._typing import IntArray
from groupnoise.audit._evidence import Columns
from groupnoise.audit._kinds import ISSUE_KINDS, IssueKind
from groupnoise.audit._tables import write_table

NAMED_COLUMNS = ("source", "target", "object", "suggested")
"""Columns that number bags, instances, classes or items, and are shown by name."""


@dataclass(frozen=True)
class GroupIssues:
    """What an audit found.

    Attributes
    ----------
    setting : {"mil", "pll", "rs"}
        Bags, candidate labels or click histories.
    groups : mapping of str to ndarray of shape (n_groups,)
        One row per group. `source` is the bag, row or history it comes from, `target` what it is
        tied to and `size` how many objects it holds. `chosen` is the place of the object that
        matches best and `object` which one that is; `probability` is its posterior, `margin` its
        lead over the runner-up, `entropy` that of the posterior in nats, `weight`
        P(object | group). `doubt` is the chance that no object is credible, `suspicion` how much
        the target looks wrong, and `suggested` the target that would fit better, -1 for none.
    objects : mapping of str to ndarray of shape (n_objects,)
        One row per instance, candidate label or click: `source`, `place` in it, `object`, the
        largest `share` it has in a group, `times_chosen`, and `noise`, the chance that it does
        not belong.
    names : mapping of str to ndarray
        For "source", "target" and "object", the name of each number; columns without names hold
        places. Instances of bags read from a table are named by its rows, from 0.
    """

    setting: str
    groups: Columns
    objects: Columns
    names: Mapping[str, NDArray[Any]]

    @classmethod
    def from_evidence(cls, source: Any, tables: tuple[Columns, Columns]) -> GroupIssues:
        """Return the issues of an audited source from its tables of groups and objects."""
        data = source.dataset
        if source.setting == "rs":
            names = {"target": data.item_ids, "object": data.item_ids}
        elif source.setting == "pll":
            names = {"object": np.asarray(data.class_names)}
            names["suggested"] = names["object"]
        else:
            names = {"target": np.asarray(data.class_names)}
            names["suggested"] = names["target"]
            if data.bag_ids is not None:
                names["source"] = data.bag_ids
            if data.source_rows is not None:
                names["object"] = data.source_rows
        return cls(source.setting, *tables, names)

    def __len__(self) -> int:
        return len(self.groups["doubt"]) if self.groups else 0

    @property
    def kinds(self) -> tuple[IssueKind, ...]:
        """The lists this setting has."""
        return ISSUE_KINDS[self.setting]

    def kind(self, name: str) -> IssueKind:
        """Return the list of that name."""
        check_choice("kind", name, [kind.name for kind in self.kinds])
        return next(kind for kind in self.kinds if kind.name == name)

    def ranked(
        self, kind: str, top: int | None = None, *, threshold: float | None = None
    ) -> IntArray:
        """Return the rows of a list, worst first.

        Parameters
        ----------
        kind : str
            The name of one of `kinds`.
        top : int, optional
            At most so many.
        threshold : float, optional
            List rows whose score is above; by default that of the kind.

        Returns
        -------
        int64 ndarray
            Rows of the table that the kind speaks of.
        """
        wanted = self.kind(kind)
        scores = self.table(wanted.table)[wanted.score]
        limit = wanted.threshold if threshold is None else threshold
        above = np.flatnonzero(scores > limit)
        if top is not None and top < len(above):
            above = above[np.argpartition(-scores[above], top)[:top]]
        rows: IntArray = above[np.argsort(-scores[above], kind="stable")]
        return rows

    def table(self, name: str) -> Columns:
        """Return the columns of "groups", "objects" or "never_chosen"."""
        check_choice("table", name, ("groups", "objects", "never_chosen"))
        if name == "never_chosen":
            return self._never_chosen()
        return self.groups if name == "groups" else self.objects

    def _never_chosen(self) -> Columns:
        """Return one row per distinct object that no group chose."""
        distinct, place = np.unique(self.objects["object"], return_inverse=True)
        n_chosen = np.bincount(place, weights=self.objects["times_chosen"])
        n_seen = np.bincount(place)
        noise = np.bincount(place, weights=self.objects["noise"]) / n_seen
        never = n_chosen == 0
        first = np.unique(place, return_index=True)[1]
        return {
            "source": self.objects["source"][first][never],
            "object": distinct[never],
            "occurrences": n_seen[never],
            "noise": noise[never],
        }

    def summary(self) -> dict[str, int]:
        """Return how many groups and objects there are, and how many rows each list has."""
        counts = {"groups": len(self), "objects": len(self.objects["noise"])}
        return {**counts, **{kind.name: len(self.ranked(kind.name)) for kind in self.kinds}}

    def named(self, columns: Columns) -> Columns:
        """Return columns with names in place of the numbers of classes and items."""
        shown = dict(columns)
        for column in NAMED_COLUMNS:
            if column in columns and column in self.names:
                shown[column] = _named(self.names[column], columns[column])
        return shown

    def list_of(self, kind: str, top: int | None = None) -> Columns:
        """Return the rows of a ranked list as a table of names, worst first."""
        rows = self.ranked(kind, top)
        columns = self.table(self.kind(kind).table)
        return self.named({name: values[rows] for name, values in columns.items()})

    def to_polars(self, table: str = "groups") -> Any:
        """Return a table as a polars frame; needs the extra `data`."""
        return require("polars", extra="data").DataFrame(self.named(self.table(table)))

    def to_pandas(self, table: str = "groups") -> Any:
        """Return a table as a pandas frame; needs pandas."""
        return require("pandas", extra="dev").DataFrame(self.named(self.table(table)))

    def write_list(self, path: Path | str, kind: str) -> None:
        """Write a ranked list as .csv, .parquet or .json, whole or not at all."""
        rows = self.ranked(kind)
        columns = self.table(self.kind(kind).table)
        write_table(Path(path), {name: each[rows] for name, each in columns.items()}, self.named)

    def write(self, path: Path | str, table: str = "groups") -> None:
        """Write a table as .csv, .parquet or .json, whole or not at all."""
        write_table(Path(path), self.table(table), self.named)


def _named(names: NDArray[Any], numbers: IntArray) -> NDArray[Any]:
    """Return the name of each number; -1 has none."""
    found: NDArray[Any] = names[numbers]
    if (numbers < 0).any():
        found = np.where(numbers < 0, "", found.astype(np.str_))
    return found
