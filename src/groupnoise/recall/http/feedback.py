"""Impressions and clicks reported by clients, kept in files that `groupnoise replay` reads."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, FailFast, Field

from groupnoise.core.checks import MAX_ID_LENGTH
from groupnoise.core.words import counted
from groupnoise.io.files import check_writable_folder
from groupnoise.recall.http.answers import MAX_QUOTED, REQUEST_ID, VERSION, Refusal
from groupnoise.recall.http.monitoring import log
from groupnoise.recall.http.requests import (
    ItemId,
    ItemIds,
    check_limit,
    read_body,
    validate_request,
)
from groupnoise.recall.http.settings import Limits
from groupnoise.recall.items import ItemTable

FILE_PATTERN = "feedback-*.jsonl"


class FeedbackRequest(BaseModel):
    """Feedback on one answer: the items shown, and those that were clicked."""

    model_config = ConfigDict(
        extra="forbid",
        use_attribute_docstrings=True,
        json_schema_extra={
            "examples": [
                {"request_id": "a1b2", "user": "u7", "shown": ["tea", "cup"], "clicked": ["cup"]}
            ]
        },
    )

    request_id: Annotated[str, Field(pattern=REQUEST_ID, examples=["a1b2"])]
    """The `X-Request-ID` of the answer."""
    user: Annotated[ItemId, Field(examples=["u7"])]
    """To whom."""
    version: Annotated[str, Field(pattern=VERSION)] = ""
    """The version that answered."""
    shown: Annotated[ItemIds, Field(examples=[["i7", "i12"]])] = []
    """The items shown."""
    clicked: Annotated[
        ItemIds,
        Field(
            description="The items clicked, of those shown; without `shown`, of those that were "
            "reported before under the same request id. The service does not check that: a click "
            "on another is kept, and left out by `groupnoise replay`.",
            examples=[["i7"]],
        ),
    ] = []
    propensity: Annotated[list[Annotated[float, Field(gt=0, le=1)]] | None, FailFast()] = None
    """The chance of each item to be shown; by default equal."""


class FeedbackAnswer(BaseModel):
    """How many rows were kept."""

    rows: int
    unknown: Annotated[
        list[ItemId], Field(description="Reported items that no served model knows.")
    ]


def parse_feedback(body: bytes, content_type: str, limits: Limits) -> FeedbackRequest:
    """Return the feedback in a body, or refuse it."""
    feedback = validate_request(FeedbackRequest, read_body(body, content_type))
    check_limit(limits, "top", len(feedback.shown), f"{len(feedback.shown)} items were shown")
    check_limit(limits, "top", len(feedback.clicked), f"{len(feedback.clicked)} were clicked")
    wrong = _feedback_error(feedback)
    if wrong is not None:
        raise Refusal(422, "invalid_request", wrong)
    return feedback


def _feedback_error(feedback: FeedbackRequest) -> str | None:
    shown = set(map(str, feedback.shown))
    if not feedback.shown and not feedback.clicked:
        return "shown: feedback needs items that were shown, clicks, or both."
    if len(shown) < len(feedback.shown):
        return "shown: an item is shown once."
    if shown and not shown.issuperset(map(str, feedback.clicked)):
        return "clicked: an item was clicked that was not shown."
    if feedback.propensity is not None and len(feedback.propensity) != len(feedback.shown):
        return "propensity: there must be one for each item shown."
    for each in (feedback.user, *feedback.shown, *feedback.clicked):
        if not 0 < len(str(each)) <= MAX_ID_LENGTH or "\0" in str(each):
            return f"an id has 1 to {MAX_ID_LENGTH} characters."
    return None


def unknown_items(
    feedback: FeedbackRequest, served: Sequence[tuple[str, ItemTable]]
) -> list[ItemId]:
    """Return the reported items that no served model knows.

    `served`: versions and items of the models in use. Raises Refusal if the version named in the
    feedback is among them and lacks an item, since it cannot have shown it.
    """
    reported = list({str(each): each for each in (*feedback.shown, *feedback.clicked)}.values())
    known: set[str] = set()
    for version, items in served:
        places = items.position_list(reported)
        known_here = {str(each) for each, place in zip(reported, places, strict=True) if place >= 0}
        known |= known_here
        lacking = [each for each in reported if str(each) not in known_here]
        if lacking and version == feedback.version:
            message = (
                f"version {version} has no item {str(lacking[0])[:MAX_QUOTED]!r}, so it cannot "
                "have shown it; report items of its answer, or leave out the version."
            )
            raise Refusal(422, "invalid_request", message)
    return [each for each in reported if str(each) not in known]


def feedback_rows(feedback: FeedbackRequest) -> list[dict[str, Any]]:
    """Return one row per item for `groupnoise replay`; clicks alone have no propensity."""
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    common = {"time": now, "request_id": feedback.request_id, "version": feedback.version}
    common["user"] = str(feedback.user)
    clicked = set(map(str, feedback.clicked))
    items = feedback.shown or feedback.clicked
    uniform = [1 / len(items)] * len(items)
    propensities: Sequence[float | None] = feedback.propensity or uniform
    if not feedback.shown:
        propensities = [None] * len(items)
    return [
        {
            **common,
            "item": str(item),
            "propensity": propensity,
            "clicked": int(str(item) in clicked),
        }
        for item, propensity in zip(items, propensities, strict=True)
    ]


class FeedbackLog:
    """Append-only files of feedback in a folder, rotated by size and bounded in number.

    Each process writes its own files, so that none waits for another.

    `folder`: created if needed.
    `max_bytes`: size at which a new file is begun.
    `max_files`: number of files kept; the oldest are deleted.
    `rows_per_second`: rate above which rows are refused.
    """

    def __init__(
        self, folder: Path | str, *, max_bytes: int, max_files: int, rows_per_second: int
    ) -> None:
        self._folder = Path(folder)
        check_writable_folder(self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._rate = rows_per_second
        self._available_rows, self._refilled_at = float(rows_per_second), time.monotonic()
        self._descriptor: int | None = None
        self._path: Path | None = None
        self._size = 0
        self._n_files = 0

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        """Add rows: all of them or, where they are too many or the disk is full, none."""
        self._admit(len(rows))
        lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
        data = ("\n".join(lines) + "\n").encode()
        try:
            self._write(data)
        except OSError as error:
            log("feedback_not_written", level=logging.ERROR, reason=str(error))
            message = "the feedback could not be written and nothing of it was kept; see the log."
            raise Refusal(503, "feedback_not_written", message) from None

    def close(self) -> None:
        """Close the file; the next rows begin another."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _admit(self, n_rows: int) -> None:
        now = time.monotonic()
        self._available_rows = min(
            self._rate, self._available_rows + (now - self._refilled_at) * self._rate
        )
        self._refilled_at = now
        if n_rows > self._available_rows:
            message = (
                f"more than {counted(self._rate, 'rows')} of feedback came in a second; "
                f"try again shortly."
            )
            raise Refusal(429, "feedback_rate", message, limit=self._rate)
        self._available_rows -= n_rows

    def _write(self, data: bytes) -> None:
        is_full = bool(self._size) and self._size + len(data) > self._max_bytes
        # Another process may have deleted the oldest file, and that may be this one's.
        if self._descriptor is None or is_full or not os.fstat(self._descriptor).st_nlink:
            self._begin_file()
        assert self._descriptor is not None
        try:
            n_written = os.write(self._descriptor, data)
            if n_written < len(data):
                raise OSError("the disk took only a part of it")
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(data)

    def _begin_file(self) -> None:
        self.close()
        self._n_files += 1
        began = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S")
        name = f"feedback-{began}-{os.getpid()}-{self._n_files:06}.jsonl"
        self._path = self._folder / name
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        self._descriptor = os.open(self._path, flags, 0o600)
        self._size = 0
        for old in sorted(self._folder.glob(FILE_PATTERN))[: -self._max_files]:
            if old != self._path:
                old.unlink(missing_ok=True)
                log("feedback_deleted", level=logging.WARNING, file=old.name)
