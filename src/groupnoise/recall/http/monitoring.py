"""Monitoring: logs with one JSON object per line, and metrics for Prometheus."""

from __future__ import annotations

import json
import logging
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import lru_cache
from itertools import accumulate
from typing import Any, TextIO

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from groupnoise.recall.model import RecallModel

LOGGER = logging.getLogger("groupnoise.recall")
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_BOUNDS = [*map(str, LATENCY_BUCKETS), "+Inf"]
_COUNTERS = {
    "groupnoise_history_items": ("Items in the histories of requests.", ("version",)),
    "groupnoise_unknown_items": ("Of those, unknown items.", ("version",)),
    "groupnoise_popularity_answers": (
        "Histories answered by popularity because no item was known.",
        ("version",),
    ),
    "groupnoise_impressions": ("Items shown, as reported by clients.", ("version",)),
    "groupnoise_clicks": ("Clicks on shown items, as reported by clients.", ("version",)),
    "groupnoise_reloads": (
        "Model reloads, by outcome and the version that answers after them.",
        ("outcome", "version"),
    ),
    "groupnoise_unreadable_lists": (
        "Files of lists found unreadable, by process; the list before each stays in force.",
        ("list",),
    ),
    "groupnoise_lost_processes": ("Processes that ended unexpectedly and were replaced.", ()),
}
_RECALLED = tuple(_COUNTERS)[:3]
"""The counters that every answer adds to."""


class JsonFormatter(logging.Formatter):
    """Writes a record, its `fields` and any traceback as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        seconds = int(record.created)
        milliseconds = int(1000 * (record.created - seconds))
        line: dict[str, Any] = {
            "time": f"{_format_second(seconds)}.{milliseconds:03d}+00:00",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return _as_line(line)


_as_line = json.JSONEncoder(default=str, ensure_ascii=False).encode


@lru_cache(maxsize=1)
def _format_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")


def log(event: str, *, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields."""
    if LOGGER.isEnabledFor(level):
        # Built directly, since the logger would look up the calling line, which is not used.
        record = logging.LogRecord(LOGGER.name, level, "", 0, event, None, None)
        record.fields = fields
        LOGGER.handle(record)


def log_request(
    *, request_id: str, method: str, path: str, status: int, version: str, seconds: float
) -> None:
    """Log an answered request, without the cost of a record where possible."""
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
        f'{{"time": "{_format_second(int(now))}.{int(1000 * (now % 1)):03d}+00:00", '
        f'"level": "info", "event": "request", "request_id": "{request_id}", '
        f'"method": {_quote(method)}, '
        f'"path": {_quote(path)}, "status": {status}, "version": {_quote(version)}, '
        f'"milliseconds": {1000 * seconds:.2f}}}\n'
    )


@lru_cache(maxsize=256)
def _quote(text: str) -> str:
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
        except (OSError, ValueError):  # ValueError if the stream is closed
            pass  # a failure to log must not fail the request
        finally:
            self.release()


def configure_logs() -> None:
    """Send the logs of the service and its server to standard error as JSON."""
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


Record = dict[str, Any]
"""Counts in a form that JSON can represent."""


class RequestCounts:
    """The counters of a process.

    `requests`: requests in each latency bucket, then the sum of seconds, by route, status and
        version.
    `recalled`: items of histories, unknown items and answers by popularity, by version.
    `counts`: the other counters.
    """

    def __init__(self) -> None:
        self.requests: dict[tuple[str, int, str], list[float]] = {}
        self.recalled: dict[str, list[int]] = {}
        self.counts: dict[tuple[str, ...], float] = {}

    def add(self, name: str, labels: Sequence[str], n: float) -> None:
        """Add to a counter of `counts`."""
        key = (name, *labels)
        self.counts[key] = self.counts.get(key, 0) + n

    def as_record(self) -> Record:
        """Return the counts in a form that JSON can represent."""
        return {
            "requests": [[*key, values] for key, values in self.requests.items()],
            "recalled": self.recalled,
            "counts": [[list(key), n] for key, n in self.counts.items()],
        }

    def merge(self, record: Record) -> None:
        """Add the counts of another process."""
        for route, status, version, values in record["requests"]:
            total = self.requests.setdefault((route, status, version), [0] * len(values))
            total[:] = map(sum, zip(total, values, strict=True))
        for version, values in record["recalled"].items():
            n_recalled = self.recalled.setdefault(version, [0] * len(values))
            n_recalled[:] = map(sum, zip(n_recalled, values, strict=True))
        for key, n in record["counts"]:
            self.add(key[0], key[1:], n)


