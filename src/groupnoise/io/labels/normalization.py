"""Normalizing labels: other spellings, phrases around a label, and words for no label.

Language models write labels in quotation marks, in a sentence, with a reason, or refuse to answer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

from groupnoise.core.words import MAX_PARTS, counted, join_with_and
from groupnoise.io.labels.spellings import (
    MIN_REASON,
    is_no_answer,
    spelling_key,
    strip_punctuation,
)

MAX_LETTERS = 5
"""Single letters that are merged with their capitals at most; more are an alphabet in both
cases."""
MIN_ALIKE = 2
"""Labels that must occur in a phrase for it to count as one around labels."""
REPEATS = 1.5
"""Mean number of repetitions of a reason at most; names of labels repeat more often."""
MAX_LENGTH, MAX_LEADS = 100, 3
"""Characters of an answer in which a label is looked for, and phrases before it that are tried."""
_LEAD = re.compile(r"(?:[^:]{1,60}:|(?:\S+ ){1,7}(?:is|as)(?: an?| the)?)\s+(?=\S)")
_BECAUSE = re.compile(r"\W*\b(?:because|since|due to|weil|parce que|porque|perché)\b")
_TAIL = re.compile(r"\s*(?:[:;.,(–—]|-\s)\s*|\s+(?:because|since|as|due to)\s+")


def normalize_labels(
    counts: Mapping[str, int], *, keep: Collection[str] = (), listed: Sequence[str] | None = None
) -> dict[str, str | None]:
    """Return labels to replace: by their usual spelling, or by None for words for no label.

    Of several spellings the most frequent one stands for all, or the one that is listed. `counts`:
    how often each was written. `keep`: labels that stay as they are. `listed`: all labels there
    are, where somebody says so.

    >>> normalize_labels({"offer": 9, "Offer": 3, "ham": 5, "?": 4})
    {'Offer': 'offer', '?': None}
    """
    sure = {*keep, *(listed or ())}
    labels = [name for name in counts if name not in sure]
    key_of = {name: spelling_key(name) for name in {*counts, *sure}}
    by_key = Counter(dict.fromkeys(key_of.values(), 0))
    by_key.update({key_of[name]: n_said for name, n_said in counts.items()})
    answers = match_phrased_labels(by_key)
    # An answer that names a label and a doubt counts as that label.
    none = {name for name in labels if is_no_answer(answers.get(key_of[name], name), counts)}
    if len({spelling_key(name) for name in {*counts, *sure} - none}) < 2:
        none = set()  # beside a single label such words are its opposite
    spellings: dict[str, list[str]] = {}
    for name in dict.fromkeys([*(listed or ()), *counts]):
        if name not in none and name not in keep:
            key = key_of[name]
            spellings.setdefault(key if name in sure else answers.get(key, key), []).append(name)
    same = {key: names for key, names in spellings.items() if len(names) > 1}
    letters = [key for key, names in same.items() if len(key) == 1 < len(set(map(_bare, names)))]
    if len(letters) > MAX_LETTERS:
        same = {key: names for key, names in same.items() if key not in letters}
    synonyms: dict[str, str | None] = {}
    for key, names in same.items():
        meant = [name for name in names if name in sure] or [
            max(names, key=lambda name: (key_of[name] == key, _bare(name) == name,
                                         counts.get(name, 0), name))
        ]  # fmt: skip
        if len(meant) == 1:  # two listed spellings are two labels
            synonyms |= {name: meant[0] for name in names if name != meant[0]}
    return {name: synonyms.get(name) for name in counts if name in synonyms or name in none}


def _bare(name: str) -> str:
    return strip_punctuation(name.strip())


def normalization_messages(
    synonyms: Mapping[str, str | None], counts: Mapping[str, int], *, what: str, times: str
) -> list[str]:
    """Return messages about replaced labels, with the option that keeps them."""
    messages = []
    none = [name for name, meant in synonyms.items() if meant is None]
    if none:
        n_none = sum(counts[name] for name in none)
        messages.append(
            f"took {join_with_and(map(repr, none))} as {what} ({counted(n_none, times)}); to keep "
            f"them as labels, say --keep-label {_option(none)}"
        )
    pairs = [(name, meant) for name, meant in synonyms.items() if meant is not None]
    spelt = [pair for pair in pairs if len(set(map(spelling_key, pair))) == 1]
    named = [pair for pair in pairs if pair not in spelt]
    for each, why in (
        (spelt, "the same but for capitals, blanks or marks around them"),
        (named, "answers that name these labels"),
    ):
        if each:
            read = join_with_and(f"{name!r} as {meant!r}" for name, meant in each)
            messages.append(
                f"read {read}: {why}; to keep them apart, say --keep-label "
                f"{_option([name for name, _ in each])}"
            )
    return messages


def _option(names: Sequence[str]) -> str:
    if len(names) > MAX_PARTS or any("," in name for name in names):
        return "LABEL,LABEL"
    text = ",".join(names)
    return text if text.replace(",", "").isalnum() else f'"{text}"'


def match_phrased_labels(counts: Mapping[str, int]) -> dict[str, str]:
    """Return answers that name one known label in a phrase, and that label.

    Such as `category: cat`, `the animal is a cat` or `cat, because it has whiskers and a tail`.
    What leads to the label must lead to known labels alone, and to two or more; reasons must be
    many words that hardly ever come back, or begin with `because`, or `food: other` and `car - of a
    rental firm` would be no labels of their own. `counts`: how often each answer was written, in
    small letters.

    >>> counts = {"cat": 5, "dog": 5, "label: cat": 1, "label: dog": 2, "food: other": 2}
    >>> match_phrased_labels(counts)
    {'label: cat': 'cat', 'label: dog': 'dog'}
    """
    found: dict[str, str] = {}
    leads: dict[str, dict[str, str | None]] = {}
    reasons: dict[str, str] = {}
    for key in counts:
        label = _label_before_reason(key, counts)
        if label is not None:
            reasons[key] = label
        for lead in islice(_LEAD.finditer(key), MAX_LEADS):
            rest = strip_punctuation(key[lead.end() :])
            named = rest if rest in counts else _label_before_reason(rest, counts)
            leads.setdefault(lead.group(), {})[key] = named
    for answers in leads.values():
        if None not in answers.values() and len(set(answers.values())) >= MIN_ALIKE:
            found |= {key: label for key, label in answers.items() if label is not None}
    told = {key: label for key, label in reasons.items() if _BECAUSE.match(key, len(label))}
    others = reasons.keys() - told.keys()
    if sum(counts[key] for key in others) > REPEATS * len(others):
        reasons = told
    if len(set(reasons.values())) >= MIN_ALIKE:
        found |= {key: label for key, label in reasons.items() if key not in found}
    return {key: label for key, label in found.items() if label not in found}


def _label_before_reason(key: str, known: Collection[str]) -> str | None:
    """Return the known label at the beginning of an answer, if a reason or a percentage follows."""
    for tail in _TAIL.finditer(key, 0, MAX_LENGTH):
        label = strip_punctuation(key[: tail.start()])
        if label in known:
            rest = key[tail.end() :]
            is_reason = len(rest.split()) >= MIN_REASON
            return label if is_reason or re.fullmatch(r"[\d.,\s]*\d\s*%\)?", rest) else None
    return None
