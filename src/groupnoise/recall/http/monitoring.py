"""What operators watch: one JSON object per log line, and Prometheus metrics."""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from groupnoise.recall.model import RecallModel

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


def configure_logs() -> None:
    """Send the logs of the service and its server to standard error as JSON; for it alone."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
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


LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class ServiceMetrics:
    """The counters of one service, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._by_route: dict[tuple[str, int, str], tuple[Histogram, Counter]] = {}
        self._by_version: dict[str, tuple[Counter, Counter, Counter]] = {}
        self._seconds = Histogram(
            "groupnoise_request_seconds",
            "Time from the first byte of a request to the end of its answer.",
            ["route", "version"],
            buckets=LATENCY_BUCKETS,
            registry=self._registry,
        )
        self._requests = Counter(
            "groupnoise_requests",
            "Requests answered, by route, status and version of the model.",
            ["route", "status", "version"],
            registry=self._registry,
        )
        self._clicks = Counter(
            "groupnoise_history_items",
            "Items in the histories asked.",
            ["version"],
            registry=self._registry,
        )
        self._unknown = Counter(
            "groupnoise_unknown_items",
            "Of those, unknown items.",
            ["version"],
            registry=self._registry,
        )
        self._popularity = Counter(
            "groupnoise_popularity_answers",
            "Histories answered by popularity because no item was known.",
            ["version"],
            registry=self._registry,
        )
        self._impressions = Counter(
            "groupnoise_impressions",
            "Items that were shown, as clients tell.",
            ["version"],
            registry=self._registry,
        )
        self._shown_clicks = Counter(
            "groupnoise_clicks",
            "Clicks on them, as clients tell.",
            ["version"],
            registry=self._registry,
        )
        self._reloads = Counter(
            "groupnoise_reloads", "Model reloads, by outcome.", ["outcome"], registry=self._registry
        )
        self._model = Gauge(
            "groupnoise_model_items",
            "Items of the model in use; the labels say which it is.",
            ["model", "version", "kind"],
            registry=self._registry,
        )
        self._drift = Gauge(
            "groupnoise_drift",
            "Population stability index against training: of clicks by popularity and category, "
            "of scores.",
            ["version", "of"],
            registry=self._registry,
        )
        self.in_flight = Gauge(
            "groupnoise_requests_in_flight", "Requests being answered.", registry=self._registry
        )

    def observe_request(self, route: str, status: int, seconds: float, version: str = "") -> None:
        """Record an answered request, with the version that answered it."""
        counters = self._by_route.get((route, status, version))
        if counters is None:
            counters = (
                self._seconds.labels(route, version),
                self._requests.labels(route, str(status), version),
            )
            self._by_route[route, status, version] = counters
        counters[0].observe(seconds)
        counters[1].inc()

    def observe_recall(
        self, version: str, n_clicks: int, n_unknown: int, n_by_popularity: int
    ) -> None:
        """Record what the histories of a request were made of."""
        counters = self._by_version.get(version)
        if counters is None:
            parts = (self._clicks, self._unknown, self._popularity)
            clicks, unknown, popularity = (part.labels(version) for part in parts)
            counters = self._by_version[version] = clicks, unknown, popularity
        counters[0].inc(n_clicks)
        if n_unknown:
            counters[1].inc(n_unknown)
        if n_by_popularity:
            counters[2].inc(n_by_popularity)

    def observe_feedback(self, version: str, n_shown: int, n_clicked: int) -> None:
        """Record what a client told of an answer."""
        self._impressions.labels(version).inc(n_shown)
        self._shown_clicks.labels(version).inc(n_clicked)

    def observe_reload(self, outcome: str) -> None:
        """Record a reload: `switched` or `refused`."""
        self._reloads.labels(outcome).inc()

    def show_models(self, models: dict[str, RecallModel]) -> None:
        """Publish which models answer now; earlier versions disappear."""
        self._model.clear()
        self._drift.clear()
        for name, model in models.items():
            kind = str(model.manifest.get("kind", ""))
            self._model.labels(name, model.version, kind).set(len(model.items))

    def show_drift(self, version: str, of: str, shift: float) -> None:
        """Publish how far a version is from what it was trained on."""
        self._drift.labels(version, of).set(shift)

    def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)
