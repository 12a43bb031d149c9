"""What a file holds, told by its cells where the names of its columns do not tell it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import polars as pl

from groupnoise.io.cells import WHOLE_NUMBER, holds_times
from groupnoise.io.column_names import usual_column
from groupnoise.io.memberships import LABEL_SEPARATORS

MIN_GROUPS = 10
MIN_MEAN_SIZE = 2.0
"""Bags, users and items come back: fewer, or smaller ones, may be an accident of their cells."""
MAX_LABELS = 20
MIN_FEATURES = 2
MIN_LISTS = 0.2
"""Share of cells with a list from which a column of lists is one."""
_LABEL_WORDS = re.compile(
    r"(?:^|[_\W])(label|class|klasse|target|has|is|any|hat|ist|status|outcome|result|ergebnis"
    r"|diagnos\w*|befund|grade|positive?|flag)(?:$|[_\W])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class CellReading:
    """One way to read a table.

    `setting`: "mil", "pll" or "rs".
    `columns`: the column that plays each part.
    `why`: what its cells say.
    `is_sure`: whether it may be taken without asking, where it is the only one.
    """

    setting: str
    columns: Mapping[str, str]
    why: str
    is_sure: bool = True


def readings_of_cells(head: pl.DataFrame, known: Mapping[str, str]) -> list[CellReading]:
    """Return the ways to read a table by its cells; one is an answer, several are a question.

    Bags have a column that is the same in all rows of each; candidates are cells with lists of few
    words beside numbers; clicks are two columns of ids beside times. `head`: the first rows.
    `known`: columns whose names or users tell their part already.
    """
    table = _Table(head, known)
    bags = table.bags()
    if bags and table.times and "group" not in known:
        # An attribute of users is the same in all their clicks, too.
        return [*(replace(each, is_sure=False) for each in bags), *table.clicks()]
    return bags or table.candidates() + table.clicks()


class _Table:
    def __init__(self, head: pl.DataFrame, known: Mapping[str, str]) -> None:
        self.frame = head.select(
            pl.col(name).cast(pl.String, strict=False).str.strip_chars()
            for name, kind in head.schema.items()
            if not kind.is_nested()
        )
        columns = self.frame.columns
        # What a user misspelt is for the reader to refuse, which knows what was meant.
        self.known = {part: name for part, name in known.items() if name in columns}
        full = {name: self.frame[name].drop_nulls() for name in columns}
        full = {name: cells.filter(cells != "") for name, cells in full.items()}
        self.times = {name for name in columns if holds_times(head[name])}
        self.numbers = {
            name
            for name, cells in full.items()
            if len(cells) and not cells.cast(pl.Float64, strict=False).null_count()
        } - self.times
        whole = {name for name in self.numbers if full[name].str.contains(WHOLE_NUMBER).all()}
        self.lists = {name for name in columns if _holds_lists(full[name])} - self.numbers
        self.names = [name for name in columns if name not in (self.numbers - whole) | self.times]
        self.distinct = {name: self.frame[name].n_unique() for name in columns}
        self.ids = [
            name
            for name in self.names
            if name not in self.lists
            and self.distinct[name] >= MIN_GROUPS
            and MIN_MEAN_SIZE * self.distinct[name] <= self.frame.height
        ]

    def bags(self) -> list[CellReading]:
        """Return pairs of a group and a label that all its rows share."""
        groups = (
            [self.known["group"]] if "group" in self.known else list(filter(self._is_bag, self.ids))
        )
        found: dict[str, list[str]] = {}
        for group in groups:
            labels = self._labels(group)
            if labels and len(self._features(group, labels)) >= MIN_FEATURES:
                found[group] = labels
        # Slides of one patient share what the patient's do: the finest groups are the bags.
        finest = max(found, key=self.distinct.__getitem__, default="")
        if all(self._is_constant(group, finest) for group in found):
            found = {group: found[group] for group in found if group == finest}
        return [
            CellReading(
                "mil",
                {"group": group, "label": label},
                f"{label!r} is the same in all rows of each {group!r}, so it is taken as the label "
                f"and {group!r} as the bag (--label and --group say otherwise)",
            )
            for group, labels in found.items()
            for label in labels
        ]

    def candidates(self) -> list[CellReading]:
        """Return columns of lists of few words, beside features."""
        if len(self._features()) < MIN_FEATURES:
            return []
        return [
            CellReading(
                "pll",
                {"candidates": name},
                f"cells of {name!r} are lists of the same few words, which are taken as candidates",
            )
            for name in self.frame.columns
            if name in self.lists
        ]

    def clicks(self) -> list[CellReading]:
        """Return the two columns of ids beside one of times, users first."""
        ids = [name for name in self.ids if self.distinct[name] > MAX_LABELS]
        if len(self.times) != 1 or len(ids) != 2:
            return []
        user, item = (
            self.known.get(part, name) for part, name in zip(("user", "item"), ids, strict=True)
        )
        (time,) = self.times
        return [
            CellReading(
                "rs",
                {"user": user, "item": item, "time": time},
                f"{user!r} and {item!r} are the only ids beside the times of {time!r}; the first "
                "is taken as the user (--user and --item say otherwise)",
            )
        ]

    def _is_bag(self, name: str) -> bool:
        """Tell ids from numbers that are features: rows of one whole number stand together."""
        if name not in self.numbers:
            return True
        return int(self.frame[name].rle_id().max()) + 1 == self.distinct[name]  # type: ignore[arg-type]

    def _is_constant(self, name: str, group: str) -> bool:
        return name == group or bool(
            self.frame.group_by(group).agg(pl.col(name).n_unique())[name].max() == 1
        )

    def _labels(self, group: str) -> list[str]:
        """Return what may be the label of bags, the likeliest ones alone."""
        called = self.known.get("label", group)
        if called != group and self._is_constant(called, group):
            return [called]
        most = min(MAX_LABELS, max(2, self.distinct[group] // 3))
        parts = {usual_column(part, self.frame.columns) for part in ("patient", "split", "truth")}
        found = [
            name
            for name in self.names
            if name != group
            and name not in parts
            and (2 <= self.distinct[name] <= most or name in self.lists)
            and not self.frame[name].null_count()
            and self._is_constant(name, group)
        ]
        return [name for name in found if _LABEL_WORDS.search(name)] or found

    def _features(self, group: str | None = None, labels: list[str] | None = None) -> list[str]:
        """Return the numbers that tell rows of one bag, or all rows, apart."""
        return [
            name
            for name in self.frame.columns
            if name in self.numbers
            and name not in (group, *(labels or ()))
            and self.distinct[name] > 1
            and (group is None or not self._is_constant(name, group))
            and not (name in self.names and self.distinct[name] == self.frame.height)
        ]


def _holds_lists(cells: pl.Series) -> bool:
    """Tell whether cells are lists of words of which there are few."""
    for mark in LABEL_SEPARATORS:
        is_list = cells.str.contains(mark, literal=True)
        if len(cells) and is_list.mean() >= MIN_LISTS:  # type: ignore[operator]
            lists = [[word.strip() for word in cell.split(mark)] for cell in cells]
            first = {words[0] for words in lists}
            later = {word for words in lists for word in words[1:]}
            n_words = sum(map(len, lists))
            are_few = len(first | later) <= max(3, min(100, n_words // 5))
            # Places and decimal commas have parts, too, but each part has its own place.
            if are_few and len(first & later) >= MIN_LISTS * len(first | later):
                return mark != "," or not all(map(_is_number, first | later))
    return False


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdigit()
