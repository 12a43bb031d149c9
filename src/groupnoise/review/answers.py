"""Answers of people, one line each, on the disk before the page hears of it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from groupnoise.exceptions import DataError, OutputError

FORMAT = 1


class AnswerFile:
    """An append-only file of answers that survives the end of the process at any moment.

    Every answer is one line of JSON, forced to the disk before `append` returns. A line that was
    cut off is dropped when the file is opened again: its answer was never confirmed.

    `path`: the file; made if there is none.
    `about`: what the answers are about: an existing file about something else is refused.
    `events`: the answers so far, oldest first.
    """

    def __init__(self, path: str | Path, about: Mapping[str, Any]) -> None:
        self.path = Path(path)
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
            self.events = self._read(dict(about))
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
        """Write one answer and wait until it is on the disk.

        `event`: what JSON can hold.
        """
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
