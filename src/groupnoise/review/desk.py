"""The review desk: assigns questions to people and keeps their answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.audit.evidence import Picture
from groupnoise.core.arrays import BoolArray, FloatArray
from groupnoise.exceptions import DataError, GroupNoiseError
from groupnoise.review.questions import AnswerFile, Questions, RowQuestions
from groupnoise.votes.resolution import Resolution

LOCK_SECONDS = 300.0
"""How long a row stays with the person it is shown to."""
MIN_DOUBT = 1e-4
"""Least doubt about a proposal that nobody has checked."""
DOUBT_TEMPERATURES = np.geomspace(0.25, 16.0, 49)
TEMPERATURE_SPREAD = np.log(2.0)
"""Standard deviation of the log-normal prior of that temperature."""


class TakenError(GroupNoiseError):
    """The row is assigned to somebody else, or answered."""


@dataclass
class _Lock:
    who: str
    until: float


class Desk:
    """Questions in the order to look at them, each with one person at a time.

    Parameters
    ----------
    questions : Resolution or Questions
        Rows with labels and probabilities, or other questions.
    answers : str or Path
        The file that keeps the answers; those it holds already are taken over.
    relearn : callable, optional
        Given the answers so far, a label by row, returns what has learned from them. Where the
        file holds answers already, it begins at once, in the background.
    clock : callable, default=time.monotonic
        Seconds, for the locks.
    """

    def __init__(
        self,
        questions: Resolution | Questions,
        answers: str | Path,
        *,
        relearn: Callable[[Mapping[int, str]], Resolution | Questions] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._questions = _as_questions(questions)
        self._clock = clock
        self._relearn = relearn
        self._learning: threading.Thread | None = None
        self._learned = 0
        self._failure = ""
        self._mutex = threading.Lock()
        self._locks: dict[int, _Lock] = {}
        self._given: dict[int, dict[str, Any]] = {}
        self._skipped: dict[int, dict[str, Any]] = {}
        self._notes: dict[int, str] = {}  # of answers that were taken back, and of skipped rows
        self._file = AnswerFile(answers, self._questions.about())
        for event in self._file.events:
            self._apply(event)
        self.learn()  # models of an earlier process are not kept

    def __len__(self) -> int:
        return len(self._questions.order)

    def _apply(self, event: dict[str, Any]) -> None:
        row = int(event["row"])
        if event.get("undo"):
            taken = self._given.pop(row, None) or self._skipped.pop(row, None)
            self._notes[row] = "" if taken is None else taken["note"]
        elif event["label"] is None:
            self._skipped.pop(row, None)
            self._skipped[row] = event
            self._notes[row] = event["note"]
        else:
            self._given[row] = event
            self._skipped.pop(row, None)

    def progress(self) -> dict[str, Any]:
        """Return how many rows are answered, and how many labels may still be wrong.

        Answers tell how sure proposals may be: the doubt about the rest is made to fit how often
        those that people looked at were wrong, see `expected_errors`.

        Returns
        -------
        progress : dict
            `answered`, `skipped`, `total`, `found_wrong`, `expected_wrong`; whether it is
            `learning`, from how many answers it has `learned`, and the `failure` of the last
            attempt.
        """
        with self._mutex:
            given, questions = dict(self._given), self._questions
        # An answer is compared with the proposal at the time it was given.
        judged = [
            (event.get("doubt", questions.doubt[row]), event["label"] != proposed)
            for row, event in given.items()
            for proposed in [event.get("proposed", questions.proposed[row])]
            if proposed is not None
        ]
        left = np.delete(questions.doubt, list(given))
        expected = expected_errors(
            left, np.array([doubt for doubt, _ in judged]), np.array([bad for _, bad in judged])
        )
        return {
            "answered": len(given),
            "skipped": len(self._skipped),
            "total": len(self),
            "found_wrong": sum(bad for _, bad in judged),
            "expected_wrong": round(expected, 1),
            "learning": self._learning is not None and self._learning.is_alive(),
            "learned": self._learned,
            "failure": self._failure,
        }

    def learn(self) -> bool:
        """Begin to learn from the answers so far; what is left is put into a new order.

        Returns
        -------
        begun : bool
            False where it is learning already, or there is nothing to learn from.
        """
        with self._mutex:
            is_busy = self._learning is not None and self._learning.is_alive()
            if self._relearn is None or is_busy or not self._given:
                return False
            known = {row: str(event["label"]) for row, event in self._given.items()}
            self._learning = threading.Thread(
                target=self._learn_from, args=(self._relearn, known), daemon=True
            )
            self._learning.start()
        return True

    def _learn_from(
        self, relearn: Callable[[Mapping[int, str]], Resolution | Questions], known: dict[int, str]
    ) -> None:
        try:
            found = _as_questions(relearn(known))
            if found.about() != self._file.about:
                raise DataError(
                    "the data have changed since the desk was opened; stop it, and start it again "
                    "with another file for --answers."
                )
        except Exception as error:  # the desk stays open with the previous model
            self._failure = f"could not learn from the answers: {error}"
            return
        with self._mutex:
            self._questions = found
            self._learned, self._failure = len(known), ""

    def next_row(self, who: str, was: str | None = None) -> dict[str, Any] | None:
        """Return the next row for a person, which stays theirs for five minutes.

        Parameters
        ----------
        who : str
            The person.
        was : str, optional
            What they were called before; a row they had under that name is theirs.

        Returns
        -------
        row : dict or None
            Cells, candidates with weights, labels; None where nothing is left for them.
        """
        with self._mutex:
            now = self._clock()
            free = [row for row in self._questions.order if row not in self._given]
            fresh = [row for row in free if row not in self._skipped]
            for row in [*fresh, *(row for row in self._skipped if row in free)]:
                lock = self._locks.get(row)
                if lock is None or lock.who in (who, was) or lock.until < now:
                    self._locks = {
                        other: held
                        for other, held in self._locks.items()
                        if held.who not in (who, was)
                    }
                    self._locks[row] = _Lock(who, now + LOCK_SECONDS)
                    return self.show(row)
        return None

    def answer(self, row: int, who: str, label: str | None, note: str = "") -> None:
        """Keep an answer; it is on the disk when this returns.

        Parameters
        ----------
        row : int
            The row.
        who : str
            The person.
        label : str or None
            One of the labels; None to skip the row.
        note : str, default=""
            A remark.
        """
        self._check_row(row)
        if label is not None and not self._questions.allows(row, label):
            raise DataError(
                f"{label!r} is none of the answers to row {row}; give one that `labels` of the row "
                "lists, or skip it and leave a note."
            )
        with self._mutex:
            before = self._given.get(row)
            if before is not None and before["who"] == who and before["label"] == label:
                return  # sent again after a lost connection
            lock = self._locks.get(row)
            is_held = lock is not None and lock.who != who and lock.until >= self._clock()
            if is_held or before is not None:
                raise TakenError(f"row {row} is with somebody else, or answered already.")
            self._keep(
                {
                    "row": row,
                    "who": who,
                    "label": label,
                    "note": note,
                    "proposed": self._questions.proposed[row],
                    "doubt": round(float(self._questions.doubt[row]), 6),
                }
            )

    def undo(self, who: str) -> int | None:
        """Take back a person's last answer and give them the row again.

        Parameters
        ----------
        who : str
            The person.

        Returns
        -------
        row : int or None
            The row; None where there is nothing to take back.
        """
        with self._mutex:
            mine: list[int] = []
            for event in self._file.events:
                if event["who"] == who:
                    row = int(event["row"])
                    mine = [each for each in mine if each != row]
                    if not event.get("undo"):
                        mine.append(row)
            if not mine:
                return None
            self._keep({"row": mine[-1], "who": who, "undo": True})
            self._locks = {row: held for row, held in self._locks.items() if held.who != who}
            self._locks[mine[-1]] = _Lock(who, self._clock() + LOCK_SECONDS)
            return mine[-1]

    def show(self, row: int) -> dict[str, Any]:
        """Return what is shown of a row.

        Parameters
        ----------
        row : int
            The row.

        Returns
        -------
        row : dict
            Cells, candidates with weights, labels, and the note that was written before.
        """
        return self._questions.describe(row) | {"note": self._notes.get(row, "")}

    def _keep(self, event: dict[str, Any]) -> None:
        event["time"] = round(time.time(), 3)
        self._file.append(event)
        self._apply(event)
        self._locks.pop(int(event["row"]), None)

    def _check_row(self, row: int) -> None:
        if not 0 <= row < len(self):
            raise DataError(f"there is no row {row}; there are {len(self)}.")

    def picture(self, row: int, position: int) -> Picture:
        """Return a picture of a row.

        Parameters
        ----------
        row, position : int
            The row, and which of its pictures.

        Returns
        -------
        picture : Picture
            Bytes and media type.
        """
        self._check_row(row)
        return self._questions.picture(row, position)

    def export(self) -> dict[str, list[Any]]:
        """Return all columns, with the answers of people in place of what was proposed.

        Returns
        -------
        columns : dict of str to list
            The input and the answers, `answered_by` and `note`; notes of skipped rows too.
        """
        with self._mutex:
            given, questions = {**self._skipped, **self._given}, self._questions
        return questions.export(given)

    def close(self) -> None:
        """Let another process open the file of answers."""
        self._file.close()


def _as_questions(source: Resolution | Questions) -> Questions:
    return RowQuestions(source) if isinstance(source, Resolution) else source


def expected_errors(left: FloatArray, judged: FloatArray, is_wrong: BoolArray) -> float:
    """Return how many of the proposals that nobody has judged yet are wrong.

    Error probabilities are recalibrated by a temperature fitted to the judged proposals, so errors
    among confident proposals raise the expected number for the rest.

    `left`: error probabilities of the proposals that are left. `judged`: those of the judged ones.
    """
    if not len(judged):
        return float(left.sum())
    sign = np.where(is_wrong, 1.0, -1.0)
    scores = [
        -np.logaddexp(0.0, -sign * _logit(judged) / temperature).sum()
        - 0.5 * (np.log(temperature) / TEMPERATURE_SPREAD) ** 2
        for temperature in DOUBT_TEMPERATURES
    ]
    temperature = DOUBT_TEMPERATURES[int(np.argmax(scores))]
    return float((1.0 / (1.0 + np.exp(-_logit(left) / temperature))).sum())


def _logit(doubt: FloatArray) -> FloatArray:
    clipped = np.clip(doubt, MIN_DOUBT, 1.0 - MIN_DOUBT)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
