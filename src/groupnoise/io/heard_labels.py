"""Labels that are heard as others, or as none: what people and language models write for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from groupnoise.core.words import MAX_PARTS, counted, listed_parts
from groupnoise.io.label_spellings import says_nothing, spelling_key
from groupnoise.io.model_answers import labels_in_answers, without_marks

MAX_LETTERS = 5
"""Letters that may stand as capitals and as small ones and mean one label each; more are an
alphabet, of which both are learned."""


def heard_labels(
    counts: Mapping[str, int], *, keep: Collection[str] = (), listed: Sequence[str] | None = None
) -> dict[str, str | None]:
    """Return the labels that are heard as another spelling of one, or as none (None).

    Of several spellings the most frequent one stands for all, or the one that is listed. `counts`:
    how often each was written. `keep`: labels that stay as they are. `listed`: all labels there
    are, where somebody says so.

    >>> heard_labels({"offer": 9, "Offer": 3, "ham": 5, "?": 4})
    {'Offer': 'offer', '?': None}
    """
    sure = {*keep, *(listed or ())}
    labels = [name for name in counts if name not in sure]
    key_of = {name: spelling_key(name) for name in {*counts, *sure}}
    by_key = Counter(dict.fromkeys(key_of.values(), 0))
    by_key.update({key_of[name]: n_said for name, n_said in counts.items()})
    answers = labels_in_answers(by_key)
    # Who names a label and says what he cannot tell beside it names that label.
    none = {name for name in labels if says_nothing(answers.get(key_of[name], name), counts)}
    if len({spelling_key(name) for name in {*counts, *sure} - none}) < 2:
        none = set()  # words beside one label tell it from nothing
    spellings: dict[str, list[str]] = {}
    for name in dict.fromkeys([*(listed or ()), *counts]):
        if name not in none and name not in keep:
            key = key_of[name]
            spellings.setdefault(key if name in sure else answers.get(key, key), []).append(name)
    same = {key: names for key, names in spellings.items() if len(names) > 1}
    letters = [key for key, names in same.items() if len(key) == 1 < len(set(map(_bare, names)))]
    if len(letters) > MAX_LETTERS:
        same = {key: names for key, names in same.items() if key not in letters}
    heard: dict[str, str | None] = {}
    for key, names in same.items():
        meant = [name for name in names if name in sure] or [
            max(names, key=lambda name: (key_of[name] == key, _bare(name) == name,
                                         counts.get(name, 0), name))
        ]  # fmt: skip
        if len(meant) == 1:  # who lists two of them means two
            heard |= {name: meant[0] for name in names if name != meant[0]}
    return {name: heard.get(name) for name in counts if name in heard or name in none}


def _bare(name: str) -> str:
    return without_marks(name.strip())


def heard_in_words(
    heard: Mapping[str, str | None], counts: Mapping[str, int], *, what: str, times: str
) -> list[str]:
    """Return sentences about labels that are heard as others or as none, with how to keep them."""
    said = []
    none = [name for name, meant in heard.items() if meant is None]
    if none:
        n_none = sum(counts[name] for name in none)
        said.append(
            f"took {listed_parts(map(repr, none))} as {what} ({counted(n_none, times)}); to keep "
            f"them as labels, say --keep-label {_option(none)}"
        )
    pairs = [(name, meant) for name, meant in heard.items() if meant is not None]
    spelt = [pair for pair in pairs if len(set(map(spelling_key, pair))) == 1]
    named = [pair for pair in pairs if pair not in spelt]
    for each, why in (
        (spelt, "the same but for capitals, blanks or marks around them"),
        (named, "answers that name these labels"),
    ):
        if each:
            read = listed_parts(f"{name!r} as {meant!r}" for name, meant in each)
            said.append(
                f"read {read}: {why}; to keep them apart, say --keep-label "
                f"{_option([name for name, _ in each])}"
            )
    return said


def _option(names: Sequence[str]) -> str:
    if len(names) > MAX_PARTS or any("," in name for name in names):
        return "LABEL,LABEL"
    text = ",".join(names)
    return text if text.replace(",", "").isalnum() else f'"{text}"'
