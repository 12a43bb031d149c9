"""Files that `resolve` wrote or `review` exported: the columns these added, and those of votes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

import polars as pl

from groupnoise.io.label_spellings import columns_of_labels

if TYPE_CHECKING:
    from groupnoise.io.tables import Table

ANSWERS = ("label", "probability", "second", "margin", "agreement", "why", "look")
"""The columns that `resolve` adds."""
ANSWER = "answer"
"""What a person answered; empty where nobody did."""
OF_PEOPLE = (ANSWER, "answered_by", "note")
"""The columns that an export of `review` has besides."""
RENAMED = "input_"
"""Put before a column of the input that is called as one of the answers."""
TELLING = ("probability", "margin", "agreement", "look")
"""Answers by which a file of `resolve` is known; all of them are numbers."""
BETWEEN_PARTS, BETWEEN_NAMES, OF_LABEL = "; ", ", ", ": "
"""How a cell of `why` is put together: `cat: ann, bob; dog: eve; rows like it: ...`."""
LIKE_IT = "rows like it"


def is_resolved(columns: Collection[str]) -> bool:
    """Tell whether a table of these columns was written by `resolve` or exported by `review`.

    >>> is_resolved(["x", "label", "probability", "margin", "agreement", "look"])
    True
    >>> is_resolved(["label", "probability", "margin"])
    False
    """
    return set(TELLING) <= set(columns)


def renamed_beside(columns: Sequence[str], answers: Collection[str]) -> dict[str, str]:
    """Return what each column of an input is called beside answers, so that none is lost.

    >>> renamed_beside(["x", "label", "input_label"], ["label", "look"])
    {'x': 'x', 'label': 'input_input_label', 'input_label': 'input_label'}
    """
    called = {}
    for name in columns:
        own = name
        while own in answers or (own != name and own in columns):
            own = f"{RENAMED}{own}"
        called[name] = own
    return called


def written_columns(table: Table) -> list[str]:
    """Return the columns that hold answers or votes in a table that `resolve` wrote.

    A number among them tells how the label came about, so a model that learned from it would know
    on these rows what it can know of no others.

    In the order of the table; empty where it was not written by `resolve`. Answers of an earlier
    `resolve`, which a later one renamed, are among them.
    """
    columns, found = table.frame.columns, set()
    prefix = ""
    while is_resolved([name[len(prefix) :] for name in columns if name.startswith(prefix)]):
        found |= {f"{prefix}{name}" for name in (*ANSWERS, *OF_PEOPLE)}
        if f"{prefix}why" in columns:
            found |= annotators_named(table.frame[f"{prefix}why"].cast(pl.String).to_list())
        if f"{prefix}label" in columns:
            found |= columns_of_labels(table.frame, table.frame[f"{prefix}label"])
        prefix += RENAMED
    return [name for name in columns if name in found]


def columns_of_answers(columns: Collection[str]) -> set[str]:
    """Return the columns that `resolve` or `review` added, and no votes.

    >>> sorted(columns_of_answers(["x", "ann_1", "probability", "margin", "agreement", "look"]))
    ['agreement', 'look', 'margin', 'probability']
    """
    found: set[str] = set()
    prefix = ""
    while is_resolved([name[len(prefix) :] for name in columns if name.startswith(prefix)]):
        found |= {f"{prefix}{name}" for name in (*ANSWERS, *OF_PEOPLE)}
        prefix += RENAMED
    return found & set(columns)


def annotators_named(why: Iterable[str | None]) -> set[str]:
    """Return who is named in cells of `why`.

    >>> sorted(annotators_named(["cat: ann, bob; dog: eve; rows like it: cat (0.91)", None]))
    ['ann', 'bob', 'eve']
    """
    parts = {part for cell in why if cell for part in cell.split(BETWEEN_PARTS)}
    told = [part.rpartition(OF_LABEL) for part in parts if not part.startswith(LIKE_IT)]
    return {name for _, of_label, names in told if of_label for name in names.split(BETWEEN_NAMES)}
