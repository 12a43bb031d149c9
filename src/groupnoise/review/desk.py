"""Which row is shown to whom, and what they answered."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from groupnoise.exceptions import DataError, GroupNoiseError
from groupnoise.review.answers import AnswerFile
from groupnoise.votes.resolution import Resolution

LOCK_SECONDS = 300.0
"""How long a row stays with the person it is shown to."""
MAX_CELL = 20_000
"""Characters of a cell that are shown."""


class TakenError(GroupNoiseError):
    """Somebody else has the row, or has answered it."""


@dataclass
class _Lock:
    who: str
    until: float


class Desk:
    """Rows in the order to look at them, each with one person at a time.

    Parameters
    ----------
    resolution : Resolution
        Rows, labels and probabilities.
    answers : str or Path
        The file that keeps the answers; those it holds already are taken over.
    relearn : callable, optional
        Given the answers so far, a label by row, returns a resolution that has learned from them.
    clock : callable, default=time.monotonic
        Seconds, for the locks.
    """

    def __init__(
        self,
        resolution: Resolution,
        answers: str | Path,
        *,
        relearn: Callable[[Mapping[int, str]], Resolution] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._found = resolution
        self._order = resolution.order.tolist()
        self._clock = clock
        self._relearn = relearn
        self._learning: threading.Thread | None = None
        self._learned = 0
        self._failure = ""
        self._mutex = threading.Lock()
        self._locks: dict[int, _Lock] = {}
        self._given: dict[int, dict[str, Any]] = {}
        self._skipped: dict[int, None] = {}
        self.labels = resolution.votes.class_names
        self._file = AnswerFile(
            answers,
            {"rows": resolution.votes.n_rows, "labels": self.labels, "data": _checksum(resolution)},
        )
        for event in self._file.events:
            self._apply(event)

    def _apply(self, event: dict[str, Any]) -> None:
        row = int(event["row"])
        if event.get("undo"):
            self._given.pop(row, None)
            self._skipped.pop(row, None)
        elif event["label"] is None:
            self._skipped.pop(row, None)
            self._skipped[row] = None
        else:
            self._given[row] = event
            self._skipped.pop(row, None)

    def progress(self) -> dict[str, Any]:
        """Return how many rows are answered, and how many labels may still be wrong.

        Returns
        -------
        progress : dict
            `answered`, `skipped`, `total`, `expected_wrong`; whether it is `learning`, from how
            many answers it has `learned`, and the `failure` of the last attempt.
        """
        doubt = 1.0 - np.nan_to_num(self._found.probabilities, nan=0.0).max(axis=1)
        doubt[list(self._given)] = 0.0
        return {
            "answered": len(self._given),
            "skipped": len(self._skipped),
            "total": len(self._order),
            "expected_wrong": round(float(doubt.sum()), 1),
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
        self, relearn: Callable[[Mapping[int, str]], Resolution], known: dict[int, str]
    ) -> None:
        try:
            found = relearn(known)
        except Exception as error:  # the desk stays open with what it knew
            self._failure = f"could not learn from the answers: {error}"
            return
        with self._mutex:
            self._found, self._order = found, found.order.tolist()
            self._learned, self._failure = len(known), ""

    def next_row(self, who: str) -> dict[str, Any] | None:
        """Return the next row for a person, which stays theirs for five minutes.

        Parameters
        ----------
        who : str
            The person.

        Returns
        -------
        row : dict or None
            Cells, candidates with weights, labels; None where nothing is left for them.
        """
        with self._mutex:
            now = self._clock()
            free = [row for row in self._order if row not in self._given]
            fresh = [row for row in free if row not in self._skipped]
            for row in [*fresh, *(row for row in self._skipped if row in free)]:
                lock = self._locks.get(row)
                if lock is None or lock.who == who or lock.until < now:
                    self._locks = {
                        other: held for other, held in self._locks.items() if held.who != who
                    }
                    self._locks[row] = _Lock(who, now + LOCK_SECONDS)
                    return self._describe(row)
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
        if not 0 <= row < len(self._order):
            raise DataError(f"there is no row {row}; there are {len(self._order)}.")
        if label is not None and label not in self.labels:
            raise DataError(f"{label!r} is not one of the {len(self.labels)} labels.")
        with self._mutex:
            before = self._given.get(row)
            if before is not None and before["who"] == who and before["label"] == label:
                return  # sent again because the connection was lost after it was kept
            lock = self._locks.get(row)
            is_held = lock is not None and lock.who != who and lock.until >= self._clock()
            if is_held or before is not None:
                raise TakenError(f"row {row} is with somebody else, or answered already.")
            self._keep({"row": row, "who": who, "label": label, "note": note})

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
            Cells, candidates with weights, labels.
        """
        return self._describe(row)

    def _keep(self, event: dict[str, Any]) -> None:
        event["time"] = round(time.time(), 3)
        self._file.append(event)
        self._apply(event)
        self._locks.pop(int(event["row"]), None)

    def _describe(self, row: int) -> dict[str, Any]:
        found = self._found
        weights = np.nan_to_num(found.probabilities[row], nan=0.0)
        named = found.votes.candidates()[row] if len(found.votes) else weights > 0
        order = np.lexsort((-weights, ~named))
        cells = {name: _shown(found.rows[name][row]) for name in found.rows.columns}
        return {
            "row": row,
            "cells": cells,
            "why": found.columns["why"][row],
            "labels": [
                {
                    "label": self.labels[k],
                    "weight": round(float(weights[k]), 4),
                    "named": bool(named[k]),
                }
                for k in order
            ],
        }

    def export(self) -> dict[str, list[Any]]:
        """Return every column, with the answers of people in place of what was resolved.

        Returns
        -------
        columns : dict of str to list
            As `Resolution.to_columns`, and `answered_by` and `note`.
        """
        with self._mutex:
            given = dict(self._given)
        columns = self._found.to_columns()
        n_rows = len(self._order)
        label, sure = list(columns["label"]), list(columns["probability"])
        for row, event in given.items():
            label[row], sure[row] = event["label"], 1.0
        who = [given[row]["who"] if row in given else None for row in range(n_rows)]
        notes = [given[row]["note"] if row in given else None for row in range(n_rows)]
        return {
            **columns, "label": label, "probability": sure, "answered_by": who, "note": notes,
        }  # fmt: skip

    def close(self) -> None:
        """Let another process open the file of answers."""
        self._file.close()


def _shown(cell: Any) -> str:
    return "" if cell is None else str(cell)[:MAX_CELL]


def _checksum(found: Resolution) -> str:
    """Return what tells these rows from others, whatever was resolved about them."""
    digest = hashlib.sha256()
    for name in found.rows.columns:
        digest.update(f"{name}\0".encode())
        for cell in found.rows[name].to_list():
            digest.update(f"{cell}\0".encode())
    return digest.hexdigest()
