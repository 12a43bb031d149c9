"""Votes in words: why a row got its label, and warnings about annotators and labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from groupnoise.core.label_typos import OWN_LABEL
from groupnoise.core.words import counted, quoted
from groupnoise.io.answer_files import LABEL_MARK, NAME_SEPARATOR, PART_SEPARATOR, SIMILAR_ROWS
from groupnoise.io.columns.features import find_name_column
from groupnoise.io.labels.spellings import label_warnings
from groupnoise.io.tables.table import Table
from groupnoise.votes.data import Votes
from groupnoise.votes.dawid_skene import Reliability
from groupnoise.votes.files import VotedRows
from groupnoise.votes.gibbs import grade_similarity
from groupnoise.votes.inference import Belief
from groupnoise.votes.long_tables import is_row_id_name
from groupnoise.votes.misspellings import find_habits, find_misspellings

N_NAMED = 3
"""Similar rows that an explanation names."""
MIN_CONSTANT_VOTES = 10
"""Votes from which a warning is given about an annotator who only ever named one label."""
DOMINANT_SHARE, DOMINANT_LEAD = 0.95, 0.2
"""Share of one label that makes an annotator uninformative, and how much rarer it is with
others."""
COUNTS_AS = "counts as that; correct it, or list all labels with --labels"
"""What happens to a vote that looks misspelt."""
MAX_LISTED_LABELS = 5
"""Labels listed at most of an annotator who shares none with others."""
MIN_UNIQUE_SHARE = 0.8
"""Share of distinct values from which a column counts as one of ids."""


def explain_labels(voted: VotedRows, belief: Belief) -> list[str]:
    """Return one sentence per row that explains its label.

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
    similar = _neighbour_phrases(voted, belief)
    sentences = []
    for row, voters in enumerate(by_row):
        parts = [
            label if voted.is_candidates else f"{label}{LABEL_MARK}{NAME_SEPARATOR.join(people)}"
            for label, people in sorted(voters.items(), key=lambda each: -len(each[1]))
        ]
        if not parts:
            parts.append("no vote")
        if belief.predicted is not None:
            best = int(belief.predicted[row].argmax())
            share = float(belief.predicted[row, best])
            parts.append(f"{SIMILAR_ROWS}: {names[best]} ({share:.2f}){similar[row]}")
        sentences.append(PART_SEPARATOR.join(parts))
    return sentences


def _neighbour_phrases(voted: VotedRows, belief: Belief) -> list[str]:
    """Return a phrase per row that names its nearest rows with their labels."""
    if belief.neighbours is None:
        return [""] * voted.votes.n_rows
    called = row_names(voted.table)
    labels = [voted.votes.class_names[k] for k in belief.probabilities.argmax(axis=1)]
    return [
        ", nearest " + ", ".join(f"{called[each]} ({labels[each]})" for each in nearest)
        for nearest in belief.neighbours[:, :N_NAMED].tolist()
    ]


def row_names(table: Table) -> Sequence[str]:
    """Return row names: from an id column, a column of distinct words, or row numbers."""
    for name in filter(is_row_id_name, table.frame.columns):
        cells = table.frame[name]
        if not cells.is_null().any() and cells.n_unique() == len(cells):
            return [str(cell) for cell in cells.cast(pl.String)]
    words = find_name_column(table)
    if words is not None:
        return list(table.frame[words])
    return [table.locate(row).rsplit(", ", 1)[-1] for row in range(len(table))]


def vote_warnings(voted: VotedRows, *, corrects_spelling: bool = False) -> list[str]:
    """Return warnings about labels, ids and annotators, one sentence each.

    `corrects_spelling`: whether labels that look misspelt count as those meant.
    """
    votes = voted.votes
    named, habits = votes.candidates(), find_habits(votes)
    messages = [
        *repeated_id_warnings(voted.table),
        *label_warnings(
            votes.class_names,
            votes.named_labels(),
            lambda vote: voted.locate(
                int(votes.rows[vote]), votes.annotator_names[votes.annotators[vote]]
            ),
            kept=voted.kept_labels,
            are=COUNTS_AS if corrects_spelling else OWN_LABEL,
            slips=find_misspellings(votes) | {slip: meant for slip, (meant, _) in habits.items()},
            habits={slip: who for slip, (_, who) in habits.items()},
            times="times" if voted.is_candidates else "votes",
        ),
    ]
    is_voted = votes.counts > 0
    if not is_voted.all():
        first = int(np.flatnonzero(~is_voted)[0])
        n_rows = int((~is_voted).sum())
        messages.append(
            f"{n_rows} {'row has' if n_rows == 1 else 'rows have'} no vote, the first at "
            f"{voted.table.locate(first)}; answered from features alone where there are any, and "
            "marked"
        )
    if votes.n_classes == 1:
        messages.append(f"{votes.class_names[0]!r} is the only label: nothing to resolve")
        return messages
    if voted.is_candidates:
        if (named.sum(axis=1) <= 1).all():
            messages.append("every row has one candidate: nothing to resolve")
        return messages
    if (named.sum(axis=1) <= 1).all() and (votes.counts > 1).any():
        messages.append(
            "all rows are unanimous: nothing to resolve; look for labels that are wrong all the "
            "same with `groupnoise audit` on what is written"
        )
    if grade_similarity(votes) is not None:
        messages.append(
            "votes on one row that differ lie near each other, so the labels "
            f"{votes.class_names[0]!r} to {votes.class_names[-1]!r} are taken as grades: "
            "a near one is likelier than a far one"
        )
    about = (_annotator_warning(votes, number) for number in range(len(votes.annotator_names)))
    return [*messages, *(sentence for sentence in about if sentence)]


