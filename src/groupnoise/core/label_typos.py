"""Detect misspelt labels, which would otherwise become classes of their own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray
from groupnoise.core.words import Message, Topic

MAX_RARE_ROWS = 3
"""Rows a label may have and still count as a typo."""
MIN_RATIO, MIN_RATIO_SHORT = 5, 10
"""How much more frequent the intended label must be; the second holds for single edits."""
MIN_SIMILARITY = 0.85
"""`difflib` ratio from which two labels are similar."""
MIN_LENGTH = 4
"""Shorter words are not compared by single edits: `dog` and `dig` are two animals."""
MAX_RARE_LABELS, MAX_NAMED, MAX_LISTED = 100, 3, 13
"""Rare labels that are checked, reported in a message each, and listed."""
TYPING_ERROR = "looks like a typing error for"
OWN_LABEL = "is learned as a label of its own; if it is one, correct it there"


def likely_typos(counts: Mapping[str, int]) -> dict[str, str]:
    """Map rare labels that are probably misspelt to the frequent ones they resemble.

    `counts`: number of rows per label.

    >>> likely_typos({"sport": 550, "sprot": 1, "spot": 90})
    {'sprot': 'sport'}
    """
    rare = [name for name, n_rows in counts.items() if 0 < n_rows <= MAX_RARE_ROWS]
    found = {}
    for name in rare[:MAX_RARE_LABELS]:
        often = [other for other, n_rows in counts.items() if n_rows >= MIN_RATIO * counts[name]]
        meant = [
            other
            for other in sorted(often, key=lambda other: -counts[other])
            if counts[other] >= MIN_RATIO_SHORT * counts[name] and is_single_typo(name, other)
        ] or get_close_matches(name, often, n=1, cutoff=MIN_SIMILARITY)
        if meant and not _is_distinct_label(name, meant[0]):
            found[name] = meant[0]
    return found


def similar_labels(name: str, others: Sequence[str]) -> list[str]:
    """Return the labels that a name may be a misspelling of.

    >>> similar_labels("sprot", ["sport", "politics", "spots"])
    ['sport']
    """
    close = get_close_matches(name, others, n=len(others) or 1, cutoff=MIN_SIMILARITY)
    return [
        other
        for other in others
        if (is_single_typo(name, other) or other in close) and not _is_distinct_label(name, other)
    ]


def typo_messages(
    names: Sequence[str],
    named: BoolArray,
    locate: Callable[[int], str],
    *,
    are: str = OWN_LABEL,
    slips: Mapping[str, str] | None = None,
    habits: Mapping[str, str] | None = None,
    times: str = "times",
) -> list[Message]:
    """Return a message for each label that is probably misspelt: where it is and what was meant.

    `named` (n_rows, n_classes): the labels of each row. `are`: how the message ends. `slips`: typos
    and intended labels; detected by default. `habits`: labels that a single person uses, and who.
    `times`: unit of the counts.
    """
    counts = dict(zip(names, named.sum(axis=0).tolist(), strict=True))
    messages = []
    slips = likely_typos(counts) if slips is None else slips
    for name, meant in list(slips.items())[:MAX_NAMED]:
        rows = np.flatnonzero(named[:, list(names).index(name)])
        more = "" if len(rows) == 1 else f" and {len(rows) - 1} more"
        writes = f", which {habits[name]!r} alone writes," if habits and name in habits else ""
        sentence = (
            f"{name!r} ({locate(int(rows[0]))}{more}){writes} {TYPING_ERROR} {meant!r} "
            f"({counts[meant]} {times}) and {are}"
        )
        messages.append(Message(sentence, Topic.TYPO))
    if len(slips) > MAX_NAMED:
        others = ", ".join(f"{name!r}" for name in list(slips)[MAX_NAMED:MAX_LISTED])
        more = ", ..." * (len(slips) > MAX_LISTED)
        n_more = len(slips) - MAX_NAMED
        which = "one more label" if n_more == 1 else f"each of {n_more} more labels"
        sentence = f"{which} {TYPING_ERROR} another: {others}{more}"
        messages.append(Message(sentence, Topic.TYPO))
    return messages


def warn_about_typos(indicator: BoolArray, classes: NDArray[Any], name: str) -> None:
    """Warn about labels passed from Python that are probably misspelt."""
    if classes.dtype.kind == "U":
        for sentence in typo_messages(classes.tolist(), indicator, lambda row: f"row {row}"):
            warnings.warn(f"{name}: {sentence}.", UserWarning, stacklevel=3)


def is_single_typo(name: str, other: str) -> bool:
    """Tell whether one edit (insertion, deletion, substitution, transposition) separates two words.

    >>> [is_single_typo(*pair) for pair in (("sprot", "sport"), ("tops", "spot"))]
    [True, False]
    """
    if max(len(name), len(other)) < MIN_LENGTH:
        return False
    pairs = enumerate(zip(name, other, strict=False))
    same = next((at for at, (a, b) in pairs if a != b), min(len(name), len(other)))
    ours, theirs = name[same:], other[same:]
    is_swapped = ours[:2] == theirs[1::-1] and ours[2:] == theirs[2:]
    return is_swapped or ours[1:] in (theirs, theirs[1:]) or ours == theirs[1:]


def _is_distinct_label(name: str, other: str) -> bool:
    """Return whether two labels differ in numbers, single letters or spaces only: no typo."""
    ours, theirs = name.casefold().split(), other.casefold().split()
    words = [pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]]
    if len(ours) == len(theirs) and all(len(a) == 1 == len(b) for a, b in words):
        return True
    return _letters(name) == _letters(other)


def _letters(name: str) -> str:
    return "".join(mark for mark in name.casefold() if not (mark.isdigit() or mark.isspace()))
