"""The service behind the routes: models, queue, metrics, and the limits on what is asked."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import asdict
from typing import Any

from groupnoise.exceptions import GroupNoiseError
from groupnoise.serving._model import Recalled, RecallModel
from groupnoise.serving._options import RecallOptions
from groupnoise.serving.http._answers import as_json, describe, ranked_items, recall_result
from groupnoise.serving.http._errors import Refusal
from groupnoise.serving.http._logs import log
from groupnoise.serving.http._metrics import ServiceMetrics
from groupnoise.serving.http._queue import RecallQueue
from groupnoise.serving.http._requests import check_limit
from groupnoise.serving.http._schemas import RecallRequest
from groupnoise.serving.http._settings import ServiceSettings
from groupnoise.serving.http._slot import ModelSlot

LARGE_ANSWER = 1000
"""Items in an answer from which on it is put together off the event loop."""


class RecallService:
    """Answers recall requests with the models in use.

    Parameters
    ----------
    settings : ServiceSettings
        Artifacts and limits; the artifacts are loaded at once.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.metrics = ServiceMetrics()
        self.queue = RecallQueue()
        self.is_ready = True
        self._reloading = asyncio.Lock()
        folders = {"main": settings.artifact, "compare": settings.compare}
        self._slots = {
            name: ModelSlot(folder, least_recall=settings.least_recall)
            for name, folder in folders.items()
            if folder is not None
        }
        self._show_models()

    def model(self, name: str = "main") -> RecallModel:
        """Return a model in use, or refuse where there is none of that name."""
        if name not in self._slots:
            message = "this service runs without a second model; start it with --compare."
            raise Refusal(404, "no_such_model", message)
        return self._slots[name].model

    def describe(self) -> dict[str, Any]:
        """Return the models in use and the limits; see `ServiceDescription`."""
        return {
            "main": describe(self.model()),
            "compare": describe(self.model("compare")) if "compare" in self._slots else None,
            "limits": asdict(self.limits),
        }

    async def recall(self, request: RecallRequest) -> bytes:
        """Return the answer to a recall request as JSON; see `RecallAnswer`."""
        model = self.model(request.model)
        options = RecallOptions(
            top=request.top,
            method=request.method,
            exclude_seen=request.exclude_seen,
            allow=tuple(request.allow),
            deny=tuple(request.deny),
            categories=tuple(request.categories),
            per_category=request.per_category,
        )
        recalled = await self.queue.recall(model, request.histories, options)
        self.metrics.observe_recall(
            n_clicks=sum(len(history) for history in request.histories),
            n_unknown=sum(len(unknown) for unknown in recalled.unknown),
            n_by_popularity=int(recalled.from_popularity.sum()),
        )
        is_large = request.explain or len(request.histories) * request.top > LARGE_ANSWER
        if is_large:
            # Long work on the event loop would hold up everyone else's request.
            given_up = threading.Event()
            try:
                return await asyncio.to_thread(_recall_json, model, request, recalled, given_up)
            finally:
                given_up.set()  # a thread cannot be cancelled, only told that nobody waits
        return _recall_json(model, request, recalled)

    async def similar(self, item: str, top: int) -> dict[str, Any]:
        """Return the items that best follow one item; see `SimilarAnswer`."""
        check_limit(self.limits, "top", top, f"top is {top}")
        model = self.model()
        model.check_known(item)
        options = RecallOptions(top=top, method="mm")
        recalled = await self.queue.recall(model, [[item]], options)
        items = ranked_items(model, recalled, 0)
        return {"item": item, "version": model.version, "items": items}

    async def reload(self) -> dict[str, Any]:
        """Switch to the artifacts now on disk, all of them or none; see `ReloadAnswer`."""
        async with self._reloading:
            loaded = {name: await self._load(name, slot) for name, slot in self._slots.items()}
            switched: dict[str, Any] = {"compare": None}
            for name, model in loaded.items():
                before, self._slots[name].model = self.model(name).version, model
                switched[name] = {"before": before, "after": model.version}
                log("reloaded", model=name, **switched[name])
        self.metrics.observe_reload("switched")
        self._show_models()
        return switched

    async def _load(self, name: str, slot: ModelSlot) -> RecallModel:
        try:
            return await asyncio.to_thread(slot.load)
        except GroupNoiseError as error:
            self.metrics.observe_reload("refused")
            log("reload_refused", level=logging.ERROR, model=name, reason=str(error))
            # The reason names paths of this machine: it belongs in the log, not in an answer.
            message = f"the {name} artifact was refused and the old model stays; see the log."
            raise Refusal(409, "artifact_refused", message) from None

    def _show_models(self) -> None:
        self.metrics.show_models({name: slot.model for name, slot in self._slots.items()})


def _recall_json(
    model: RecallModel,
    request: RecallRequest,
    recalled: Recalled,
    given_up: threading.Event | None = None,
) -> bytes:
    results = []
    for number, history in enumerate(request.histories):
        if given_up is not None and given_up.is_set():
            return b""
        reasons = None
        if request.explain:
            positions, _ = recalled.row(number)
            reasons = model.explain(history, positions, method=request.method)
        results.append(recall_result(model, recalled, number, reasons))
    answer = {"model": request.model, "version": model.version, "results": results}
    return as_json(answer)
