"""Guessing what a table holds from its cells, where column names do not say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from groupnoise.io.columns.exclusions import MAX_LOG_CHANCE, counts_rows_within_groups, is_id_name
from groupnoise.io.columns.names import COUNT_NAMES, is_amount, plain_name, usual_column
from groupnoise.io.columns.word_features import MAX_CATEGORIES, MIN_TEXT_WORDS, ROWS_OF_A_CATEGORY
from groupnoise.io.labels.columns import MARKS
from groupnoise.io.labels.lists import holds_label_lists, lists_as_text
from groupnoise.io.tables.cells import BOOLEANS, holds_times, normalize_booleans

MIN_GROUPS = 10
MIN_MEAN_SIZE = 2.0
"""Least number of groups and mean size: fewer or smaller groups may be coincidence."""
MIN_FEW = 4
"""Groups from which rows that share a label make the user be asked."""
MAX_ODD = 0.1
"""Share of bags with inconsistent labels up to which these are reported as errors."""
MIN_RUNS = 0.02
"""Least excess of consecutive rows with equal ids over chance, typical of users."""
WHOLE = r"^-?[0-9]+(\.0*)?$"
"""Whole numbers, perhaps written as `12.0` by data frames, which may be ids."""
MAX_LABELS = 20
MIN_FEATURES = 2
MIN_MEASURED = 4
"""Numeric columns from which rows with times count as measurements, not clicks."""
MAX_SPELT = 5
"""Distinct cells of an indicator column at most, spellings included."""
_LABEL_WORDS = re.compile(
    r"(?:^|[_\W])(label|class|klasse|target|has|is|any|hat|ist|status|outcome|result|ergebnis"
    r"|diagnos\w*|befund|grade|positive?|flag)(?:$|[_\W])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Interpretation:
    """One way to read a table.

    `setting`: "mil", "pll" or "rs".
    `columns`: the column that plays each part.
    `why`: the evidence in its cells.
    `doubt`: why the user must confirm it, even if it is the only one.
    """

    setting: str
    columns: Mapping[str, str]
    why: str
    doubt: str = ""


def interpret_cells(head: pl.DataFrame, known: Mapping[str, str]) -> list[Interpretation]:
    """Return the possible interpretations of a table by its cells.

    Bags have a column that is the same in all rows of each; candidates are cells with lists of few
    words beside numbers; clicks are two columns of ids beside times. `head`: the first rows.
    `known`: columns whose names or users tell their part already.
    """
    table = CellProfile(head, known)
    bags = table.bags()
    measured = [name for name in table.numbers.difference(table.names) if not is_amount(name)]
    if bags and table.times and "group" not in known and len(measured) < MIN_MEASURED:
        # Attributes of users are constant over their clicks too; but clicks have no measurements.
        doubted = [replace(each, doubt="beside times that is uncertain") for each in bags]
        return [*doubted, *table.clicks()]
    return bags or table.candidates() + table.clicks() or table.bags(few=True)


def labelled_bag_interpretations(
    head: pl.DataFrame, known: Mapping[str, str]
) -> list[Interpretation]:
    """Return interpretations as bags by a column that is named as a label.

    `known`: columns that play a part other than in bags, which are no features of them.
    """
    table = CellProfile(head, {})
    table.least, table.of_words = MIN_FEATURES, False
    called = [name for name in table.frame.columns if is_called_label(name)]
    table.numbers -= {*known.values(), *(name for name in table.ids if is_id_name(name))}
    table.numbers -= {name for name in table.frame.columns if plain_name(name) in COUNT_NAMES}
    return [each for each in table.bags() if each.columns["label"] in called]


def alternative_bags(
    head: pl.DataFrame, group: str | None, label: str | None
) -> list[Interpretation]:
    """Return other interpretations as bags, if the labels of a bag are inconsistent."""
    if group is None or label is None:
        return []
    table = CellProfile(head, {"group": group})
    if not {group, label} <= set(table.frame.columns) or table._is_constant(label, group):
        return []
    return table.bags()


class CellProfile:
    """The first rows of a table as text, and possible roles of each column.

    `head`: these rows. `known`: as in :func:`interpret_cells`.
    """

    least = 1
    """Features needed if a column is named as a label."""
    of_words = True
    """Whether text and categories count as features."""

    def __init__(self, head: pl.DataFrame, known: Mapping[str, str]) -> None:
        nested = {name for name, kind in head.schema.items() if kind.is_nested()}
        self.vectors = {name for name in nested if holds_vectors(head[name])}
        words = {name: lists_as_text(head[name]) for name in nested - self.vectors}
        self.frame = head.select(
            words[name]
            if name in words
            else normalize_booleans(head[name].cast(pl.String, strict=False).str.strip_chars())
            for name in head.columns
            if name not in self.vectors and (name not in nested or words[name] is not None)
        )
        columns = self.frame.columns
        # Unknown column names are refused by the reader, which can suggest others.
        self.known = {part: name for part, name in known.items() if name in columns}
        full = {name: self.frame[name].drop_nulls() for name in columns}
        full = {name: cells.filter(cells != "") for name, cells in full.items()}
        self.times = {name for name in columns if holds_times(head[name])}
        self.numbers = {
            name
            for name, cells in full.items()
            if len(cells) and not cells.cast(pl.Float64, strict=False).null_count()
        } - self.times
        whole = {name for name in self.numbers if full[name].str.contains(WHOLE).all()}
        self.lists = {name for name in columns if holds_label_lists(full[name], name in words)}
        self.lists -= self.numbers
        self.names = [name for name in columns if name not in (self.numbers - whole) | self.times]
        self.distinct = {name: self.frame[name].n_unique() for name in columns}
        words_in = {name: cells for name, cells in full.items() if name not in self.numbers}
        self.texts = {
            name
            for name, cells in words_in.items()
            if name not in self.times | self.lists
            and float(cells.str.count_matches(r"\S+").mean() or 0.0) >= MIN_TEXT_WORDS  # type: ignore[arg-type]
        }
        self.categories = {
            name
            for name, cells in words_in.items()
            if name not in self.times | self.lists
            and 2 <= self.distinct[name] <= MAX_CATEGORIES
            and ROWS_OF_A_CATEGORY * self.distinct[name] <= len(cells)
        }
        self.ids = [
            name
            for name in self.names
            if name not in self.lists
            and self.distinct[name] >= MIN_GROUPS
            and MIN_MEAN_SIZE * self.distinct[name] <= self.frame.height
        ]

    def bags(self, few: bool = False) -> list[Interpretation]:
        """Return pairs of a group and a label that is constant in it; `few`: for few groups."""
        groups = [self.known["group"]] if "group" in self.known else self.ids
        if few:
            groups = [
                name
                for name in self.names
                if name not in self.lists | self.numbers
                and MIN_FEW <= self.distinct[name] < MIN_GROUPS
            ]
        found: dict[str, list[str]] = {}
        for group in groups:
            labels = [each for each in self._labels(group) if self._is_bag(group, each)]
            n_features = len(self._features(group, labels))
            least = self.least if any(map(_LABEL_WORDS.search, labels)) else MIN_FEATURES
            if labels and (n_features >= least or self.vectors or self._texts_in(group)):
                found[group] = labels
        # Labels may also be constant per patient: the finest groups are the bags.
        finest = max(found, key=self.distinct.__getitem__, default="")
        if all(self._is_constant(group, finest) for group in found):
            found = {group: found[group] for group in found if group == finest}
        marks = set(indicator_columns(self.frame))
        found = {
            group: [",".join(labels), *labels]
            if len(labels) > 1 and marks >= set(labels)
            else labels
            for group, labels in found.items()
        }
        return [
            Interpretation(
                "mil",
                {"group": group, "label": label},
                f"{label!r} is the same in all rows of each {group!r}, so it is taken as the label "
                f"and {group!r} as the bag (--label and --group say otherwise)",
                "with fewer than ten bags that is uncertain" if few else "",
            )
            for group, labels in found.items()
            for label in labels
        ]

    def inconsistent_bags(self) -> dict[tuple[str, str], int]:
        """Return pairs of a group and a label, with the few groups where it is inconsistent.

        Most groups must have several rows, or any column would be nearly constant.
        """
        found: dict[tuple[str, str], int] = {}
        for group in [self.known["group"]] if "group" in self.known else self.ids:
            most = min(MAX_LABELS, max(2, self.distinct[group] // 3))
            labels = [self.known["label"]] if "label" in self.known else self.names
            labels = [name for name in labels if name != group and 2 <= self.distinct[name] <= most]
            sizes = self.frame[group].value_counts()["count"]
            if not labels or int((sizes > 1).sum()) < max(MIN_GROUPS, MAX_ODD * len(sizes)):
                continue
            kinds = self.frame.group_by(group).agg(pl.col(name).n_unique() for name in labels)
            for label in labels:
                n_odd = int((kinds[label] > 1).sum())
                few = 0 < n_odd <= max(1, MAX_ODD * len(sizes))
                if few and len(self._features(group, [label])) >= MIN_FEATURES:
                    found[group, label] = n_odd
        return found

    def candidates(self) -> list[Interpretation]:
        """Return columns of label lists, if there are features."""
        if len(self._features()) < MIN_FEATURES and not self.vectors | self.texts:
            return []
        return [
            Interpretation(
                "pll",
                {"candidates": name},
                f"cells of {name!r} are lists of the same few words, which are taken as candidates",
            )
            for name in self.frame.columns
            if name in self.lists
        ]

    def clicks(self) -> list[Interpretation]:
        """Return the two id columns beside one of times; runs of equal ids mark the user."""
        ids = [
            name
            for name in self.ids
            if name in (self.known.get("user"), self.known.get("item"))
            or (self.distinct[name] > MAX_LABELS and not is_amount(name))
        ]
        if self.frame.width == 2 == len(ids) and len({"user", "item"} & set(self.known)) == 1:
            return self._baskets(*ids)
        called = usual_column("time", sorted(self.times))
        times = {called} if called is not None else self.times
        if len(times) != 1 or len(ids) != 2 or any(map(self._is_constant, ids, ids[::-1])):
            return []  # one determines the other
        (time,) = times
        runs = [self._runs(name, time) for name in ids]
        is_clear = max(runs) > MIN_RUNS and max(runs) > 2 * min(runs)
        named = [name for name in ids if name in self.known.values()]
        in_runs = not named and is_clear and runs[1] > runs[0]
        if in_runs or ids[1] == self.known.get("user") or ids[0] == self.known.get("item"):
            ids.reverse()
        why = "the first is taken as the user"
        if named:
            why = f"{named[0]!r} is called so"
        elif is_clear:
            why = f"{ids[0]!r} is taken as the user, for its rows come one after the other"
        user, item = ids
        return [
            Interpretation(
                "rs",
                {"user": user, "item": item, "time": time},
                f"{user!r} and {item!r} are the only ids beside the times of {time!r}; {why} "
                "(--user and --item say otherwise)",
            )
        ]

    def _baskets(self, *ids: str) -> list[Interpretation]:
        """Return a table of two columns as clicks if one of them is named as user or item."""
        (part, named), *_ = ((p, self.known[p]) for p in ("user", "item") if p in self.known)
        (other,) = (name for name in ids if name != named)
        parts = {part: named, "item" if part == "user" else "user": other}
        return [
            Interpretation(
                "rs",
                {"user": parts["user"], "item": parts["item"]},
                f"{named!r} has a usual name, and {other!r} is the only other column "
                "(--user and --item say otherwise)",
            )
        ]

    def _runs(self, name: str, time: str) -> float:
        """Return how often consecutive rows have equal ids, in excess of chance."""
        times = self.frame[time]
        numbers = times.cast(pl.Float64, strict=False)
        order = (times if numbers.null_count() else numbers).arg_sort()
        ids = self.frame[name]
        shares = ids.value_counts()["count"] / len(ids)
        same = max(  # next to each other in the file, too
            float((each == each.shift(1)).mean() or 0.0)  # type: ignore[arg-type]
            for each in (ids, ids.gather(order))
        )
        chance = float((shares**2).sum())
        return float(same - chance - 4 * np.sqrt(chance / len(ids)))

    def _is_bag(self, name: str, label: str) -> bool:
        """Tell whether a column holds bag ids and not a feature of whole numbers.

        Rows with equal ids are consecutive, or labels change between neighbouring ids, which they
        would not if they followed a feature.
        """
        if name not in self.numbers or name == self.known.get("group"):
            return True
        if int(self.frame[name].rle_id().max()) + 1 == self.distinct[name]:  # type: ignore[arg-type]
            return True
        shares = (self.frame[label].value_counts()["count"] / self.frame.height).to_numpy()
        sizes = self.frame[name].value_counts()["count"].to_numpy()
        alike = (shares[:, None] ** sizes).sum(axis=0)
        of_each = self.frame.select(pl.col(name).cast(pl.Float64), label).unique(name).sort(name)
        n_changes = int((of_each[label] != of_each[label].shift(1)).sum())
        expected = (len(sizes) - 1) * (1.0 - float((shares**2).sum()))
        return float(np.log(alike).sum()) < MAX_LOG_CHANCE and 2 * n_changes > expected

    def _is_constant(self, name: str, group: str) -> bool:
        spelt = pl.col(name).str.to_lowercase()
        kinds = self.frame.group_by(group).agg(n=spelt.n_unique()) if name != group else None
        return kinds is None or bool(kinds["n"].max() == 1)

    def _labels(self, group: str) -> list[str]:
        """Return the most plausible columns for the label of bags."""
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
            and (name in self.lists or not self.frame[name].null_count())  # or bags of no label
            and self._is_constant(name, group)
        ]
        return [name for name in found if _LABEL_WORDS.search(name)] or found

    def _texts_in(self, group: str) -> list[str]:
        """Return columns of text that vary within groups, if no numeric column does."""
        if not self.of_words or self.numbers.intersection(self._features(group)):
            return []
        return [name for name in self.texts - {group} if not self._is_constant(name, group)]

    def _features(self, group: str | None = None, labels: list[str] | None = None) -> list[str]:
        """Return numeric and categorical columns that vary within bags, or over all rows."""
        return [
            name
            for name in self.frame.columns
            if name in self.numbers | (self.categories if self.of_words else set())
            and name not in (group, *(labels or ()))
            and self.distinct[name] > 1
            and (group is None or not self._is_constant(name, group))
            and not (name in self.names and self.distinct[name] == self.frame.height)
            and not (
                group
                and name in self.numbers
                and counts_rows_within_groups(self.frame, name, group)
            )
        ]


def is_called_label(name: str) -> bool:
    """Tell whether a column is named as a label."""
    return _LABEL_WORDS.search(name) is not None or usual_column("label", [name]) is not None


def indicator_columns(frame: pl.DataFrame) -> list[str]:
    """Return the columns of 0 and 1, or of yes and no."""
    pairs = [{"0", "1"}, {"0.0", "1.0"}, *map(set, BOOLEANS)]
    found = []
    for name, kind in frame.schema.items():
        few = [] if kind.is_nested() else frame[name].cast(pl.String).unique().head(MAX_SPELT)
        words = {(cell or "").strip().lower() for cell in few}
        if words in pairs or ("" in words and len(words) == 2 and words < {"", *MARKS}):
            found.append(name)
    return found


def holds_vectors(cells: pl.Series) -> bool:
    """Tell whether cells are lists of numbers."""
    kind = cells.dtype
    return isinstance(kind, (pl.List, pl.Array)) and getattr(kind, "inner", kind).is_numeric()