def _annotator_warning(votes: Votes, number: int) -> str:
    """Return a warning about one annotator, or an empty string."""
    is_mine, name = votes.annotators == number, votes.annotator_names[number]
    mine = votes.named_labels()[is_mine]
    if len(mine) < MIN_CONSTANT_VOTES:
        return ""
    if (mine == mine[0]).all():
        always = " or ".join(repr(votes.class_names[k]) for k in np.flatnonzero(mine[0]))
        return (
            f"annotator {name!r} said {always} in all of {counted(len(mine), 'votes')}, which "
            "tells nothing about the rows"
        )
    if (dominant := _dominant_label(votes, number)) is not None:
        label, n_said, elsewhere = dominant
        return (
            f"annotator {name!r} said {label!r} in {n_said} of {len(mine)} votes, others in "
            f"{elsewhere:.0%} of theirs: these votes count little"
        )
    own, others = mine.any(axis=0), votes.named_labels()[~is_mine].any(axis=0)
    if not others.any() or (own & others).any():
        return ""
    labels = quoted([votes.class_names[k] for k in np.flatnonzero(own)[:MAX_LISTED_LABELS]])
    more = ", ..." * bool(own.sum() > MAX_LISTED_LABELS)
    return (
        f"annotator {name!r} names no label that anybody else names, but {labels}{more}; where "
        "they mean the same, write them alike"
    )


def _dominant_label(votes: Votes, number: int) -> tuple[str, int, float] | None:
    """Return the label an annotator nearly always names, how often, and its share with others."""
    is_mine = votes.annotators == number
    first = votes.first_choices().weights
    mine = first[is_mine].mean(axis=0)
    best = int(mine.argmax())
    others = first[~is_mine, best]
    if (
        mine[best] < DOMINANT_SHARE
        or not len(others)
        or others.mean() > DOMINANT_SHARE - DOMINANT_LEAD
    ):
        return None
    return votes.class_names[best], round(mine[best] * is_mine.sum()), float(others.mean())


def repeated_id_warnings(table: Table) -> list[str]:
    """Return warnings about columns that look like row ids but repeat some."""
    messages = []
    for name in filter(is_row_id_name, table.frame.columns):
        cells = table.frame[name].drop_nulls().cast(pl.String)
        repeated = cells.filter(cells.is_duplicated())
        if len(repeated) and cells.n_unique() >= MIN_UNIQUE_SHARE * len(cells):
            row = table.frame[name].cast(pl.String).to_list().index(repeated[0])
            n_ids = repeated.n_unique()
            messages.append(
                f"{n_ids} {'id' if n_ids == 1 else 'ids'} of column {name!r} "
                f"{'stands' if n_ids == 1 else 'stand'} in more than one row, {repeated[0]!r} at "
                f"{table.locate(row)} for one; all rows are kept, and each is answered by itself"
            )
    return messages


def summary_lines(
    reliability: Reliability | None, alpha: float, probabilities: Sequence[float | None]
) -> list[str]:
    """Return lines on the accuracy of annotators, their agreement and the expected errors.

    `probabilities`: of the label of each row, None where a row has none.
    """
    messages = []
    if reliability is not None:
        known = reliability
        for who, name in enumerate(known.annotator_names):
            messages.append(
                f"{name}: right in an estimated {known.accuracy[who]:.0%} "
                f"({known.accuracy_low[who]:.0%} to {known.accuracy_high[who]:.0%}) of "
                f"{known.n_votes[who]} {'vote' if known.n_votes[who] == 1 else 'votes'}"
            )
        messages.append(
            "(a vote is right if the label it puts first is the true one, which is estimated too; "
            f"{known.level:.0%} intervals)"
        )
    if np.isfinite(alpha):
        messages.append(f"agreement: Krippendorff's alpha {alpha:.3f}")
    sure = [each for each in probabilities if each is not None]
    if sure:
        n_wrong = len(sure) - sum(sure)
        messages.append(f"expected to be wrong: {n_wrong:.0f} of {counted(len(sure), 'labels')}")
    return messages
