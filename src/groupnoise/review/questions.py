"""Questions of a review desk, and the file of answers."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from groupnoise.audit.evidence import Picture, read_picture
from groupnoise.core.arrays import FloatArray
from groupnoise.exceptions import DataError, OutputError
from groupnoise.io.answer_files import REVIEW_COLUMNS
from groupnoise.io.columns.roles import is_truth_name
from groupnoise.votes.resolution import Resolution

MAX_CELL = 20_000
"""Characters of a cell that are shown at most."""

Answers = Mapping[int, Mapping[str, Any]]
"""Answers by question: `label` (None if skipped), `who` and `note`."""
FORMAT = 1


class Questions(Protocol):
    """Questions that people can answer one at a time."""

    @property
    def order(self) -> Sequence[int]:
        """Numbers of the questions, the most doubtful first."""
        ...

    @property
    def proposed(self) -> Sequence[str | None]:
        """The most probable answer of each question; None if unknown."""
        ...

    @property
    def doubt(self) -> FloatArray:
        """Probability that the proposed answer is wrong, shape (n_questions,)."""
        ...

    def about(self) -> dict[str, Any]:
        """Return an identification of these questions."""
        ...

    def allows(self, number: int, answer: str) -> bool:
        """Tell whether an answer to a question is allowed."""
        ...

    def describe(self, number: int) -> dict[str, Any]:
        """Return the content of the page: `ask`, `cells`, `why`, `labels` and `pictures`."""
        ...

    def picture(self, number: int, position: int) -> Picture:
        """Return a picture whose address `describe` gives."""
        ...

    def export(self, given: Answers) -> dict[str, list[Any]]:
        """Return all columns, with the answers of people in place of those proposed."""
        ...


class RowQuestions:
    """Asks which label is right for each row of a table.

    `found`: rows, labels and probabilities.
    `pictures`: the picture files of each row.
    `truth`: a column of true labels; it and columns named as the truth are not shown.
    """

    def __init__(
        self,
        found: Resolution,
        pictures: Sequence[Sequence[Path]] | None = None,
        truth: str | None = None,
    ) -> None:
        self.found = found
        self.pictures = pictures
        columns: list[str] = found.rows.columns
        self.hidden = [name for name in columns if name == truth or is_truth_name(name)]
        self._shown = [name for name in columns if name not in self.hidden]
        self.order: Sequence[int] = found.order.tolist()
        self.proposed: Sequence[str | None] = found.columns["label"]
        self.doubt: FloatArray = 1.0 - np.nan_to_num(found.probabilities, nan=0.0).max(axis=1)
        self._named = found.votes.candidates()

    def about(self) -> dict[str, Any]:
        """Return the number of rows, the labels and a checksum of the cells."""
        rows, votes = self.found.rows, self.found.votes
        columns = ((name, rows[name].to_list()) for name in rows.columns)
        return {"rows": votes.n_rows, "labels": votes.class_names, "data": checksum(columns)}

    def allows(self, number: int, answer: str) -> bool:
        """Tell whether the answer is one of the labels."""
        return answer in self.found.votes.class_names

    def describe(self, number: int) -> dict[str, Any]:
        """Return the cells of a row, why it got its label, and the labels to choose from."""
        found, names = self.found, self.found.votes.class_names
        weights = np.nan_to_num(found.probabilities[number], nan=0.0)
        named = self._named[number].copy()
        if weights.any():
            named[weights.argmax()] = True  # the proposal is a button, named or not
        n_pictures = len(self.pictures[number]) if self.pictures is not None else 0
        return {
            "row": number,
            "ask": "Which label is right?",
            "cells": {name: display_text(found.rows[name][number]) for name in self._shown},
            "pictures": [f"/v1/picture/{number}/{position}" for position in range(n_pictures)],
            "why": found.columns["why"][number],
            "labels": [
                {"label": names[k], "weight": round(float(weights[k]), 6), "named": bool(named[k])}
                for k in np.lexsort((-weights, ~named))
            ],
        }

    def picture(self, number: int, position: int) -> Picture:
        """Return a picture that the table names for a row.

        No other file is ever read. `number`, `position`: the row, and which of its pictures.
        """
        files = self.pictures[number] if self.pictures is not None else []
        if not 0 <= position < len(files):
            raise DataError(f"row {number} has {len(files)} pictures; there is no {position}.")
        return read_picture(files[position])

    def export(self, given: Answers) -> dict[str, list[Any]]:
        """Return every column, with the answers of people in place of what was resolved.

        As `Resolution.to_columns`, and `answer`, `answered_by` and `note`. `answer` is what a
        person said, empty elsewhere: a column for `groupnoise fit --learn-truth`. Of an answered
        row `label` is certain, `second` the likeliest other label, `agreement` the share of the
        votes for the answer, and `look` comes after all that is left.
        """
        found, names = self.found, self.found.votes.class_names
        answers = {name: list(cells) for name, cells in found.columns.items()}
        columns = found.input_beside({*answers, *REVIEW_COLUMNS}) | answers
        columns["answer"] = [None] * len(self.order)
        said = {row: event["label"] for row, event in given.items() if event["label"] is not None}
        for row, label in said.items():
            at = names.index(label)
            columns["label"][row] = columns["answer"][row] = label
            columns["probability"][row] = columns["margin"][row] = 1.0
            if len(names) > 1:
                columns["second"][row] = names[found.belief.likeliest_other(row, at)]
            if found.votes.counts[row]:
                columns["agreement"][row] = round(float(found.shares[row, at]), 6)
        left = [row for row in self.order if row not in said]
        for place, row in enumerate([*left, *(row for row in self.order if row in said)], 1):
            columns["look"][row] = place
        return columns | answer_columns(given, len(self.order))


def answer_columns(given: Answers, n_questions: int) -> dict[str, list[Any]]:
    """Return the columns `answered_by` and `note`."""
    said: dict[str, list[Any]] = {"answered_by": [None] * n_questions, "note": [None] * n_questions}
    for number, event in given.items():
        said["answered_by"][number] = None if event["label"] is None else event["who"]
        said["note"][number] = event["note"]
    return said


def display_text(cell: Any) -> str:
    """Return a cell as text to show."""
    return "" if cell is None else str(cell)[:MAX_CELL]


def checksum(columns: Iterable[tuple[str, Iterable[Any]]]) -> str:
    """Return a checksum of columns."""
    digest = hashlib.sha256()
    for name, cells in columns:
        digest.update(f"{name}\0".encode())
        for cell in cells:
            digest.update(f"{cell}\0".encode())
    return digest.hexdigest()


class AnswerFile:
    """An append-only file of answers that survives a crash at any moment.

    Every answer is one line of JSON, on disk before `append` returns. An incomplete line is dropped
    when the file is opened again: its answer was never confirmed.

    `path`: the file; created if missing.
    `about`: identification of the questions; a file about other questions is refused.
    `events`: the answers so far, oldest first.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        self.path, self.about = Path(path), dict(about)
        try:
            self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise OutputError(f"{self.path} cannot be written: {error.strerror}.") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise OutputError(
                f"{self.path} is being written by another review; open its page instead, or give "
                "another file with --answers."
            ) from None
        try:
            self.events = self._read(self.about)
        except BaseException:
            self.close()
            raise

    def _read(self, about: dict[str, Any]) -> list[dict[str, Any]]:
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.ftruncate(self._descriptor, len(whole))
            os.fsync(self._descriptor)
        try:
            lines = [json.loads(line) for line in whole.decode().splitlines()]
        except ValueError as error:
            raise DataError(f"{self.path} is no file of answers ({error}).") from None
        head = {"format": FORMAT, **about}
        if not lines:
            self._write(head)
            return []
        if lines[0] != head or not all(isinstance(line, dict) for line in lines):
            raise DataError(
                f"{self.path} holds answers about other rows or labels; give another file with "
                "--answers."
            )
        return lines[1:]

    def append(self, event: Mapping[str, Any]) -> None:
        """Write one answer and wait until it is on the disk."""
        self._write(event)
        self.events.append(dict(event))

    def _write(self, event: Mapping[str, Any]) -> None:
        line = (json.dumps(event, ensure_ascii=False) + "\n").encode()
        end = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, line) < len(line):
                raise OSError(0, "the disk took only a part of the line")
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, end)  # half a line would spoil the next one
            raise OutputError(f"{self.path} cannot be written: {error.strerror}.") from None

    def close(self) -> None:
        """Let another process open the file; a second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
