"""Logs that programs read: one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, TextIO

LOGGER = logging.getLogger("groupnoise.recall")


class JsonFormatter(logging.Formatter):
    """Writes a record, its `fields` and any traceback as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        seconds = int(record.created)
        milliseconds = int(1000 * (record.created - seconds))
        line: dict[str, Any] = {
            "time": f"{_second(seconds)}.{milliseconds:03d}+00:00",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _as_line(line)


_as_line = json.JSONEncoder(default=str, ensure_ascii=False).encode


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields."""
    if LOGGER.isEnabledFor(level):
        # Made by hand, because the logger would look for the calling line, which no one reads.
        record = logging.LogRecord(LOGGER.name, level, "", 0, event, None, None)
        record.fields = fields
        LOGGER.handle(record)


def log_request(
    *, request_id: str, method: str, path: str, status: int, version: str, seconds: float
) -> None:
    """Log an answered request, the one event that comes thousands of times a second."""
    level = logging.ERROR if status == 500 else logging.INFO
    handler = LOGGER.handlers[0] if len(LOGGER.handlers) == 1 else None
    if not isinstance(handler, JsonHandler) or level != LOGGER.level:
        log(
            "request",
            level=level,
            request_id=request_id,
            method=method,
            path=path,
            status=status,
            version=version,
            milliseconds=round(1000 * seconds, 2),
        )
        return
    now = time.time()
    handler.write_line(
        f'{{"time": "{_second(int(now))}.{int(1000 * (now % 1)):03d}+00:00", "level": "info", '
        f'"event": "request", "request_id": "{request_id}", "method": {_quoted(method)}, '
        f'"path": {_quoted(path)}, "status": {status}, "version": {_quoted(version)}, '
        f'"milliseconds": {1000 * seconds:.2f}}}\n'
    )


@lru_cache(maxsize=256)
def _quoted(text: str) -> str:
    return _as_line(text)


class JsonHandler(logging.StreamHandler[TextIO]):
    """Writes records as JSON, and lines that are JSON already."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(JsonFormatter())

    def write_line(self, line: str) -> None:
        """Write a line as it is."""
        self.acquire()
        try:
            self.stream.write(line)
            self.stream.flush()
        except OSError:
            pass  # as of any handler: a log that cannot be written must not end a request
        finally:
            self.release()


def configure_logs() -> None:
    """Send the logs of the service and its server to standard error as JSON; for it alone."""
    handler = JsonHandler(sys.stderr)
    levels = {
        "groupnoise.recall": logging.INFO,
        "uvicorn": logging.WARNING,
        "asyncio": logging.WARNING,
    }
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
