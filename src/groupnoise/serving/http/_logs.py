"""Structured logs: one JSON object per line on standard error."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from typing import Any

LOGGER = logging.getLogger("groupnoise.serving")


class JsonFormatter(logging.Formatter):
    """Writes a record, its `fields` and any traceback as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        line: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields."""
    LOGGER.log(level, event, extra={"fields": fields})


def configure_logs() -> None:
    """Send the logs of the service and its server to standard error as JSON; for it alone."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    levels = {
        "groupnoise.serving": logging.INFO,
        "uvicorn": logging.WARNING,
        "asyncio": logging.WARNING,
    }
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
