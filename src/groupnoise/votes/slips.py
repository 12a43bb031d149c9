"""Votes for labels that look misspelt: heard as what was meant, and written as they stand."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from groupnoise.core.arrays import FloatArray
from groupnoise.core.misspelt_labels import likely_slips
from groupnoise.votes.ballots import Votes
from groupnoise.votes.dawid_skene import Reliability


def slips_of(votes: Votes) -> dict[str, str]:
    """Return the labels that look misspelt, by the rows they stand in, and what was meant."""
    counts = votes.candidates().sum(axis=0).tolist()
    return likely_slips(dict(zip(votes.class_names, counts, strict=True)))


def as_meant(votes: Votes, sure: Collection[str]) -> Votes:
    """Return votes in which labels that look misspelt are read as those that were probably meant.

    Each would else be a class of its own, on which annotators disagree and among which they guess.
    The labels stay in the list, named by nobody. `sure`: labels that are known to be none of these.
    """
    meant = _meant(votes, sure)
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
