"""GroupIssues: the findings of an audit as tables and ranked lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import Columns, IntArray
from groupnoise.core.checks import check_choice, require
from groupnoise.core.words import inherit_docstring
from groupnoise.io.answer_files import write_table

NAMED_COLUMNS = ("source", "target", "object", "suggested")
"""Columns of numbers that are shown by name."""


@dataclass(frozen=True)
class IssueKind:
    """One ranked list of an audit.

    `name`: its identifier.
    `title`: its title in the report.
    `meaning`: one sentence of explanation.
    `table` (one of "groups", "objects", "never_chosen", "users"): the table whose rows are listed.
    `score`: the column they are ranked by, largest first.
    `threshold`: rows that score above it are listed.
    """

    name: str
    title: str
    meaning: str
    table: Literal["groups", "objects", "never_chosen", "users"]
    score: str
    threshold: float


_RANKING: dict[str, tuple[Any, ...]] = {
    "wrong_target": ("groups", "suspicion", 0.5),
    "no_credible_object": ("groups", "doubt", 0.5),
    "droppable_candidate": ("objects", "noise", 0.95),
    "never_chosen": ("never_chosen", "noise", 0.0),
    "stray_click": ("objects", "noise", 0.5),
    "suspicious_user": ("users", "excess", 0.0),
}
"""Table, score and threshold of each list, the same in all settings."""
_TEXTS = {
    "mil": {
        "wrong_target": (
            "Labels that look wrong",
            "The bag contradicts the label as much as most bags without it do; in a bag without "
            "a label, that one is missing.",
        ),
        "no_credible_object": (
            "Labels without a credible instance",
            "No instance of the bag has more than an even chance of being of the label.",
        ),
    },
    "pll": {
        "wrong_target": (
            "Rows whose true label seems to be missing",
            "A label outside the candidates is more likely than not.",
        ),
        "no_credible_object": (
            "Rows without a credible candidate",
            "The candidates together have less than an even chance.",
        ),
        "droppable_candidate": (
            "Candidate labels that can be dropped",
            "The label has less than one chance in twenty.",
        ),
        "never_chosen": (
            "Labels never chosen",
            "A candidate of some rows, but the best candidate of none.",
        ),
    },
    "rs": {
        "wrong_target": (
            "Next clicks that look stray",
            "Neither the clicks before nor those after make this next click likelier than its "
            "popularity.",
        ),
        "no_credible_object": (
            "Next clicks that nothing led to",
            "The clicks before it do not make it likelier than its popularity; a new interest "
            "may begin here.",
        ),
        "stray_click": (
            "Stray clicks",
            "The clicks around this one do not make it more likely than its popularity.",
        ),
        "never_chosen": (
            "Items never chosen",
            "Clicked, but in no window the click that led to the next.",
        ),
        "suspicious_user": (
            "Users that look like bots or repeat-clickers",
            "Far more clicks, clicks on one item or clicks within a minute than other users have.",
        ),
    },
}
"""Title and meaning of each list by setting."""
ISSUE_KINDS = {
    setting: tuple(IssueKind(name, *told, *_RANKING[name]) for name, told in kinds.items())
    for setting, kinds in _TEXTS.items()
}
TABLES = ("groups", "objects", "never_chosen", "users")


@inherit_docstring
@dataclass(frozen=True)
class GroupIssues:
    """What an audit found.

    Attributes
    ----------
    setting : {"mil", "pll", "rs"}
        Bags, candidate labels or click histories.
    groups : mapping of str to ndarray of shape (n_groups,)
        One row per group. `source` is the bag, row or history it comes from, `target` what it is
        tied to (-1 of a bag without a label) and `size` how many objects it holds. `chosen` is the
        position of the object that matches best and `object` which one that is; `probability` is
        its posterior, `margin` its lead over the runner-up, `entropy` that of the posterior in
        nats, `weight` P(object | group). `doubt` is the chance that no object is credible,
        `suspicion` how much the target looks wrong, and `suggested` the target that would fit
        better, -1 for none.
    objects : mapping of str to ndarray of shape (n_objects,)
        One row per instance, candidate label or click: `source`, `position` in it, `object`, the
        largest `responsibility` it has in a group, `times_chosen`, and `noise`, the chance that it
        does not belong.
    names : mapping of str to ndarray
        For "source", "target" and "object", the name of each number; columns without names hold
        positions. Instances of bags read from a table are named by its rows, from 0.
    users : mapping of str to ndarray of shape (n_suspicious,), default={}
        Of click histories the users that look like bots or click one item again and again, with
        `why`; see the documentation of audits.
    warnings : tuple of str, default=()
        What speaks against the models that judged: sentences on held-out groups that they told no
        better than chance. What such a model accuses may be right.
    """

    setting: str
    groups: Columns
    objects: Columns
    names: Mapping[str, NDArray[Any]]
    users: Columns = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_evidence(
        cls, source: Any, tables: tuple[Columns, Columns], warnings: tuple[str, ...] = ()
    ) -> GroupIssues:
        """Return the issues of an audited source from its tables of groups and objects.

        Parameters
        ----------
        source : object
            The audited source: `setting` and `names`, and `users` of click histories.
        tables : pair of mappings of str to ndarray
            The columns of the groups, and those of the objects.
        warnings : tuple of str, default=()
            What speaks against the models that judged.

        Returns
        -------
        GroupIssues
            With the names of the data set.
        """
        users = getattr(source, "users", {})
        return cls(source.setting, *tables, source.names, users, warnings)

    def __len__(self) -> int:
        return len(self.groups["doubt"]) if self.groups else 0

    @property
    def kinds(self) -> tuple[IssueKind, ...]:
        """The lists this setting has."""
        return ISSUE_KINDS[self.setting]

    def kind(self, name: str) -> IssueKind:
        """Return the list of that name.

        Parameters
        ----------
        name : str
            The name of one of `kinds`.

        Returns
        -------
        IssueKind
            Its title, its table and the score it is ranked by.

        Raises
        ------
        ParameterError
            If this setting has no such list.
        """
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
        found_kind = self.kind(kind)
        scores = self.table(found_kind.table)[found_kind.score]
        limit = found_kind.threshold if threshold is None else threshold
        above = np.flatnonzero(scores > limit)
        if top is not None and top < len(above):
            above = above[np.argpartition(-scores[above], top)[:top]]
        return above[np.argsort(-scores[above], kind="stable")]

    def table(self, name: str) -> Columns:
        """Return the columns of "groups", "objects", "never_chosen" or "users".

        Parameters
        ----------
        name : {"groups", "objects", "never_chosen", "users"}
            Which table; "users" is empty but for click histories.

        Returns
        -------
        mapping of str to ndarray
            Its columns, numbers for classes and items.
        """
        check_choice("table", name, TABLES)
        if name == "never_chosen":
            return self._never_chosen()
        return {"groups": self.groups, "objects": self.objects, "users": self.users}[name]

    def _never_chosen(self) -> Columns:
        """Return one row per distinct object that no group chose."""
        distinct, which = np.unique(self.objects["object"], return_inverse=True)
        n_chosen = np.bincount(which, weights=self.objects["times_chosen"])
        n_seen = np.bincount(which)
        noise = np.bincount(which, weights=self.objects["noise"]) / n_seen
        never = n_chosen == 0
        first = np.unique(which, return_index=True)[1]
        return {
            "source": self.objects["source"][first][never],
            "object": distinct[never],
            "occurrences": n_seen[never],
            "noise": noise[never],
        }

    def summary(self) -> dict[str, int]:
        """Return how many groups and objects there are, and how many rows each list has.

        Returns
        -------
        dict of str to int
            "groups", "objects", and one entry per list.
        """
        counts = {"groups": len(self), "objects": len(self.objects["noise"])}
        return {**counts, **{kind.name: len(self.ranked(kind.name)) for kind in self.kinds}}

    def named(self, columns: Columns) -> Columns:
        """Return columns with names in place of the numbers of classes and items.

        Parameters
        ----------
        columns : mapping of str to ndarray
            Columns of one of the tables.

        Returns
        -------
        mapping of str to ndarray
            The same columns; those without names stay numbers.
        """
        shown = dict(columns)
        for column in NAMED_COLUMNS:
            if column in columns and column in self.names:
                shown[column] = _named(self.names[column], columns[column])
        return shown

    def list_of(self, kind: str, top: int | None = None) -> Columns:
        """Return the rows of a ranked list as a table of names, worst first.

        Parameters
        ----------
        top : int, optional
            At most so many rows.

        Returns
        -------
        mapping of str to ndarray
            The columns of its table.
        """
        return self.named(self._listed(kind, top))

    def _listed(self, kind: str, top: int | None = None) -> Columns:
        rows = self.ranked(kind, top)
        columns = self.table(self.kind(kind).table)
        return {name: values[rows] for name, values in columns.items()}

    def to_polars(self, table: str = "groups") -> Any:
        """Return a table as a polars frame; needs the extra `data`.

        Parameters
        ----------
        table : {"groups", "objects", "never_chosen", "users"}, default="groups"
            Which table.

        Returns
        -------
        polars.DataFrame
            With names in place of numbers.
        """
        import polars

        return polars.DataFrame(self.named(self.table(table)))

    def to_pandas(self, table: str = "groups") -> Any:
        """Return a table as a pandas frame; needs pandas.

        Returns
        -------
        pandas.DataFrame
            With names in place of numbers.
        """
        return require("pandas", extra="dev").DataFrame(self.named(self.table(table)))

    def write_list(self, path: Path | str, kind: str) -> None:
        """Write a ranked list as .csv, .parquet or .json, whole or not at all.

        Parameters
        ----------
        path : path
            The file to write; its ending decides the format.
        """
        write_table(Path(path), self._listed(kind), self.named)

    def write(self, path: Path | str, table: str = "groups") -> None:
        """Write a table as .csv, .parquet or .json, whole or not at all."""
        write_table(Path(path), self.table(table), self.named)


def _named(names: NDArray[Any], numbers: IntArray) -> NDArray[Any]:
    """Return the name of each number; -1 has none."""
    found: NDArray[Any] = names[numbers]
    if (numbers < 0).any():
        found = np.where(numbers < 0, "", found.astype(np.str_))
    return found
