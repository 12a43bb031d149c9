"""Votes for labels in another spelling, misspelt, or written as words for no vote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from groupnoise.core.arrays import FloatArray
from groupnoise.core.label_typos import MAX_RARE_ROWS, MIN_RATIO, likely_typos, similar_labels
from groupnoise.io.labels.normalization import normalization_messages, normalize_labels
from groupnoise.io.tables.sources import Report
from groupnoise.votes.cells import Entry
from groupnoise.votes.data import Votes, labels_of
from groupnoise.votes.dawid_skene import Reliability


def normalize_spellings(
    entries: Iterable[Entry],
    locate: Callable[[int, str], str],
    listed: Sequence[str] | None,
    keep: Sequence[str],
    report: Report,
) -> list[Entry]:
    """Return votes with one spelling per label, and without words that stand for no vote.

    `listed`: all labels, if the user gave them. `keep`: labels that stay as they are.
    """
    entries = list(entries)
    said = [labels_of(vote, locate(row, who), who) for row, who, vote, _ in entries]
    counts = Counter(label for weights in said for label in weights)
    synonyms = normalize_labels(counts, keep=keep, listed=listed)
    if not synonyms:
        return entries
    for sentence in normalization_messages(synonyms, counts, what="no vote", times="votes"):
        report(sentence)
    spelt = []
    for (row, who, vote, sure), weights in zip(entries, said, strict=True):
        if synonyms.keys().isdisjoint(weights):
            spelt.append((row, who, vote, sure))
            continue
        left: dict[str, float] = {}
        for label, weight in weights.items():
            meant = synonyms.get(label, label)
            if meant is not None:
                left[meant] = left.get(meant, 0.0) + weight
        spelt.append((row, who, left, sure))
    return spelt


def find_misspellings(votes: Votes) -> dict[str, str]:
    """Return the rare labels that look misspelt, and what was meant."""
    counts = votes.candidates().sum(axis=0).tolist()
    return likely_typos(dict(zip(votes.class_names, counts, strict=True)))


def find_habits(votes: Votes) -> dict[str, tuple[str, str]]:
    """Return labels that one annotator always misspells, what is meant, and who it is.

    Such a label is used by nobody else and resembles exactly one label of the others, who name that
    one at least as often. The annotator hardly ever spells it right (otherwise these are two
    labels), and at least half of the votes of others on the same rows are for it.
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


def correct_habits(votes: Votes, sure: Collection[str]) -> Votes:
    """Return votes with labels that one annotator always misspells replaced by those meant.

    `sure`: labels that are known to be correct.
    """
    habits = {slip: meant for slip, (meant, _) in find_habits(votes).items() if slip not in sure}
    if not habits:
        return votes
    names = votes.class_names
    synonyms = _merge_labels(
        votes, {names.index(slip): names.index(habits[slip]) for slip in habits}
    )
    left = [k for k, name in enumerate(names) if name not in habits]
    # Weight that doubt gave to the merged labels goes to all others.
    doubt = synonyms.doubt()[:, None] * len(habits) / len(left)
    return replace(
        synonyms,
        weights=synonyms.weights[:, left] + doubt,
        named=None if synonyms.named is None else synonyms.named[:, left],
        class_names=[names[k] for k in left],
    )


def correct_misspellings(votes: Votes, sure: Collection[str]) -> Votes:
    """Return votes in which labels that look misspelt count as those that were probably meant.

    Otherwise each would be a class of its own. They stay in the list of labels, named by nobody.
    `sure`: labels that are known to be correct.
    """
    return _merge_labels(votes, _corrections(votes, sure))


def _merge_labels(votes: Votes, meant: Mapping[int, int]) -> Votes:
    """Return votes with labels replaced; `meant` maps positions to positions."""
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


def restore_spellings(probabilities: FloatArray, votes: Votes, sure: Collection[str]) -> FloatArray:
    """Return probabilities with labels as they were written where nobody wrote them correctly.

    Of shape (n_rows, n_classes). `probabilities` (n_rows, n_classes): of the corrected
    votes. `votes`, `sure`: as for `correct_misspellings`.
    """
    written: FloatArray = probabilities.copy()
    named = votes.candidates()
    for slip, label in _corrections(votes, sure).items():
        rows = np.flatnonzero(named[:, slip] & ~named[:, label])
        written[rows, slip] += written[rows, label]
        written[rows, label] = 0.0
    return written


def corrected_shares(votes: Votes, sure: Collection[str]) -> FloatArray:
    """Return the share of the votes for each label, misspelt ones included.

    Of shape (n_rows, n_classes). A label that looks misspelt keeps its own share too.
    """
    synonyms = correct_misspellings(votes, sure).first_choices().shares()
    return np.asarray(np.maximum(synonyms, votes.first_choices().shares()))


def drop_misspellings(known: Reliability, votes: Votes, sure: Collection[str]) -> Reliability:
    """Return the confusions with misspelt labels merged into those meant."""
    meant = _corrections(votes, sure)
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


def _corrections(votes: Votes, sure: Collection[str]) -> dict[int, int]:
    """Return positions of labels that look misspelt, mapped to those of the labels meant."""
    position = {name: number for number, name in enumerate(votes.class_names)}
    return {
        position[slip]: position[label]
        for slip, label in find_misspellings(votes).items()
        if slip not in sure
    }
