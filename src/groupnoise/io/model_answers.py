"""Labels as language models write them: in marks, in a sentence, with a reason, or a refusal."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from itertools import islice

QUOTING = "*`\"'“”‘’„«»‹›"
"""Marks that stand around a label and tell nothing: `**cat**`, `"cat"`."""
MIN_ALIKE = 2
"""Labels of which one way to write them must be seen."""
MIN_REASON = 4
"""Words from which on what stands behind a label is a reason for it."""
REPEATS = 1.5
"""How often one reason comes back at most, on average; names of labels come back."""
MAX_LENGTH, MAX_LEADS = 100, 3
"""Letters within which an answer names its label, and what may lead to it; else it is a text."""

_LEAD = re.compile(r"(?:[^:]{1,60}:|(?:\S+ ){1,7}(?:is|as)(?: an?| the)?)\s+(?=\S)")
_TAIL = re.compile(r"\s*(?:[:;.,(–—]|-\s)\s*|\s+(?:because|since|as|due to)\s+")
_REFUSAL = re.compile(
    r"\b(?:cannot|can not|can['’]t|could not|couldn['’]t|unable to|not able to|impossible to"
    r"|not possible to)\s+(?:\w+\s+){0,3}(?:determine|tell|say|decide|classify|categori[sz]e|label"
    r"|judge|assess|assist|answer|identify|choose|assign|help|provide|comply)\b"
    r"|\bas an ai\b"
    r"|\b(?:not enough|insufficient|too little)\s+(?:information|context|details?)\b"
)


def without_marks(key: str) -> str:
    """Return a label without the marks around it that tell no labels apart.

    >>> without_marks("**cat**."), without_marks("B)"), without_marks("c++"), without_marks("...")
    ('cat', 'B', 'c++', '...')
    """
    bare = key.strip(QUOTING + " ")
    bare = bare.rstrip(".!,;:").strip(QUOTING + " ")
    if bare[-1:] == ")" and "(" not in bare:
        bare = bare[:-1].strip()
    if bare[:1] == "(" and bare[-1:] == ")" and "(" not in bare[1:]:
        bare = bare[1:-1].strip()
    return bare or key


def is_refusal(key: str) -> bool:
    """Tell whether an answer in small letters says that there is none.

    >>> is_refusal("i cannot determine the category"), is_refusal("cannot log in")
    (True, False)
    """
    return _REFUSAL.search(key) is not None


def labels_in_answers(counts: Mapping[str, int]) -> dict[str, str]:
    """Return the answers that name one known label in other words, and that label.

    Such as `category: cat`, `the animal is a cat` or `cat, because it has whiskers and a tail`.
    What leads to the label must lead to known labels alone, and to two or more; reasons must be
    many words that hardly ever come back, or `food: other` and `car - of a rental firm` would be no
    labels of their own. `counts`: how often each answer was written, in small letters.

    >>> said = {"cat": 5, "dog": 5, "label: cat": 1, "label: dog": 2, "food: other": 2}
    >>> labels_in_answers(said)
    {'label: cat': 'cat', 'label: dog': 'dog'}
    """
    found: dict[str, str] = {}
    leads: dict[str, dict[str, str | None]] = {}
    reasons: dict[str, str] = {}
    for key in counts:
        label = _before_a_reason(key, counts)
        if label is not None:
            reasons[key] = label
        for lead in islice(_LEAD.finditer(key), MAX_LEADS):
            rest = without_marks(key[lead.end() :])
            named = rest if rest in counts else _before_a_reason(rest, counts)
            leads.setdefault(lead.group(), {})[key] = named
    for answers in leads.values():
        if None not in answers.values() and len(set(answers.values())) >= MIN_ALIKE:
            found |= {key: label for key, label in answers.items() if label is not None}
    n_said = sum(counts[key] for key in reasons)
    if len(set(reasons.values())) >= MIN_ALIKE and n_said <= REPEATS * len(reasons):
        found |= {key: label for key, label in reasons.items() if key not in found}
    return {key: label for key, label in found.items() if label not in found}


def _before_a_reason(key: str, known: Collection[str]) -> str | None:
    """Return the known label that an answer begins with, if a reason or a percentage follows."""
    for tail in _TAIL.finditer(key, 0, MAX_LENGTH):
        label = without_marks(key[: tail.start()])
        if label in known:
            rest = key[tail.end() :]
            is_reason = len(rest.split()) >= MIN_REASON
            return label if is_reason or re.fullmatch(r"[\d.,\s]*\d\s*%\)?", rest) else None
    return None
