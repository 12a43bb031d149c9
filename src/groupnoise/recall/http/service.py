"""The service behind the routes: models in use and their reload, recalls, feedback, lists."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupnoise.exceptions import GroupNoiseError, ModelFileError
from groupnoise.recall.artifact import open_artifact
from groupnoise.recall.http.answers import (
    Refusal,
    answer_json,
    as_json,
    describe_model,
    explained_result,
    ranked_items,
    single_answer_json,
)
from groupnoise.recall.http.feedback import (
    FeedbackLog,
    feedback_rows,
    parse_feedback,
    unknown_items,
)
from groupnoise.recall.http.monitoring import ServiceMetrics, log
from groupnoise.recall.http.queue import MAX_DIRECT_IDS, MAX_DIRECT_SCORES, RecallQueue
from groupnoise.recall.http.requests import (
    PlainRequest,
    RecallRequest,
    check_limit,
    parse_plain_request,
    parse_recall_request,
    read_body,
)
from groupnoise.recall.http.settings import Canary, ServiceSettings
from groupnoise.recall.lists import ItemList, NamedLists, UnreadableListError
from groupnoise.recall.model import RecallModel
from groupnoise.recall.options import RecallOptions
from groupnoise.recall.recalled import Recalled
from groupnoise.recall.reference import Drift
from groupnoise.recall.registry import served_folder

if TYPE_CHECKING:
    from groupnoise.recall.http.processes import Peers

LARGE_ANSWER = 1000
"""Items in an answer above which it is serialized off the event loop."""


class ModelSlot:
    """Holds a model in use and loads its replacement.

    Artifacts are read into memory and every byte is checked, so that later changes of the files
    affect requests only after a reload.

    `folder`: the artifact or registry; read again on every reload.
    `least_recall`: refuse an artifact whose faiss index was measured below this.
    `version`: a version of the registry; by default the promoted one.
    `memory_map`: map the files instead, so that several processes share their memory; they are
        checked too.
    """

    def __init__(
        self,
        folder: Path,
        *,
        least_recall: float = 0.0,
        version: str | None = None,
        memory_map: bool = False,
    ) -> None:
        self._folder = folder
        self._memory_map = memory_map
        self._version = version
        self._least_recall = least_recall
        self.is_pinned = version is not None
        """Whether it holds a version requested by name, which never changes."""
        self.model = self.load()
        """The model in use; assigning another switches to it."""

    def load(self) -> RecallModel:
        """Load, verify and warm up the artifact now in the folder."""
        folder = served_folder(self._folder, self._version)
        model = open_artifact(
            folder, memory_map=self._memory_map, verify=True, least_recall=self._least_recall
        )
        try:
            _warm_up(model)
        except (ValueError, IndexError, KeyError, TypeError) as error:
            raise ModelFileError(
                f"{folder} is whole but cannot answer a request ({error!r}); export it again."
            ) from None
        return model


def _warm_up(model: RecallModel) -> None:
    """Answer a request, so that the first client does not wait for imports and page faults."""
    top = min(10, len(model.items))
    popular = model.items.ids_of(model.items.popular_order[:1])
    model.recall([popular, []], RecallOptions(top=top))
    as_json(describe_model(model))  # a card may not be valid JSON


class RecallService:
    """Answers recall requests with the models in use.

    `settings`: artifacts and limits; the artifacts are loaded at once.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.metrics = ServiceMetrics()
        self.queue = RecallQueue(MAX_DIRECT_SCORES)
        self.is_ready = True
        self._reloading = asyncio.Lock()
        self._served: set[str] = set()
        self._drift: dict[str, Drift] = {}
        folders = {"main": settings.artifact, "compare": settings.compare}
        slot = partial(
            ModelSlot, least_recall=settings.least_recall, memory_map=settings.processes > 1
        )
        self._slots = {name: slot(folder) for name, folder in folders.items() if folder is not None}
        self._prepared: dict[str, RecallModel] = {}
        self.peers: Peers | None = None
        self._canary = None if settings.canary is None else Canary.parse(settings.canary)
        if self._canary is not None:
            # By its full name, so that users keep their model whatever prefix was given.
            version = served_folder(settings.artifact, self._canary.version).name
            self._canary = Canary(version, self._canary.share)
            self._slots["canary"] = slot(settings.artifact, version=version)
        self._feedback = None
        if settings.feedback is not None:
            self._feedback = FeedbackLog(
                settings.feedback,
                max_bytes=self.limits.feedback_bytes,
                max_files=self.limits.feedback_files,
                rows_per_second=self.limits.feedback_rows,
            )
        self.lists = NamedLists(settings.lists, self._report_unreadable_list)
        self._publish_models()

    def model(self, name: str = "main") -> RecallModel:
        """Return a model in use, or refuse an unknown name."""
        if name not in self._slots:
            message = "this service runs without a second model; start it with --compare."
            raise Refusal(404, "no_such_model", message)
        return self._slots[name].model

    def model_for(self, user: int | str | None, name: str = "main") -> RecallModel:
        """Return the model for a user: the canary for its share of the users."""
        canary = self._canary
        if canary is not None and user is not None and name == "main" and canary.takes(user):
            return self._slots["canary"].model
        return self.model(name)

    def drop_canary(self) -> None:
        """Answer all users with the promoted version from now on."""
        self._canary = None
        self._slots.pop("canary", None)
        self._prepared.pop("canary", None)
        self._publish_models()

    def describe(self) -> dict[str, Any]:
        """Return the models in use and the limits; see `ServiceDescription`."""
        return {
            "main": describe_model(self.model()),
            **{
                name: describe_model(self.model(name)) if name in self._slots else None
                for name in ("compare", "canary")
            },
            "limits": asdict(self.limits),
        }

    def _report_unreadable_list(self, name: str, why: str, kept: ItemList | None) -> None:
        self.metrics.observe_unreadable_list(name)
        n_items = None if kept is None else len(kept.ids)
        log("list_unreadable", level=logging.ERROR, list=name, error=why, items_kept=n_items)

    def named_list(self, name: str) -> ItemList:
        """Return the current content of a named list, or refuse an unknown name."""
        try:
            found = self.lists.get(name)
        except UnreadableListError as error:
            raise Refusal(503, "list_unreadable", str(error)) from None
        if found is None:
            raise Refusal(404, "no_such_list", f"there is no list {name!r}; put it first.")
        return found

    async def recall(
        self, body: bytes, content_type: str, is_busy: bool = False
    ) -> tuple[bytes, str]:
        """Return the answer to a recall request as JSON, and the version that gave it.

        See `RecallRequest` and `RecallAnswer`.

        `content_type`: the header of that name, empty if absent. `is_busy`: whether several
        clients are active; short work is then batched.
        """
        values = read_body(body, content_type)
        plain = parse_plain_request(values, self.limits)
        if plain is not None:
            model = self.model_for(plain.user)
            if model.is_quick and plain.top <= MAX_DIRECT_IDS:
                if not is_busy:
                    return self._recall_plain(model, plain), model.version
                work = partial(self._recall_plain, model, plain)
                return await self.queue.run_together(work), model.version
        request = parse_recall_request(values, self.limits)
        model = self.model_for(request.user, request.model)
        chosen = {each.name: getattr(request, each.name) for each in fields(RecallOptions)}
        for name in ("allow", "deny", "categories"):
            chosen[name] = tuple(chosen[name])
        for name in ("allow_lists", "deny_lists"):
            chosen[name] = tuple(map(self.named_list, chosen[name]))
        options = RecallOptions(**chosen)
        recalled = await self.queue.recall(model, request.histories, options)
        self.metrics.observe_recall(
            model.version,
            n_clicks=sum(map(len, request.histories)),
            n_unknown=sum(map(len, recalled.unknown)),
            n_by_popularity=int(recalled.from_popularity.sum()),
        )
        drift = self._drift.get(model.version)
        if drift is not None:  # None after a reload in between
            drift.observe(request.histories, options, recalled)
        abandoned = threading.Event()
        answer = partial(_recall_json, model, request, recalled, abandoned)
        if not request.explain and recalled.positions.size <= LARGE_ANSWER:
            return answer(), model.version
        try:
            # Long work on the event loop would delay all other requests.
            return await asyncio.to_thread(answer), model.version
        finally:
            abandoned.set()  # a thread cannot be cancelled, only asked to stop

    def _recall_plain(self, model: RecallModel, request: PlainRequest) -> bytes:
        """Answer a plain request on the event loop, cheaper than on a thread."""
        recalled = model.recall_one(request.history, request.top)
        self.metrics.observe_recall(
            model.version,
            n_clicks=len(request.history),
            n_unknown=len(recalled.unknown),
            n_by_popularity=recalled.from_popularity,
        )
        drift = self._drift.get(model.version)
        if drift is not None:
            drift.observe_one(request.history, recalled)
        return single_answer_json(model, recalled)

    def as_record(self) -> dict[str, Any]:
        """Return the counts of this process, for another to merge."""
        drift = {version: each.counts() for version, each in self._drift.items()}
        return {**self.metrics.as_record(), "drift": drift}

    async def exposition(self) -> bytes:
        """Return all metrics in the Prometheus text format, of all processes together."""
        others = [] if self.peers is None else await self.peers.records()
        return await asyncio.to_thread(self._exposition, others)

    def _exposition(self, others: list[dict[str, Any]]) -> bytes:
        drift_records = [record.get("drift", {}) for record in others]
        shifts = {
            (version, name): shift
            for version, drift in self._drift.items()
            for name, shift in drift.shifts(
                [each[version] for each in drift_records if version in each]
            ).items()
        }
        return self.metrics.exposition(shifts, others)

    def close(self) -> None:
        """Stop the worker and close files; call when no request is left."""
        self.queue.close()
        if self._feedback is not None:
            self._feedback.close()

    def keep_feedback(self, body: bytes, content_type: str) -> tuple[dict[str, Any], str]:
        """Store feedback on an answer; return a `FeedbackAnswer` and the version."""
        if self._feedback is None:
            message = "this service keeps no feedback; start it with --feedback FOLDER."
            raise Refusal(404, "no_feedback", message)
        feedback = parse_feedback(body, content_type, self.limits)
        models = [slot.model for slot in self._slots.values()]
        unknown = unknown_items(feedback, [(each.version, each.items) for each in models])
        rows = feedback_rows(feedback)
        self._feedback.append(rows)
        # Clients may send any version; only those served here become labels of metrics.
        version = feedback.version if feedback.version in self._served else "other"
        self.metrics.observe_feedback(version, len(feedback.shown), len(feedback.clicked))
        return {"rows": len(rows), "unknown": unknown}, version

    async def similar(self, item: str, top: int) -> dict[str, Any]:
        """Return the items that best follow one item; see `SimilarAnswer`."""
        check_limit(self.limits, "top", top, f"top is {top}")
        model = self.model()
        model.check_known(item)
        recalled = await self.queue.recall(model, [[item]], model.options_of_similar(top))
        items = ranked_items(model, recalled, 0)
        return {"item": item, "version": model.version, "items": items}

    async def reload(self) -> dict[str, Any]:
        """Switch to the artifacts on disk, all or none; see `ReloadAnswer`."""
        if self.peers is not None:
            return await self.peers.reload()
        async with self._reloading:
            try:
                await self.prepare()
            except Refusal:
                self.metrics.observe_reload("refused", self.model().version)
                raise
            switched = self.switch()
        self.metrics.observe_reload("switched", self.model().version)
        return switched

    async def prepare(self) -> None:
        """Load the artifacts on disk beside those in use, or refuse them."""
        self._prepared = {}
        # A pinned canary is kept: its folder may have been pruned since.
        self._prepared = {
            name: slot.model if slot.is_pinned else await self._load(name, slot)
            for name, slot in self._slots.items()
        }

    def switch(self) -> dict[str, Any]:
        """Switch to the prepared models; see `ReloadAnswer`."""
        switched: dict[str, Any] = {"compare": None, "canary": None}
        prepared, self._prepared = self._prepared, {}
        for name, model in prepared.items():
            _warn_of_foreign_items(name, model, self.model(name))
            before, self._slots[name].model = self.model(name).version, model
            switched[name] = {"before": before, "after": model.version}
            log("reloaded", model=name, **switched[name])
        self._publish_models()
        if gc.get_freeze_count():
            freeze_memory()  # frees the old models and freezes the new ones
        return switched

    async def _load(self, name: str, slot: ModelSlot) -> RecallModel:
        try:
            return await asyncio.to_thread(slot.load)
        except GroupNoiseError as error:
            log("reload_refused", level=logging.ERROR, model=name, reason=str(error))
            # The reason names local paths, which belong in the log and not in an answer.
            message = f"the {name} artifact was refused and the old model stays; see the log."
            raise Refusal(409, "artifact_refused", message) from None

    def _publish_models(self) -> None:
        models, known = [slot.model for slot in self._slots.values()], self._drift
        self._drift = {each.version: known.get(each.version) or Drift(each) for each in models}
        self._served |= {model.version for model in models}
        self.metrics.set_models({name: slot.model for name, slot in self._slots.items()})
        for name in ("compare", "canary"):
            if name in self._slots:
                _warn_of_foreign_items(name, self.model(name), self.model())
                if self.model(name).version == self.model().version:
                    log("same_model", level=logging.WARNING, model=name, version=models[0].version)


def _warn_of_foreign_items(name: str, model: RecallModel, other: RecallModel) -> None:
    if foreign := model.items.foreign_items_message(other.items):
        log("foreign_items", level=logging.WARNING, model=name, reason=foreign)


def freeze_memory() -> None:
    """Exclude long-lived objects (models, modules, routes) from garbage collection.

    A full collection would stop the service for 50 ms about every ten thousand requests.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _recall_json(
    model: RecallModel,
    request: RecallRequest,
    recalled: Recalled,
    abandoned: threading.Event,
) -> bytes:
    if not request.explain:
        return answer_json(model, request.model, recalled)
    results = []
    for number, history in enumerate(request.histories):
        if abandoned.is_set():
            return b""
        positions, _ = recalled.row(number)
        led_by = recalled.clicks_behind(number)
        reasons = model.explain(history, positions, scope=request.scope, led_by=led_by)
        results.append(explained_result(model, recalled, number, reasons))
    answer = {"model": request.model, "version": model.version, "results": results}
    return as_json(answer)
