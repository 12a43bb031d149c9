"""Why a row got its label: who named which label, what rows like it are, and which these are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from groupnoise.io.columns import BETWEEN_NAMES, BETWEEN_PARTS, LIKE_IT, OF_LABEL
from groupnoise.io.tables import Table
from groupnoise.votes.crowd import Belief
from groupnoise.votes.files import VotedRows
from groupnoise.votes.long_tables import names_rows

N_NAMED = 3
"""Similar rows that are named."""


def reasons(voted: VotedRows, belief: Belief) -> list[str]:
    """Return one sentence per row that says where its label comes from.

    Such as `cat: ann, bob; dog: eve; rows like it: cat (0.91), nearest r7 (cat), r3 (cat)`.
    `belief`: what was made of them.
    """
    votes, names = voted.votes, voted.votes.class_names
    by_row: list[dict[str, list[str]]] = [{} for _ in range(votes.n_rows)]
    likely = votes.weights >= votes.weights.max(axis=1, keepdims=True) / 2
    for row, who, said_so in zip(
        votes.rows, votes.annotators, likely & votes.named_labels(), strict=True
    ):
        named = [names[k] for k in np.flatnonzero(said_so)]
        by_row[row].setdefault(" or ".join(named), []).append(votes.annotator_names[who])
    similar = _neighbours(voted, belief)
    sentences = []
    for row, said in enumerate(by_row):
        parts = [
            label if voted.is_candidates else f"{label}{OF_LABEL}{BETWEEN_NAMES.join(people)}"
            for label, people in sorted(said.items(), key=lambda each: -len(each[1]))
        ]
        if not parts:
            parts.append("no vote")
        if belief.predicted is not None:
            best = int(belief.predicted[row].argmax())
            share = float(belief.predicted[row, best])
            parts.append(f"{LIKE_IT}: {names[best]} ({share:.2f}){similar[row]}")
        sentences.append(BETWEEN_PARTS.join(parts))
    return sentences


def _neighbours(voted: VotedRows, belief: Belief) -> list[str]:
    """Return the rows with votes that are nearest to each row, with their labels."""
    if belief.neighbours is None:
        return [""] * voted.votes.n_rows
    called = row_names(voted.table)
    labels = [voted.votes.class_names[k] for k in belief.probabilities.argmax(axis=1)]
    return [
        ", nearest " + ", ".join(f"{called[each]} ({labels[each]})" for each in nearest)
        for nearest in belief.neighbours[:, :N_NAMED].tolist()
    ]


def row_names(table: Table) -> Sequence[str]:
    """Return what rows are called: the cells of an id column, else where each stands."""
    for name in table.frame.columns:
        cells = table.frame[name]
        if names_rows(name) and not cells.is_null().any() and cells.n_unique() == len(cells):
            return [str(cell) for cell in cells.cast(pl.String)]
    return [table.locate(row).rsplit(", ", 1)[-1] for row in range(len(table))]
