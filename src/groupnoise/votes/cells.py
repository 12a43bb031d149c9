"""Reading votes from cells of tables, and from exports of Label Studio and Argilla."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from groupnoise.exceptions import DataError, ParameterError
from groupnoise.io.files import read_json
from groupnoise.io.labels.memberships import parse_literals
from groupnoise.io.labels.spellings import guess_separators, split_labels
from groupnoise.io.tables.sources import Report
from groupnoise.io.tables.table import Table
from groupnoise.votes.data import as_label
from groupnoise.votes.part_names import (
    LONG_NAMES,
    StatedVote,
    VoteValue,
    find_column,
    without_percent,
)

Entry = tuple[int, str, VoteValue, float | None]
"""Row, annotator, value, confidence."""
Vote = tuple[str, str, VoteValue, float | None]
"""Question, annotator, value, confidence."""

Export = tuple[pl.DataFrame, list[Entry], str]
"""Rows, their votes, and the name of the tool."""
SEPARATORS = ("|", ";")
"""Separators that are guessed; commas and blanks may be part of a label."""
FURTHER_LABEL_PARTS = ("labels", "prediction", "predicted_label", "sentiment", "topic", "intent")
"""Keys that language models use for the label, besides usual column names."""
_FENCE = re.compile(r"^\s*```\w*\s|\s*```\s*$")
BROKEN_JSON = re.compile(r"""\{.*\}$|[\[{]\s*["']""", re.DOTALL)
"""The beginning of a JSON list or object; a cell that begins so and cannot be parsed is an
error."""
RESPONSES = ".responses"
"""Suffix of the columns in which Argilla writes the answers to a question."""
MAX_GRADE = 10.0
"""Confidences above this are percent; up to it they may be grades."""


def read_export(source: Any, question: str | None) -> Export | pl.DataFrame | None:
    """Return rows, votes and tool of an export; None if `source` is not one.

    A list of flat records, such as the short form of Label Studio, is returned as a frame.
    `source`: a `.json` file, or its content. `question`: the question whose answers are the votes;
    needed if there are several.
    """
    records = source if isinstance(source, list) else None
    if isinstance(source, (str, Path)) and Path(source).suffix.lower() == ".json":
        records = _read_records(Path(source))
    if records is None:
        return None
    name = str(source) if isinstance(source, (str, Path)) else "the list"
    if not records or not all(isinstance(record, Mapping) for record in records):
        raise DataError(f"{name} holds no list of tasks; export it as JSON from the tool.")
    if any("annotations" in record for record in records):
        tool = "Label Studio"
    elif any("responses" in record and "fields" in record for record in records):
        tool = "Argilla"
    elif not any(_is_nested(cell) for record in records for cell in record.values()):
        rows = [{key: _chosen(cell) for key, cell in record.items()} for record in records]
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)
    else:
        raise DataError(
            f"{name} is no export of Label Studio (tasks with `annotations`) or Argilla (records "
            "with `fields` and `responses`); write other tables as CSV or JSON lines."
        )
    votes_of, cells_of = TOOLS[tool]
    votes = []
    for row, record in enumerate(records):
        try:
            votes += [(row, *vote) for vote in votes_of(record)]
        except (AttributeError, TypeError):
            raise DataError(
                f"{name}, task {row}: its answers are not laid out as {tool} does it; export the "
                "project again."
            ) from None
    entries = _select_question(votes, question, name)
    frame = pl.DataFrame([cells_of(record) for record in records], infer_schema_length=None)
    if not any(frame["id"]):
        frame = frame.drop("id")
    return frame, entries, tool


def _chosen(cell: Any) -> Any:
    """Return a cell; of Label Studio's `{"choices": [...]}`, several answers in one, as JSON."""
    return json.dumps(next(iter(cell.values()))) if isinstance(cell, Mapping) else cell


def _is_nested(cell: Any) -> bool:
    return isinstance(cell, Mapping) and list(cell) not in (["choices"], ["labels"])


def read_flat_export(table: Table, question: str | None) -> tuple[pl.DataFrame, list[Entry]] | None:
    """Return rows and votes of a table written by Argilla, such as Parquet; None for other tables.

    It has a column `topic.responses` of lists beside `topic.responses.users` for each question,
    and perhaps `topic.suggestion`. `question`: as in `read_export`.
    """
    frame = table.frame
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    answered = [name for name in lists if name.endswith(RESPONSES) and f"{name}.users" in lists]
    if not answered:
        return None
    votes: list[tuple[int, str, str, VoteValue, float | None]] = []
    for name in answered:
        about = name.removesuffix(RESPONSES)
        parts = (name, f"{name}.users", f"{name}.status", *(f"{about}.suggestion{each}" for each in
                 ("", ".agent", ".score")))  # fmt: skip
        cells = [frame[part].to_list() if part in frame else [None] * len(frame) for part in parts]
        for row, (said, users, states, guess, agent, score) in enumerate(zip(*cells, strict=True)):
            said = said or []
            for value, user, state in zip(said, users or [], states or [None] * len(said),
                                          strict=True):  # fmt: skip
                if _is_given({"status": state}):
                    votes.append((row, about, str(user), value, None))
            if guess is not None:
                votes.append((row, about, str(agent or "model"), guess, _probability(score)))
    endings = (RESPONSES, f"{RESPONSES}.users", f"{RESPONSES}.status", ".suggestion",
               ".suggestion.agent", ".suggestion.score")  # fmt: skip
    rest = [name for name in frame.columns if not name.endswith(endings)]
    return frame.select(rest), _select_question(votes, question, table.origin)


def _select_question(
    votes: Sequence[tuple[int, str, str, VoteValue, float | None]], question: str | None, name: str
) -> list[Entry]:
    """Return the votes on one question, which must be named if there are several."""
    asked = list(dict.fromkeys(vote[1] for vote in votes))
    if question is None and len(asked) > 1:
        raise DataError(
            f"{name} holds answers to several questions ({', '.join(asked)}); name one with "
            "`label` (--label)."
        )
    if question is not None and question not in asked:
        raise DataError(
            f"{name} holds no answer to {question!r}; it has {', '.join(asked) or 'none'}."
        )
    return [
        (row, who, said, sure)
        for row, about, who, said, sure in votes
        if question is None or about == question
    ]


def _read_records(path: Path) -> list[Any]:
    try:
        content = read_json(path)
    except FileNotFoundError:
        raise DataError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not valid JSON ({error}).") from None
    if isinstance(content, dict) and isinstance(content.get("records"), list):
        content = content["records"]
    if not isinstance(content, list):
        raise DataError(f"{path} holds no list of tasks; export it as JSON from the tool.")
    return content


def _scalar_cells(record: Any) -> dict[str, Any]:
    """Return the cells of a row that are text or numbers."""
    cells = record if isinstance(record, Mapping) else {}
    return {str(k): v for k, v in cells.items() if isinstance(v, (str, int, float)) or v is None}


def _label_studio_cells(task: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": str(task.get("id", "")), **_scalar_cells(task.get("data"))}


def _label_studio_votes(task: Mapping[str, Any]) -> Iterator[Vote]:
    for annotation in task.get("annotations") or []:
        if not annotation.get("was_cancelled"):
            who = annotation.get("completed_by", "?")
            if isinstance(who, Mapping):
                who = who.get("email") or who.get("id", "?")
            yield from _label_studio_results(annotation, str(who), None)
    for guess in task.get("predictions") or []:
        if isinstance(guess, Mapping):
            who = str(guess.get("model_version") or "model")
            yield from _label_studio_results(guess, who, _probability(guess.get("score")))


def _probability(score: Any) -> float | None:
    """Return a score that is a probability; others have an unknown scale."""
    return float(score) if isinstance(score, (int, float)) and 0 <= score <= 1 else None


def _label_studio_results(answer: Any, who: str, sure: float | None) -> Iterator[Vote]:
    for result in answer.get("result") or []:
        value = result.get("value") or {}
        said = value.get("choices") or value.get("labels") or value.get("rating")
        if said is None and value.get("taxonomy"):
            said = [" / ".join(map(str, path)) for path in value["taxonomy"]]
        if said is not None:
            yield str(result.get("from_name", "label")), who, said, sure


def _argilla_cells(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": str(record.get("id", "")),
        **_scalar_cells(record.get("fields")),
        **_scalar_cells(record.get("metadata")),
    }


def _argilla_votes(record: Mapping[str, Any]) -> Iterator[Vote]:
    responses = record.get("responses") or {}
    if isinstance(responses, Mapping):  # by question, since version 2
        for question, answers in responses.items():
            for answer in answers or []:
                if _is_given(answer):
                    yield str(question), str(answer.get("user_id", "?")), answer.get("value"), None
    else:  # by user, until version 1
        for answer in responses:
            if _is_given(answer):
                for question, value in (answer.get("values") or {}).items():
                    yield str(question), str(answer.get("user_id", "?")), value.get("value"), None
    yield from _argilla_suggestions(record.get("suggestions") or {})


def _is_given(answer: Mapping[str, Any]) -> bool:
    """Tell whether an answer was submitted; drafts and discarded ones do not count."""
    return answer.get("status") in (None, "submitted")


def _argilla_suggestions(suggestions: Any) -> Iterator[Vote]:
    listed: Sequence[tuple[Any, Any]]
    if isinstance(suggestions, Mapping):
        listed = list(suggestions.items())
    else:
        listed = [(each.get("question_name", "label"), each) for each in suggestions]
    for question, guess in listed:
        who = str(guess.get("agent") or "model")
        yield str(question), who, guess.get("value"), _probability(guess.get("score"))


TOOLS: dict[str, tuple[Callable[[Any], Iterator[Vote]], Callable[[Any], dict[str, Any]]]] = {
    "Label Studio": (_label_studio_votes, _label_studio_cells),
    "Argilla": (_argilla_votes, _argilla_cells),
}


def read_confidences(table: Table, name: str, report: Report) -> list[float | None]:
    """Return a column of confidences; None for an empty cell, percent divided by 100."""
    cells = table.frame[name]
    text = cells.cast(pl.String).str.strip_chars()
    bare = text.str.strip_suffix("%").str.strip_chars()
    if cells.dtype == pl.String:  # decimal commas as in "87,5 %"
        bare = bare.str.replace(r"^(\d+),(\d+)$", "$1.$2")
    numbers: list[float | None] = bare.cast(pl.Float64, strict=False).to_list()
    for line, (cell, number) in enumerate(zip(cells.to_list(), numbers, strict=True)):
        if number is None and cell is not None and str(cell).strip():
            raise DataError(
                f"{table.locate(line)}: the confidence {cell!r} is no number from 0 to 1, and no "
                "percentage such as 90%."
            )
    known = [number for number in numbers if number is not None]
    is_marked = bool(text.str.ends_with("%").any()) or without_percent(name) != name
    # Grades of confidence go up to ten at most.
    if known and (is_marked or max(known) > MAX_GRADE) and 1.0 < max(known) <= 100.0:
        report(f"read column {name!r} as percent")
        return [None if number is None else number / 100.0 for number in numbers]
    return numbers


def with_stated_confidence(entry: Entry) -> Entry:
    """Return a vote with the confidence that its own cell states, if any."""
    row, who, said, sure = entry
    if isinstance(said, StatedVote):
        return row, who, said.said, said.sure if sure is None else sure
    return entry


def cell_reader(
    table: Table,
    names: Sequence[str],
    separator: str | None,
    report: Report,
    guesses: Sequence[str] = SEPARATORS,
) -> Callable[[str], list[VoteValue]]:
    """Return a function that reads a column of votes, with the separators of labels guessed."""
    texts = [table.frame[name] for name in names if table.frame.schema[name] == pl.String]
    if separator == "":
        raise ParameterError("label_separator must not be empty.")
    separators: tuple[str, ...] = () if separator is None else (separator,)
    if separator is None:
        plain = [each.filter(~each.str.contains(r"^\s*(?:```\w*\s)?\s*[\[{(]")) for each in texts]
        for guess in guesses:
            if any(bool(each.str.contains(guess, literal=True).any()) for each in plain):
                report(f"split the labels of a cell at {guess!r}")
                separators = (guess,)
                break
        cells = [cell for each in plain for cell in each.drop_nulls()]
        parts = [
            part
            for cell in cells
            for part in (split_labels(cell, separators) if separators else [cell])
        ]
        separators += guess_separators(parts, report)

    def read(name: str) -> list[VoteValue]:
        votes = []
        for row, cell in enumerate(table.frame[name].to_list()):
            said = parse_vote(cell, *separators)
            if isinstance(said, str) and BROKEN_JSON.match(said):
                raise DataError(
                    f"{table.locate(row)}: {said[:60]} in {name!r} is no JSON; weights are written "
                    'as {"a": 0.7, "b": 0.3}, lists as ["a", "b"].'
                )
            votes.append(said)
        return votes

    return read


def parse_vote(cell: Any, *separators: str) -> VoteValue:
    """Return the vote in a cell: a label, several, weights by label, or None.

    `separators`: between several labels.

    >>> parse_vote('{"a": 0.7, "b": 0.3}'), parse_vote("['a', 'b']"), parse_vote("a; b", ";")
    ({'a': 0.7, 'b': 0.3}, ['a', 'b'], ['a', 'b'])
    """
    if isinstance(cell, dict):  # of a struct column, where labels not named are null
        return _labelled({label: weight for label, weight in cell.items() if weight})
    if not isinstance(cell, str):
        return None if cell is None else (cell if isinstance(cell, (list, tuple)) else
                                          as_label(cell))  # fmt: skip
    text = _FENCE.sub("", cell).strip()
    if text[:1] in ("[", "{", "("):
        for value in parse_literals(text):
            if isinstance(value, (list, tuple, set, dict)):
                return list(value) if isinstance(value, set) else _labelled(value)
    if any(joint in text for joint in separators):
        return split_labels(text, separators)
    return text or None


def _labelled(value: VoteValue) -> VoteValue:
    """Return the vote in an object with named parts, `{"label": "a", "confidence": 0.9}`.

    An object of weights by label is returned as it is.
    """
    if not isinstance(value, Mapping):
        return value
    keys = [str(key) for key in value]
    key = find_column(keys, (*LONG_NAMES["label"], *FURTHER_LABEL_PARTS))
    said: Any = None if key is None else value[key]
    if not isinstance(said, (str, list)) or (
        isinstance(said, list) and not all(isinstance(label, str) for label in said)
    ):
        return value
    sure = find_column(keys, LONG_NAMES["confidence"])
    return StatedVote(said, None if sure is None else _probability(value[sure]))
