"""Labels as people write them: spellings, separators, words for no label, and warnings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from groupnoise.core.arrays import BoolArray, IntArray
from groupnoise.core.label_typos import typo_messages
from groupnoise.core.words import counted, join_with_and, quoted
from groupnoise.io.tables.sources import Report

NO_VOTE = frozenset({
    "?", "-", "n/a", "#n/a", "n.a.", "na", "nan", "null", "unsure", "not sure", "i'm not sure",
    "unclear", "uncertain", "undecided", "unknown", "don't know", "dont know", "i don't know",
    "do not know", "idk", "can't tell", "cannot tell", "cant tell", "can't say", "skip", "skipped",
    "abstain", "any", "any of them", "any of these", "no answer", "no vote", "no idea",
    "not answered", "unanswered", "tbd",
    "keine angabe", "k.a.", "k. a.", "k.a", "weiß nicht", "weiss nicht", "ich weiß nicht",
    "ich weiss nicht", "unklar", "unsicher", "nicht sicher", "unbekannt", "unentschieden",
    "keine ahnung", "keine antwort", "keine stimme", "enthaltung", "überspringen", "übersprungen",
    "je ne sais pas", "ne sait pas", "sais pas", "nsp", "incertain", "pas sûr", "pas sûre",
    "inconnu", "indécis", "indéterminé", "sans réponse", "pas de réponse", "aucune réponse",
    "no sé", "no lo sé", "no sabe", "ns/nc", "no estoy seguro", "no estoy segura", "incierto",
    "desconocido", "indeciso", "sin respuesta", "non so", "non lo so", "incerto", "sconosciuto",
    "nessuna risposta",
})  # fmt: skip
"""Words for no label, in lower case."""
REPEATABLE_MARKS = "?-.–—_"
"""Marks that mean the same when repeated."""
CODE_LENGTH = 2
"""Labels up to this length are codes; among these `NA` may be one."""
MISSING = ("na", "n/a", "#n/a", "nan", "null", "none", "-", "--", "?", "missing")
"""Cells, in lower case, that mean a missing vote or number."""
NONE_OF = ("none of the above", "none of these", "none of them")
"""Labels, in lower case, that may mean that no label fits."""
WEAK_SEPARATORS = (
    " or ", " oder ", " ou ", " and ", " und ", " et ", " o ", " y ", " e ", " / ", "/", " & ", "&",
    " + ", "+", ", ", ",",
)  # fmt: skip
"""Separators that may also be part of a label."""
MIN_JOINED, MIN_EXPLAINED = 3, 0.9
"""Distinct pairs of known labels that a separator must yield, and their least share."""
MIN_REASON = 4
"""Words from which on what stands behind a label is a reason for it."""
MAX_NAMED = 3
"""Labels with the same separator from which a warning is given."""
QUOTING = "*`\"'“”‘’„«»‹›"
"""Marks around a label without meaning: `**cat**`, `"cat"`."""
_WORD = re.compile(r"\w[\w-]*")
_DOUBT = re.compile(
    r"(?i)^(maybe|perhaps|probably|possibly|likely|not sure,?|vielleicht|wohl|evtl\.?|vermutlich"
    r"|peut-être|probablement|quizás|tal vez|forse) |\s*\(?\?+\)?$"
)
_REFUSAL = re.compile(
    r"\b(?:cannot|can not|can['’]t|could not|couldn['’]t|unable to|not able to|impossible to"
    r"|not possible to)\s+(?:\w+\s+){0,3}(?:determine|tell|say|decide|classify|categori[sz]e|label"
    r"|judge|assess|assist|answer|identify|choose|assign|help|provide|comply)\b"
    r"|\bas an ai\b"
    r"|\b(?:not enough|insufficient|too little)\s+(?:information|context|details?)\b"
)


def spelling_key(label: str) -> str:
    """Return a key that is the same for all spellings of a label: capitals, blanks, punctuation.

    >>> spelling_key(" Late  Delivery") == spelling_key("**late delivery**.")
    True
    """
    return strip_punctuation(" ".join(label.casefold().split()))


def strip_punctuation(key: str) -> str:
    """Return a label without quotation marks and punctuation around it.

    >>> [strip_punctuation(label) for label in ("**cat**.", "B)", "c++", "...")]
    ['cat', 'B', 'c++', '...']
    """
    bare = key.strip(QUOTING + " ")
    bare = bare.rstrip(".!,;:").strip(QUOTING + " ")
    if bare[-1:] == ")" and "(" not in bare:
        bare = bare[:-1].strip()
    if bare[:1] == "(" and bare[-1:] == ")" and "(" not in bare[1:]:
        bare = bare[1:-1].strip()
    return bare or key


def is_refusal(key: str) -> bool:
    """Tell whether a lower-case answer refuses to give a label.

    >>> is_refusal("i cannot determine the category"), is_refusal("cannot log in")
    (True, False)
    """
    return _REFUSAL.search(key) is not None


def is_no_answer(label: str, others: Iterable[str] = ()) -> bool:
    """Tell whether a label means no label; `others`: the other labels in use.

    >>> is_no_answer("???"), is_no_answer("Weiß nicht"), is_no_answer("NA", ["EU", "US"])
    (True, True, False)
    """
    key = spelling_key(label)
    if key == "na" and any(len(other) <= CODE_LENGTH and other != label for other in others):
        return False
    # As `casefold` has it, ß is ss.
    return (
        key in _NO_ANSWER_KEYS or is_refusal(key) or (key != "" and not key.strip(REPEATABLE_MARKS))
    )


_NO_ANSWER_KEYS = frozenset(map(spelling_key, NO_VOTE))


def match_label(label: str, names: Sequence[str]) -> str | None:
    """Return a label in its known spelling, None for words for no label, else unchanged.

    >>> names = ["ham", "offer"]
    >>> [match_label(label, names) for label in ("Offer ", "?", "spam")]
    ['offer', None, 'spam']
    """
    if label in names:
        return label
    same = [name for name in names if spelling_key(name) == spelling_key(label)]
    if len(same) == 1:
        return same[0]
    return None if is_no_answer(label, names) else label


def canonical_number(label: str) -> str:
    """Return numbers and booleans in one notation, other labels unchanged.

    >>> canonical_number("1.0"), canonical_number("True"), canonical_number("tumour")
    ('1', '1', 'tumour')
    """
    try:
        return f"{float({'True': '1', 'False': '0'}.get(label, label)):g}"
    except ValueError:
        return label


def match_model_labels(
    names: Sequence[str], named: BoolArray, truth: IntArray | None, known: Sequence[str], units: str
) -> tuple[list[str], BoolArray, IntArray | None, list[str]]:
    """Return labels of data in the spelling of a model, and messages about differences.

    Returns `names`, `named` and `truth` with one column for all spellings of a label. `named`
    (n_groups, n_classes): which labels each group has. `truth`: of objects, numbers of labels, or
    -1. `known`: the labels of the model. `units`: what groups are called.
    """
    by_key: dict[str, list[str]] = {}
    by_number: dict[str, list[str]] = {}
    for name in known:
        by_key.setdefault(spelling_key(name), []).append(name)
        by_number.setdefault(canonical_number(name), []).append(name)
    meant = [
        name if name in known or len(same) != 1 else same[0]
        for name in names
        for same in [by_key.get(spelling_key(name)) or by_number.get(canonical_number(name), [])]
    ]
    found = list(dict.fromkeys(meant))
    numbers = np.array([found.index(name) for name in meant], dtype=np.int64)
    merged = np.zeros((len(named), len(found)), dtype=np.bool_)
    for column, number in enumerate(numbers):
        merged[:, number] |= named[:, column]
    if truth is not None and len(numbers):
        truth = np.where(truth >= 0, numbers[truth], -1)
    messages = []
    spelt = [f"{old!r} as {new!r}" for old, new in zip(names, meant, strict=True) if old != new]
    if spelt:
        messages.append(f"labels are read as the model spells them: {join_with_and(spelt)}")
    strange = [number for number, name in enumerate(found) if name not in known]
    n_strange = int(merged[:, strange].any(axis=1).sum())
    if n_strange:
        listed = [found[number] for number in strange if merged[:, number].any()]
        messages.append(
            f"{n_strange} of {counted(len(named), units)} have labels that the model does not know "
            f"({quoted(listed)}): no answer names these"
        )
    return found, merged, truth, messages


def split_names(given: str | Sequence[str] | None) -> list[str]:
    """Return labels given as a list, or separated by commas."""
    if given is None:
        return []
    return [name.strip() for name in given.split(",")] if isinstance(given, str) else list(given)


def guess_separators(
    cells: Sequence[str] | pl.Series, report: Report, *, blanks: bool = False
) -> tuple[str, ...]:
    """Return the separators of labels in cells, and report them; none if that is not certain.

    `blanks`: whether blanks may be separators if there are no others.
    """
    separators = find_separators(cells)
    if blanks and not separators and are_separate_words(cells):
        separators = (" ",)
    if separators:
        report(
            f"split the labels of a cell at {join_with_and(map(repr, separators))}: what it joins "
            "also stands alone or beside others; --label-separator names another"
        )
    return separators


def find_separators(cells: Iterable[str]) -> tuple[str, ...]:
    """Return the separators of labels in cells; none if that is not certain.

    Nearly all cells with a separator must split into labels that also occur alone or with different
    others, in a few distinct pairs: `black and white` may be one colour.

    >>> find_separators(["oak or elm", "elm or ash", "ash or oak", "oak", "elm", "ash"])
    (' or ',)
    """
    words = [separator for separator in WEAK_SEPARATORS if separator.strip().isalpha()]
    single = [(separator,) for separator in (*WEAK_SEPARATORS, *(word.upper() for word in words))]
    pairs = [(word, mark) for word in words for mark in (", ", ",")]  # a, b or c
    counts = Counter(cell.strip() for cell in cells)
    found: tuple[str, ...] = ()
    while separators := next(
        (each for each in (*single, *pairs) if _yields_known_labels(counts, each)), ()
    ):
        found += separators
        parts: Counter[str] = Counter()
        for cell, n_cells in counts.items():
            parts.update(dict.fromkeys(split_labels(cell, separators), n_cells))
        counts = parts
    return found


def split_labels(cell: str, separators: Sequence[str]) -> list[str]:
    """Return the labels of a cell, split at some separators.

    >>> split_labels("oak, elm or ash", (" or ", ", "))
    ['oak', 'elm', 'ash']
    """
    for separator in separators[1:]:
        cell = cell.replace(separator, separators[0])
    return [part.strip() for part in cell.split(separators[0]) if part.strip()]


def _yields_known_labels(counts: Mapping[str, int], separators: tuple[str, ...]) -> bool:
    """Tell whether cells with these separators split into labels of other cells."""
    joined = {
        cell: {spelling_key(part) for part in split_labels(cell, separators)}
        for cell in counts
        if any(separator in cell for separator in separators)
    }
    sets = set(map(frozenset, joined.values()))
    if len(sets) < MIN_JOINED or not all(
        any(separator in cell for cell in joined) for separator in separators
    ):
        return False
    known = {spelling_key(cell) for cell in counts if cell not in joined}
    beside: dict[str, set[str]] = {}
    for each in sets:
        for part in each:
            beside.setdefault(part, set()).update(each - {part})
    first = {spelling_key(split_labels(cell, separators)[0]) for cell in joined}
    # What only ever follows a label, in many words, is a reason for it.
    known |= {
        part
        for part, others in beside.items()
        if len(others) > 1 and (part in first or len(part.split()) < MIN_REASON)
    }
    n_joined = sum(counts[cell] for cell in joined)
    n_known = sum(counts[cell] for cell, parts in joined.items() if parts <= known)
    # Titles and names split into too many distinct parts.
    return n_known >= MIN_EXPLAINED * n_joined and len(beside) <= max(MIN_JOINED, n_joined // 2)


def are_separate_words(cells: Iterable[str]) -> bool:
    """Tell whether the words of cells are separate labels: they occur alone or in any position.

    There must be at least as many sets as words, or `red wine` and `white wine` would be split. Two
    words may be exceptions: the first and the last one of sorted lists.

    >>> are_separate_words(["cat dog", "dog fox", "cat fox", "fox", "dog"])
    True
    >>> are_separate_words(["red wine", "red car", "white wine", "white car"])
    False
    """
    lists = {tuple(spelling_key(cell).split()) for cell in cells}
    words = {word for each in lists for word in each}
    alone = {each[0] for each in lists if len(each) == 1}
    joined = [each for each in lists if len(each) > 1]
    moved = {each[0] for each in joined} & {word for each in joined for word in each[1:]}
    n_sets = len({frozenset(each) for each in joined})
    if not words.isdisjoint(separator.strip() for separator in WEAK_SEPARATORS) or not all(
        map(_WORD.fullmatch, words)
    ):
        return False
    return n_sets >= max(MIN_JOINED, len(words)) and len(words - alone - moved) <= 2


def find_label_columns(frame: pl.DataFrame, labels: pl.Series) -> set[str]:
    """Return columns whose cells hold nothing but labels: votes or candidates.

    Lists, weights and words for no label are allowed; columns of numbers are not returned.

    >>> cells = {"vote": ["cat", "?"], "guess": ["cat or dog", "dog"], "size": ["3", "4"]}
    >>> sorted(find_label_columns(pl.DataFrame(cells), pl.Series(["cat", "dog"])))
    ['guess', 'vote']
    """
    names = sorted({spelling_key(str(name)) for name in labels.drop_nulls()}, key=len, reverse=True)
    if not names:
        return set()
    words = {spelling_key(separator) for separator in WEAK_SEPARATORS} | _NO_ANSWER_KEYS
    known = "|".join(re.escape(word) for word in [*names, *sorted(words, key=len, reverse=True)])
    only_known = re.compile(rf"(?:(?<!\w)(?:{known})(?!\w)|[\W\d_])*")
    found = set()
    for name, kind in frame.schema.items():
        if isinstance(kind, pl.Struct):
            cells = [field.name for field in kind.fields]
        elif kind == pl.List(pl.String):
            cells = frame[name].explode().drop_nulls().unique().to_list()
        elif kind == pl.String:
            cells = frame[name].drop_nulls().unique().to_list()
        else:
            continue
        keys = [spelling_key(cell) for cell in cells]
        named = any(label in key for key in keys for label in names)
        if named and not all(map(_is_number, keys)) and all(map(only_known.fullmatch, keys)):
            found.add(name)
    return found


def _is_number(cell: str) -> bool:
    return not cell.strip("0123456789.,+- ")


def label_warnings(
    names: Sequence[str],
    named: BoolArray,
    locate: Callable[[int], str],
    *,
    negative: str | None = None,
    kept: Collection[str] = (),
    remedy: str = "where they mean that there is none, empty those cells",
    **about_slips: Any,
) -> list[str]:
    """Return warnings about labels that may be duplicates, several labels, or no label.

    One sentence each. `named` (n_rows, n_classes): which labels each row, or bag, has. `locate`:
    says where a row stands. `negative`: a label that is known to say that there is none. `kept`:
    labels that are known to be some. `remedy`: what to do about words that often stand where a
    label is missing. `about_slips`: what `typo_messages` takes.
    """
    messages = []
    words = {*MISSING, *NONE_OF}
    missing = [name for name in names if name.lower() in words and name not in (negative, *kept)]
    if missing:
        messages.append(f"took {quoted(missing)} as labels like any other; {remedy}")
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(spelling_key(name), []).append(name)
    for same in alike.values():
        if len(same) > 1 and not set(kept).intersection(same):
            messages.append(
                f"{quoted(same)} are different labels; where they mean the same, write them alike"
            )
    meant = {name: _DOUBT.sub("", name).strip() for name in names}
    doubted = [name for name in names if meant[name] != name and meant[name] in names]
    if doubted:
        messages.append(
            f"took {doubted[0]!r} as a label beside {meant[doubted[0]]!r} ({len(doubted)} such); "
            "where it means that one with less certainty, write it so"
        )
    for mark in WEAK_SEPARATORS:
        joined = {n: {part.strip() for part in n.split(mark)} for n in names if mark in n}
        known = [name for name, parts in joined.items() if parts <= set(names)]
        if known or len(joined) >= max(MAX_NAMED, len(set().union(*joined.values()))):
            messages.append(
                f"took {(known or list(joined))[0]!r} as one label; where it means several, say "
                f"--label-separator {mark!r}"
            )
            break
    return [*messages, *typo_messages(names, named, locate, **about_slips)]
