"""Votes for labels written otherwise: in another spelling, misspelt, or with a word for none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from groupnoise.core.arrays import FloatArray
from groupnoise.core.label_typos import MAX_RARE_ROWS, MIN_RATIO, likely_typos, similar_labels
from groupnoise.io.labels.heard import heard_in_words, heard_labels
from groupnoise.io.tables.sources import Report
from groupnoise.votes.ballots import Votes, labels_of
from groupnoise.votes.dawid_skene import Reliability
from groupnoise.votes.exports import Entry


def entries_as_heard(
    entries: Iterable[Entry],
    place: Callable[[int, str], str],
    listed: Sequence[str] | None,
    keep: Sequence[str],
    report: Report,
) -> list[Entry]:
    """Return votes in which each label has one spelling, and none is a word for no vote.

    `listed`: all labels there are, where a user says so. `keep`: labels that stay as they are.
    """
    entries = list(entries)
    said = [labels_of(vote, place(row, who), who) for row, who, vote, _ in entries]
    counts = Counter(label for weights in said for label in weights)
    heard = heard_labels(counts, keep=keep, listed=listed)
    if not heard:
        return entries
    for sentence in heard_in_words(heard, counts, what="no vote", times="votes"):
        report(sentence)
    spelt = []
    for (row, who, vote, sure), weights in zip(entries, said, strict=True):
        if heard.keys().isdisjoint(weights):
            spelt.append((row, who, vote, sure))
            continue
        left: dict[str, float] = {}
        for label, weight in weights.items():
            meant = heard.get(label, label)
            if meant is not None:
                left[meant] = left.get(meant, 0.0) + weight
        spelt.append((row, who, left, sure))
    return spelt


def slips_of(votes: Votes) -> dict[str, str]:
    """Return the rare labels that look misspelt, and what was meant."""
    counts = votes.candidates().sum(axis=0).tolist()
    return likely_typos(dict(zip(votes.class_names, counts, strict=True)))


def habits_of(votes: Votes) -> dict[str, tuple[str, str]]:
    """Return labels that one annotator misspells again and again, what is meant, and by whom.

    Such a label is one that nobody else writes and that is like a single label of the others. They
    name that one as often or more; who misspells it hardly ever spells it right, or the two would
    be two; and where others voted on the same rows, half of their votes or more are for it.
    """
    named, names = votes.named_labels(), votes.class_names
    by_whom = np.zeros((len(votes.annotator_names), len(names)), dtype=np.int64)
    np.add.at(by_whom, votes.annotators, named)
    found = {}
    for slip in np.flatnonzero((by_whom > 0).sum(axis=0) == 1).tolist():
        who, n_slips = int(by_whom[:, slip].argmax()), int(by_whom[:, slip].max())
        if n_slips <= MAX_RARE_ROWS:
            continue
        others = by_whom.sum(axis=0) - by_whom[who]
        like = similar_labels(names[slip], [names[k] for k in np.flatnonzero(others)])
        if len(like) != 1:
            continue
        meant = names.index(like[0])
        if others[meant] < n_slips or MIN_RATIO * by_whom[who, meant] > n_slips:
            continue
        beside = np.isin(votes.rows, votes.rows[named[:, slip]]) & (votes.annotators != who)
        if 2 * named[beside, meant].sum() >= beside.sum():
            found[names[slip]] = names[meant], votes.annotator_names[who]
    return {slip: told for slip, told in found.items() if told[0] not in found}


def without_habits(votes: Votes, sure: Collection[str]) -> Votes:
    """Return votes in which what one annotator always misspells is spelt as others spell it.

    Such labels are none any more. `sure`: labels that are known to be none of these.
    """
    habits = {slip: meant for slip, (meant, _) in habits_of(votes).items() if slip not in sure}
    if not habits:
        return votes
    names = votes.class_names
    heard = _moved(votes, {names.index(slip): names.index(habits[slip]) for slip in habits})
    left = [k for k, name in enumerate(names) if name not in habits]
    # The doubt about the labels that are gone is about all others.
    doubt = heard.doubt()[:, None] * len(habits) / len(left)
    return replace(
        heard,
        weights=heard.weights[:, left] + doubt,
        named=None if heard.named is None else heard.named[:, left],
        class_names=[names[k] for k in left],
    )


def as_meant(votes: Votes, sure: Collection[str]) -> Votes:
    """Return votes in which labels that look misspelt are read as those that were probably meant.

    Each would else be a class of its own, on which annotators disagree and among which they guess.
    The labels stay in the list, named by nobody. `sure`: labels that are known to be none of these.
    """
    return _moved(votes, _meant(votes, sure))


def _moved(votes: Votes, meant: Mapping[int, int]) -> Votes:
    """Return votes in which labels are others, by their positions."""
    if not meant:
        return votes
    weights, named = votes.weights.copy(), votes.named_labels().copy()
    doubt = votes.doubt()
    for slip, label in meant.items():
        said = named[:, slip]
        weights[said, label] += weights[said, slip] - doubt[said]
        weights[said, slip] = doubt[said]
        named[said, label] = True
        named[said, slip] = False
    return replace(votes, weights=weights, named=None if votes.named is None else named)


def as_written(probabilities: FloatArray, votes: Votes, sure: Collection[str]) -> FloatArray:
    """Return probabilities in which a label that nobody spelt right in a row is spelt as it was.

    Of shape (n_rows, n_classes). `probabilities` (n_rows, n_classes): of the votes `as_meant`.
    `votes`, `sure`: what that was given.
    """
    written: FloatArray = probabilities.copy()
    named = votes.candidates()
    for slip, label in _meant(votes, sure).items():
        rows = np.flatnonzero(named[:, slip] & ~named[:, label])
        written[rows, slip] += written[rows, label]
        written[rows, label] = 0.0
    return written


def shares_as_heard(votes: Votes, sure: Collection[str]) -> FloatArray:
    """Return the share of the votes for each label, those that misspell it among them.

    Of shape (n_rows, n_classes). A label that looks misspelt keeps the share that is written so.
    """
    heard = as_meant(votes, sure).first_choices().shares()
    return np.asarray(np.maximum(heard, votes.first_choices().shares()))


def without_slips(known: Reliability, votes: Votes, sure: Collection[str]) -> Reliability:
    """Return confusions in which labels that look misspelt are no labels of their own."""
    meant = _meant(votes, sure)
    confusion = known.confusion.copy()
    for slip, label in meant.items():
        confusion[:, :, label] += confusion[:, :, slip]
    spelt = [k for k in range(votes.n_classes) if k not in meant]
    chosen = np.ix_(range(len(confusion)), spelt, spelt)
    return replace(
        known,
        class_names=[known.class_names[k] for k in spelt],
        confusion=confusion[chosen],
        confusion_low=known.confusion_low[chosen],
        confusion_high=known.confusion_high[chosen],
    )


def _meant(votes: Votes, sure: Collection[str]) -> dict[int, int]:
    """Return the positions of labels that look misspelt, and of those that were meant."""
    position = {name: number for number, name in enumerate(votes.class_names)}
    return {
        position[slip]: position[label]
        for slip, label in slips_of(votes).items()
        if slip not in sure
    }
