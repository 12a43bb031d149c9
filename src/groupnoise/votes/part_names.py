"""The parts of a vote (annotator, row, label, confidence): types and usual column names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from groupnoise.io.columns.names import plain_name


class StatedVote(NamedTuple):
    """A label or several, with a confidence."""

    said: str | list[str]
    sure: float | None


VoteValue = str | int | Iterable[Any] | Mapping[Any, float] | StatedVote | None
"""A label, several labels, weights by label, an object with a confidence, or None."""
LONG_NAMES = {
    "annotator": ("annotator", "annotator_id", "rater", "rater_id", "worker", "worker_id",
                  "coder", "labeler", "labeller", "voter", "judge", "annotated_by", "labeled_by",
                  "who", "bewerter", "bewerterin", "bewertet_von", "gutachter", "gutachterin",
                  "kodierer", "kodiererin", "annotatorin", "annotierer", "prüfer", "prüferin",
                  "annotateur", "annotatrice", "évaluateur", "évaluatrice", "codeur", "codeuse",
                  "anotador", "anotadora", "evaluador", "evaluadora", "codificador", "annotatore",
                  "valutatore"),
    "row": ("row", "row_id", "item", "item_id", "task", "task_id", "unit", "unit_id", "example",
            "example_id", "id", "document", "doc", "doc_id", "sample", "sample_id", "record_id",
            "question_id", "hit_id", "input_hash", "zeile", "aufgabe", "objekt", "beleg",
            "dokument", "datensatz", "fall", "ligne", "exemple", "tâche", "fila", "ejemplo",
            "tarea", "documento", "riga", "esempio"),
    "label": ("label", "vote", "accept", "answer", "class", "category", "choice", "result",
              "etikett", "klasse", "kategorie", "stimme", "urteil", "antwort", "bewertung",
              "étiquette", "etiquette", "classe", "catégorie", "réponse", "etiqueta", "clase",
              "categoría", "voto", "respuesta", "etichetta"),
    "confidence": ("confidence", "certainty", "conf", "confidence_score", "confidence_level",
                   "how_sure", "sure", "probability", "prob", "sicherheit", "konfidenz",
                   "confiance", "certitude", "confianza", "certeza", "seguridad", "fiducia"),
}  # fmt: skip
_PLATFORM = re.compile(r"^(Answer\.|(ASSIGNMENT|OUTPUT|INPUT):)")
"""Prefixes of Mechanical Turk and Toloka."""
_PERCENT = re.compile(
    r"[\s_(-]*(?:in[\s_])?(?:%|(?<![a-z])(?:percent|prozent|pct))\)?\s*$", re.IGNORECASE
)


def find_column(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the column that matches the earliest of some names, ignoring case and underscores."""
    plain = {name_key(without_percent(name)): name for name in reversed(columns)}
    return next((plain[key] for key in map(name_key, names) if key in plain), None)


def name_key(name: str) -> str:
    """Return a name without case, underscores and platform prefixes: `WorkerId` is `workerid`."""
    return plain_name(_PLATFORM.sub("", name.strip())).replace("_", "")


def without_percent(name: str) -> str:
    """Return the name of a column without a percent unit.

    >>> without_percent("Sicherheit (%)"), without_percent("confidence_pct")
    ('Sicherheit', 'confidence')
    """
    return _PERCENT.sub("", name)
