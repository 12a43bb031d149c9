"""Recognise the negative label of bags by its name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import BoolArray
from groupnoise.exceptions import ParameterError

OPPOSITES = {
    "0": "1",
    "-1": "1",
    "no": "yes",
    "n": "y",
    "f": "t",
    "-": "+",
    "false": "true",
    "neg": "pos",
    "negative": "positive",
    "negativ": "positiv",
    "negativo": "positivo",
    "négatif": "positif",
    "nein": "ja",
    "nee": "ja",
    "nej": "ja",
    "nei": "ja",
    "non": "oui",
    "não": "sim",
    "nao": "sim",
    "nie": "tak",
    "ne": "ano",
    "hayır": "evet",
    "нет": "да",
    "否": "是",
    "いいえ": "はい",
    "pass": "fail",
    "passed": "failed",
    "control": "case",
    "normal": "abnormal",
    "benign": "malignant",
    "healthy": "diseased",
    "absent": "present",
    "ham": "spam",
    "inactive": "active",
    "non-musk": "musk",
}
"""Negative labels and the label that each is negative beside."""
NEGATIVE_NAMES = (
    *("negative", "neg", "none", "nothing", "background", "no", "normal", "other", "control"),
    *("hintergrund", "keine", "nichts", "kontrolle", "arrière-plan", "aucun", "aucune"),
    *("fondo", "ninguno", "ninguna", "sfondo", "nessuno", "nessuna", "nenhum", "nenhuma"),
    *("achtergrond", "geen"),
)
"""Labels that are negative beside any others."""
BINARY_NEGATIVE_NAMES = (
    *("healthy", "absent", "benign", "inactive", "unaffected", "false"),
    *("gesund", "unauffällig", "in ordnung", "negativ", "nein", "unbeschädigt"),
    *("ok", "okay", "io", "i.o.", "i. o.", "gut", "clean", "intact", "intakt", "fehlerfrei"),
    *("uninfected", "undamaged", "sain", "saine", "sano", "sana", "normale", "négatif", "négative"),
    *("negativo", "negativa", "não", "nao", "saudável", "sadio", "sadia"),
    *("negatief", "gezond", "normaal", "nee", "frisk", "zdrowy", "zdrowa"),
)
"""Labels that are negative beside exactly one other, whatever that is called."""
COMPLIANT_NAMES = (
    *("conform", "conforming", "compliant", "pass", "passed", "acceptable", "accepted", "safe"),
    *("valid", "konform", "bestanden", "akzeptabel", "zulässig", "gültig", "sicher"),
    *("conforme", "acceptable", "apte", "apto", "apta", "aceptable", "idoneo", "idonea"),
    *("accettabile", "aceitável"),
)
"""Labels that are negative beside their own negation, which is then the positive label."""
GRADES = frozenset({
    "good", "great", "excellent", "perfect", "better", "best", "super", "gut", "sehr gut", "besser",
    "befriedigend", "bien", "bueno", "buono", "bon",
})  # fmt: skip
"""Beside these, `ok` and the like are grades of whole bags, not negative labels."""
NEGATION_PREFIXES = (
    *("non", "non-", "non_", "non ", "not-", "not_", "not ", "no-", "no_", "no "),
    *("nicht ", "nicht-", "kein ", "keine ", "ohne ", "without ", "pas ", "pas de ", "sans "),
    *("sin ", "senza ", "não ", "nao ", "sem ", "niet ", "niet-", "geen ", "zonder "),
)
"""Prefixes of negated labels: "non-smoker" beside "smoker"."""


def find_negative_label(
    negative_label: Any, classes: NDArray[Any], labels: BoolArray, *, named: bool = True
) -> tuple[int | None, tuple[str, ...]]:
    """Return the column of the negative label, or None, and messages for the record.

    `negative_label`: the parameter of `fit`; "auto" goes by the names. `labels` (n_bags,
    n_classes). `named`: whether labels are names; columns of a 0/1 matrix are only numbered.
    """
    if negative_label is None:
        return None, ()
    words = [_word(label) for label in classes.tolist()]
    if not (isinstance(negative_label, str) and negative_label == "auto"):
        # A label may come from a command line as text, so that words are compared.
        found = [k for k, word in enumerate(words) if word == _word(negative_label)]
        if not found and _word(negative_label) in NEGATIVE_NAMES and not labels.any(axis=1).all():
            return None, ()  # bags without a label are the negative ones
        if not found:
            some = ", ".join(map(repr, classes[:5].tolist()))
            raise ParameterError(
                f"negative_label {negative_label!r} is none of the labels of the bags: {some} ..."
            )
        _check_alone(labels, found[0], classes)
        return found[0], (f"The negative label is {classes[found[0]]!s}, as given.",)
    if not named:
        return None, ()
    column = None
    if len(words) == 2:
        column = next((k for k in (0, 1) if OPPOSITES.get(words[k]) == words[1 - k]), None)
        if column is None:
            column = next((k for k in (0, 1) if _negates(words[k], words[1 - k])), None)
    if column is None:
        column = next((k for k, word in enumerate(words) if word in NEGATIVE_NAMES), None)
    if column is None or (labels[:, column] & (labels.sum(axis=1) > 1)).any():
        return None, ()
    sentence = (
        f"{classes[column]!s} was recognised as the negative label: every instance of such a bag "
        "is negative (negative_label=None says otherwise)."
    )
    return column, (sentence,)


def _negates(word: str, other: str) -> bool:
    """Return whether a label is negative beside one other label.

    The negation of `ok` or `conforme` is the positive label: the defect to be found.
    """
    well = {*NEGATIVE_NAMES, *BINARY_NEGATIVE_NAMES, *GRADES, *COMPLIANT_NAMES}
    if word in BINARY_NEGATIVE_NAMES:
        return (
            other not in NEGATIVE_NAMES
            and other not in BINARY_NEGATIVE_NAMES
            and other not in GRADES
        )
    if word in well:
        return any(other == each + word for each in NEGATION_PREFIXES)
    return other not in well and any(word == each + other for each in NEGATION_PREFIXES)


def _check_alone(labels: BoolArray, column: int, classes: NDArray[Any]) -> None:
    both = np.flatnonzero(labels[:, column] & (labels.sum(axis=1) > 1))
    if len(both):
        raise ParameterError(
            f"negative_label {classes[column]!r} stands beside another label in bag {both[0]}; a "
            "negative bag has no other label."
        )


def _word(label: Any) -> str:
    """Return a label as text, numbers without their type."""
    if isinstance(label, (bool, np.bool_)):
        return str(bool(label)).lower()
    if isinstance(label, (int, float)) and float(label).is_integer():
        return str(int(label))
    text = str(label).strip().lower()
    return text.partition(".")[0] if re.fullmatch(r"-?\d+\.0*", text) else text