class ServiceMetrics:
    """The metrics of one process.

    Counting costs a request a few additions; the metric families of the Prometheus client are made
    when the metrics are read.
    """

    def __init__(self) -> None:
        self.tally = RequestCounts()
        self.n_in_flight: Callable[[], int] = lambda: 0
        """Returns the number of requests being answered; set by the guard."""
        self._models: dict[str, RecallModel] = {}

    def observe_request(self, route: str, status: int, seconds: float, version: str = "") -> None:
        """Record an answered request and the version that answered it."""
        values = self.tally.requests.get((route, status, version))
        if values is None:
            values = [0] * (len(_BOUNDS) + 1)
            self.tally.requests[route, status, version] = values
        values[bisect_left(LATENCY_BUCKETS, seconds)] += 1
        values[-1] += seconds

    def observe_recall(
        self, version: str, n_clicks: int, n_unknown: int, n_by_popularity: int
    ) -> None:
        """Record the clicks, unknown items and answers by popularity of a request."""
        values = self.tally.recalled.get(version)
        if values is None:
            values = self.tally.recalled[version] = [0, 0, 0]
        values[0] += n_clicks
        values[1] += n_unknown
        values[2] += n_by_popularity

    def observe_feedback(self, version: str, n_shown: int, n_clicked: int) -> None:
        """Record the feedback of a client on an answer."""
        self.tally.add("groupnoise_impressions", [version], n_shown)
        self.tally.add("groupnoise_clicks", [version], n_clicked)

    def observe_reload(self, outcome: str, version: str) -> None:
        """Record a reload, `switched` or `refused`, and the version that answers after it."""
        self.tally.add("groupnoise_reloads", [outcome, version], 1)

    def observe_unreadable_list(self, name: str) -> None:
        """Record that the file of a list cannot be read."""
        self.tally.add("groupnoise_unreadable_lists", [name], 1)

    def set_models(self, models: Mapping[str, RecallModel]) -> None:
        """Set the models in use; those of before disappear from the metrics."""
        self._models = dict(models)

    def as_record(self) -> Record:
        """Return the metrics as a record for another process to merge."""
        return {**self.tally.as_record(), "in_flight": self.n_in_flight()}

    def exposition(
        self, drift: Mapping[tuple[str, str], float], others: Iterable[Record] = ()
    ) -> bytes:
        """Return all metrics in the Prometheus text format."""
        tally, n_in_flight = RequestCounts(), 0
        for record in (self.as_record(), *others):
            tally.merge(record)
            n_in_flight += record.get("in_flight", 0)
        families = [
            *_request_families(tally),
            *_counter_families(tally),
            _gauge(
                "groupnoise_model_items",
                "Items of the model in use, by model, version and kind.",
                ("model", "version", "kind"),
                {
                    (name, model.version, str(model.manifest.get("kind", ""))): len(model.items)
                    for name, model in self._models.items()
                },
            ),
            _gauge(
                "groupnoise_drift",
                "Population stability index against training: of clicks by popularity and "
                "category, of scores.",
                ("version", "of"),
                drift,
            ),
            _gauge(
                "groupnoise_requests_in_flight", "Requests being answered.", (), {(): n_in_flight}
            ),
        ]
        registry = CollectorRegistry()
        registry.register(_FixedCollector(families))
        return generate_latest(registry)


class _FixedCollector(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)


def _request_families(tally: RequestCounts) -> Iterator[Metric]:
    by_route: dict[tuple[str, str], list[float]] = {}
    requests = CounterMetricFamily(
        "groupnoise_requests",
        "Requests answered, by route, status and version of the model.",
        labels=("route", "status", "version"),
    )
    for (route, status, version), values in tally.requests.items():
        requests.add_metric([route, str(status), version], sum(values[:-1]))
        total = by_route.setdefault((route, version), [0] * len(values))
        total[:] = map(sum, zip(total, values, strict=True))
    seconds = HistogramMetricFamily(
        "groupnoise_request_seconds",
        "Time from the first byte of a request to the end of its answer.",
        labels=("route", "version"),
    )
    for labels, total in by_route.items():
        buckets = list(zip(_BOUNDS, accumulate(total[:-1]), strict=True))
        seconds.add_metric(list(labels), buckets, total[-1])
    yield seconds
    yield requests


def _counter_families(tally: RequestCounts) -> Iterator[Metric]:
    counts = dict(tally.counts)
    for version, values in tally.recalled.items():
        counts |= {(name, version): n for name, n in zip(_RECALLED, values, strict=True)}
    for name, (meaning, labels) in _COUNTERS.items():
        family = CounterMetricFamily(name, meaning, labels=labels)
        for key, n in counts.items():
            if key[0] == name:
                family.add_metric(list(key[1:]), n)
        yield family


def _gauge(
    name: str, meaning: str, labels: Sequence[str], values: Mapping[Any, float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=labels)
    for key, value in values.items():
        family.add_metric(list(key), value)
    return family
