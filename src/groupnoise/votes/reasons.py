"""Votes in words: why a row got its label, and what stands out in all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from groupnoise.core.label_typos import OWN_LABEL
from groupnoise.core.words import counted, quoted
from groupnoise.io.answer_files import BETWEEN_NAMES, BETWEEN_PARTS, LIKE_IT, OF_LABEL
from groupnoise.io.columns.features import column_of_names
from groupnoise.io.labels.spellings import labels_to_look_at
from groupnoise.io.tables.table import Table
from groupnoise.votes.averaged import nearness
from groupnoise.votes.ballots import Votes
from groupnoise.votes.crowd import Belief
from groupnoise.votes.dawid_skene import Reliability
from groupnoise.votes.files import VotedRows
from groupnoise.votes.long_tables import names_rows
from groupnoise.votes.slips import habits_of, slips_of

N_NAMED = 3
"""Similar rows that are named."""
STUCK_VOTES = 10
"""Votes from which on somebody who only ever said one label is pointed out."""
STUCK_SHARE, STUCK_BEYOND = 0.95, 0.2
"""Share of votes for one label from which on they tell little, and how much rarer others say it."""
HEARD = "counts as that; correct it, or list all labels with --labels"
"""What becomes of a vote that looks misspelt."""
MAX_OWN = 5
"""Labels of somebody who shares none with others that are named at most."""
MOSTLY = 0.8
"""Share of rows that a column must tell apart to be taken for one of their ids."""


def reasons(voted: VotedRows, belief: Belief) -> list[str]:
    """Return one sentence per row that says where its label comes from.

    Such as `cat: ann, bob; dog: eve; rows like it: cat (0.91), nearest r7 (cat), r3 (cat)`.
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
    """Return what rows are called: an id column, one of words that are all different, or places."""
    for name in filter(names_rows, table.frame.columns):
        cells = table.frame[name]
        if not cells.is_null().any() and cells.n_unique() == len(cells):
            return [str(cell) for cell in cells.cast(pl.String)]
    words = column_of_names(table)
    if words is not None:
        return list(table.frame[words])
    return [table.locate(row).rsplit(", ", 1)[-1] for row in range(len(table))]


def what_stands_out(voted: VotedRows, *, hears_slips: bool = False) -> list[str]:
    """Say what a person should know of the votes before trusting anything learned from them.

    `hears_slips`: whether labels that look misspelt count as what was meant.
    """
    votes = voted.votes
    named, habits = votes.candidates(), habits_of(votes)
    said = [
        *ids_that_repeat(voted.table),
        *labels_to_look_at(
            votes.class_names,
            votes.named_labels(),
            lambda vote: voted.place(
                int(votes.rows[vote]), votes.annotator_names[votes.annotators[vote]]
            ),
            kept=voted.kept,
            are=HEARD if hears_slips else OWN_LABEL,
            slips=slips_of(votes) | {slip: meant for slip, (meant, _) in habits.items()},
            habits={slip: who for slip, (_, who) in habits.items()},
            times="times" if voted.is_candidates else "votes",
        ),
    ]
    is_voted = votes.counts > 0
    if not is_voted.all():
        first = int(np.flatnonzero(~is_voted)[0])
        n_rows = int((~is_voted).sum())
        said.append(
            f"{n_rows} {'row has' if n_rows == 1 else 'rows have'} no vote, the first at "
            f"{voted.table.locate(first)}; answered from features alone where there are any, and "
            "marked"
        )
    if votes.n_classes == 1:
        said.append(f"{votes.class_names[0]!r} is the only label: nothing to resolve")
        return said
    if voted.is_candidates:
        if (named.sum(axis=1) <= 1).all():
            said.append("every row has one candidate: nothing to resolve")
        return said
    if (named.sum(axis=1) <= 1).all() and (votes.counts > 1).any():
        said.append("all rows are unanimous: nothing to resolve; look for labels that are wrong "
                    "all the same with `groupnoise audit` on what is written")  # fmt: skip
    if nearness(votes) is not None:
        said.append(
            "votes on one row that differ lie near each other, so the labels "
            f"{votes.class_names[0]!r} to {votes.class_names[-1]!r} are taken as grades: "
            "a near one is likelier than a far one"
        )
    about = (_about_annotator(votes, number) for number in range(len(votes.annotator_names)))
    return [*said, *(sentence for sentence in about if sentence)]


def _about_annotator(votes: Votes, number: int) -> str:
    """Say what is odd of all votes of somebody, or nothing."""
    is_mine, name = votes.annotators == number, votes.annotator_names[number]
    mine = votes.named_labels()[is_mine]
    if len(mine) < STUCK_VOTES:
        return ""
    if (mine == mine[0]).all():
        always = " or ".join(repr(votes.class_names[k]) for k in np.flatnonzero(mine[0]))
        return (
            f"annotator {name!r} said {always} in all of {counted(len(mine), 'votes')}, which "
            "tells nothing about the rows"
        )
    if (lazy := _mostly_one(votes, number)) is not None:
        label, n_said, elsewhere = lazy
        return (
            f"annotator {name!r} said {label!r} in {n_said} of {len(mine)} votes, others in "
            f"{elsewhere:.0%} of theirs: these votes count little"
        )
    own, others = mine.any(axis=0), votes.named_labels()[~is_mine].any(axis=0)
    if not others.any() or (own & others).any():
        return ""
    labels = quoted([votes.class_names[k] for k in np.flatnonzero(own)[:MAX_OWN]])
    more = ", ..." * bool(own.sum() > MAX_OWN)
    return (
        f"annotator {name!r} names no label that anybody else names, but {labels}{more}; where "
        "they mean the same, write them alike"
    )


def _mostly_one(votes: Votes, number: int) -> tuple[str, int, float] | None:
    """Return what somebody nearly always says, in how many votes, and the share of others'."""
    is_mine = votes.annotators == number
    first = votes.first_choices().weights
    mine = first[is_mine].mean(axis=0)
    best = int(mine.argmax())
    others = first[~is_mine, best]
    if mine[best] < STUCK_SHARE or not len(others) or others.mean() > STUCK_SHARE - STUCK_BEYOND:
        return None
    return votes.class_names[best], round(mine[best] * is_mine.sum()), float(others.mean())


def ids_that_repeat(table: Table) -> list[str]:
    """Point out columns that look like ids of the rows and name some of them alike."""
    said = []
    for name in filter(names_rows, table.frame.columns):
        cells = table.frame[name].drop_nulls().cast(pl.String)
        repeated = cells.filter(cells.is_duplicated())
        if len(repeated) and cells.n_unique() >= MOSTLY * len(cells):
            row = table.frame[name].cast(pl.String).to_list().index(repeated[0])
            n_ids = repeated.n_unique()
            said.append(
                f"{n_ids} {'id' if n_ids == 1 else 'ids'} of column {name!r} "
                f"{'stands' if n_ids == 1 else 'stand'} in more than one row, {repeated[0]!r} at "
                f"{table.locate(row)} for one; all rows are kept, and each is answered by itself"
            )
    return said


def in_words(
    reliability: Reliability | None, alpha: float, probabilities: Sequence[float | None]
) -> list[str]:
    """Say who can be trusted, how far votes agree, and how many labels may be wrong.

    `probabilities`: of the label of each row, None where a row has none.
    """
    said = []
    if reliability is not None:
        known = reliability
        for who, name in enumerate(known.annotator_names):
            said.append(
                f"{name}: right in an estimated {known.accuracy[who]:.0%} "
                f"({known.accuracy_low[who]:.0%} to {known.accuracy_high[who]:.0%}) of "
                f"{known.n_votes[who]} {'vote' if known.n_votes[who] == 1 else 'votes'}"
            )
        said.append(
            "(a vote is right if the label it puts first is the true one, which is estimated too; "
            f"{known.level:.0%} intervals)"
        )
    if np.isfinite(alpha):
        said.append(f"agreement: Krippendorff's alpha {alpha:.3f}")
    sure = [each for each in probabilities if each is not None]
    if sure:
        n_wrong = len(sure) - sum(sure)
        said.append(f"expected to be wrong: {n_wrong:.0f} of {counted(len(sure), 'labels')}")
    return said
