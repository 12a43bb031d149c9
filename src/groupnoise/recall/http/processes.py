"""A service of several worker processes behind one socket, and the supervisor of them."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from groupnoise.exceptions import GroupNoiseError
from groupnoise.recall.http.answers import Refusal
from groupnoise.recall.http.monitoring import RequestCounts, log
from groupnoise.recall.http.server import drop_new_connections
from groupnoise.recall.http.settings import ServiceSettings
from groupnoise.recall.registry import promotion_stamp, served_folder

if TYPE_CHECKING:
    from groupnoise.recall.http.service import RecallService

Message = dict[str, Any]

MAX_MESSAGE_BYTES = 1 << 26
"""Limit of a message, which may hold the counts of every version and route."""
REPORT_SECONDS = 1.0
"""Interval at which a process reports its counts."""
MIN_UPTIME_SECONDS = 5.0
"""A process that ends sooner is replaced after a delay, which doubles each time."""
MAX_RESTART_DELAY = 10.0
WATCH_SECONDS = 1.0
KILL_SECONDS = 5.0
"""Time after the grace period until processes that still run are killed."""
WORKER = "groupnoise.recall.http.worker"


class MessageStream:
    """Messages between two processes, one JSON object per line.

    `reader`, `writer`: one end of the connection.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def from_socket(cls, connection: socket.socket) -> MessageStream:
        """Return the stream over a connected socket."""
        return cls(*await asyncio.open_connection(sock=connection, limit=MAX_MESSAGE_BYTES))

    def send(self, kind: str, **content: Any) -> None:
        """Send a message; it is lost if the other side is gone."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"kind": kind, **content}).encode() + b"\n")

    async def receive(self) -> Message | None:
        """Return the next message, or None if the other side is gone."""
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        """Close this end."""
        self._writer.close()


class Peers:
    """The connection of a worker process to its supervisor, and through it to the others.

    `connection`: to the supervisor.
    `lost_canary`: why this process could not load the canary; empty if it could.
    `on_stop`: called when the whole service stops or the supervisor is gone.
    """

    def __init__(
        self, connection: socket.socket, on_stop: Callable[[], None], lost_canary: str = ""
    ) -> None:
        self._connection = connection
        self._lost_canary = lost_canary
        self._on_stop = on_stop
        self._stream: MessageStream | None = None
        self._waiting: dict[str, list[asyncio.Future[Message]]] = {"reload": [], "others": []}

    async def listen(self, service: RecallService) -> None:
        """Handle the messages of the supervisor for as long as the process runs."""
        stream = self._stream = await MessageStream.from_socket(self._connection)
        stream.send("ready", lost_canary=self._lost_canary)
        reporting = asyncio.get_running_loop().create_task(self._report_counts(service))
        try:
            while (message := await stream.receive()) is not None:
                kind = message["kind"]
                if kind == "prepare":
                    version = service.model().version
                    stream.send("prepared", refused=await _prepare_error(service), version=version)
                elif kind == "switch":
                    stream.send("switched", answer=service.switch())
                elif kind == "drop_canary":
                    service.drop_canary()
                elif kind == "stop":
                    break
                elif kind in self._waiting:
                    waiting, self._waiting[kind] = self._waiting[kind], []
                    for each in waiting:
                        if not each.done():
                            each.set_result(message)
        finally:
            reporting.cancel()
            stream.send("counts", record=service.as_record())
            self._stream = None
            for waiting in self._waiting.values():
                for each in waiting:
                    each.cancel()
        self._on_stop()

    async def reload(self) -> dict[str, Any]:
        """Have all processes switch to the artifacts now on disk, or none."""
        if self._stream is None:
            raise Refusal(409, "stopping", "the service is ending and reloads nothing.")
        message = await self._request("reload")
        if message["refused"] is not None:
            raise Refusal(409, "artifact_refused", message["refused"])
        return dict(message["answer"])

    async def records(self) -> list[dict[str, Any]]:
        """Return the counts that the other processes reported last."""
        return [] if self._stream is None else list((await self._request("others"))["records"])

    async def _request(self, kind: str) -> Message:
        assert self._stream is not None
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[kind].append(answer)
        self._stream.send(kind)
        return await answer

    async def _report_counts(self, service: RecallService) -> None:
        assert self._stream is not None
        while True:
            self._stream.send("counts", record=service.as_record())
            await asyncio.sleep(REPORT_SECONDS)


async def _prepare_error(service: RecallService) -> str | None:
    """Load the artifacts on disk; return why they are refused, or None."""
    try:
        await service.prepare()
    except Refusal as refusal:
        return refusal.message
    return None


def supervise(
    settings: ServiceSettings,
    listening: socket.socket,
    address: str,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve with several processes until SIGTERM or SIGINT; SIGHUP reloads all of them.

    `listening`: bound; connections that wait to be accepted survive the end of a process.
    `on_ready`: called with the address once every process answers. Raises GroupNoiseError, with the
    message of a process, if the processes cannot start.
    """
    with tempfile.TemporaryDirectory(prefix="groupnoise-serve-") as folder:
        worker_settings = _worker_settings(settings, Path(folder))
        supervisor = _Supervisor(worker_settings, listening)
        asyncio.run(supervisor.run(lambda: on_ready and on_ready(address), address))


def _worker_settings(settings: ServiceSettings, folder: Path) -> ServiceSettings:
    """Return the settings of one process: its part of the limits, and a shared folder of lists."""
    n, limits = settings.processes, settings.limits
    if settings.canary is not None:
        # By its full name: a version with the same prefix may be added before a restart.
        begin, _, share = settings.canary.partition("=")
        version = served_folder(settings.artifact, begin).name
        settings = replace(settings, canary=f"{version}={share}")
    return replace(
        settings,
        lists=settings.lists or folder,
        limits=replace(
            limits,
            concurrency=math.ceil(limits.concurrency / n),
            feedback_rows=math.ceil(limits.feedback_rows / n),
        ),
    )


@dataclass(eq=False)
class _Worker:
    process: asyncio.subprocess.Process
    stream: MessageStream
    record: dict[str, Any] | None = None
    ready: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    answer: asyncio.Future[Message | None] | None = None

    async def request(self, kind: str) -> Message | None:
        """Return the answer of the process, or None if it ended meanwhile."""
        self.answer = asyncio.get_running_loop().create_future()
        self.stream.send(kind)
        return await self.answer

    def resolve(self, message: Message | None) -> None:
        """Set the answer to the pending request, if there is one."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(message)


class _Supervisor:
    def __init__(self, settings: ServiceSettings, listening: socket.socket) -> None:
        self._settings = settings
        self._listening = listening
        self._workers: list[_Worker] = []
        self._counts = RequestCounts()  # of ended processes and of the whole service
        self._reloading = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._is_up = False
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, on_ready: Callable[[], Any], address: str) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._spawn(self._reload()))
        promoted = promotion_stamp(self._settings.artifact)
        try:
            workers = [await self._start() for _ in range(self._settings.processes)]
            supervised = [self._spawn(self._supervise(worker)) for worker in workers]
            stopped = self._spawn(self._stopping.wait())
            every = asyncio.gather(*(worker.ready for worker in workers))
            await asyncio.wait([stopped, every], return_when=asyncio.FIRST_COMPLETED)
            if every.done():
                every.result()
                self._is_up = True
                log("ready", address=address, processes=len(workers))
                on_ready()
                self._spawn(self._follow_promotions(promoted))
            else:
                every.cancel()
            await self._stopping.wait()
            await self._shut_down(supervised)
        finally:
            for worker in self._workers:
                with suppress(ProcessLookupError):
                    worker.process.kill()
            self._listening.close()

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop keeps weak references only
        task.add_done_callback(self._tasks.discard)
        return task

    def _stop(self, number: int) -> None:
        log("stopping", signal=signal.Signals(number).name)
        self._stopping.set()

    async def _shut_down(self, supervised: list[asyncio.Task[Any]]) -> None:
        """Let every process finish its requests and end."""
        drop_new_connections([self._listening])
        for worker in self._workers:
            if worker.ready.done():
                worker.stream.send("stop")
            else:
                worker.process.terminate()
        await asyncio.wait(supervised, timeout=self._settings.grace_seconds + KILL_SECONDS)

    async def _start(self) -> _Worker:
        ours, theirs = socket.socketpair()
        numbers = (self._listening.fileno(), theirs.fileno())
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                WORKER,
                *map(str, numbers),
                pass_fds=numbers,
                start_new_session=True,  # only the supervisor gets a keyboard interrupt
                env={**os.environ, "PYTHONSAFEPATH": "1"},  # no module of the current folder
            )
        stream = await MessageStream.from_socket(ours)
        stream.send("settings", settings=self._settings.as_record(), replaces=self._is_up)
        worker = _Worker(process, stream)
        self._workers.append(worker)
        self._spawn(self._handle_messages(worker))
        if self._stopping.is_set():  # started after the others were stopped
            process.terminate()
        return worker

    async def _supervise(self, worker: _Worker) -> None:
        """Replace a process whenever it ends unexpectedly."""
        loop, delay = asyncio.get_running_loop(), 0.0
        while True:
            began = loop.time()
            code = await worker.process.wait()
            self._remove(worker)
            if self._stopping.is_set():
                return
            self._counts.add("groupnoise_lost_processes", [], 1)
            log("process_lost", level=logging.ERROR, pid=worker.process.pid, code=code)
            is_short = loop.time() - began < MIN_UPTIME_SECONDS
            delay = min(2 * delay or 0.5, MAX_RESTART_DELAY) if is_short else 0.0
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), timeout=delay)
            if self._stopping.is_set():
                return
            worker = await self._start()

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.resolve(None)
        worker.stream.close()
        if worker.record is not None:
            self._counts.merge(worker.record)
        if not worker.ready.done():
            worker.ready.set_exception(GroupNoiseError("a process of the service did not start."))
            worker.ready.exception()  # marked as retrieved, in case nobody awaits it

    async def _handle_messages(self, worker: _Worker) -> None:
        while (message := await worker.stream.receive()) is not None:
            kind = message["kind"]
            if kind == "ready" and not worker.ready.done():
                worker.ready.set_result(None)
                if message["lost_canary"]:
                    self._drop_canary(message["lost_canary"])
            elif kind == "failed" and not worker.ready.done():
                log("process_failed", level=logging.ERROR, reason=message["message"])
                worker.ready.set_exception(GroupNoiseError(message["message"]))
                worker.ready.exception()
            elif kind == "counts":
                worker.record = message["record"]
            elif kind in ("prepared", "switched"):
                worker.resolve(message)
            elif kind == "others":
                worker.stream.send("others", records=self._other_records(worker))
            elif kind == "reload":
                self._spawn(self._reload(worker))

    def _drop_canary(self, reason: str) -> None:
        """Drop a canary that one process could not load, so that all processes answer alike."""
        log("canary_lost", level=logging.ERROR, reason=reason)
        self._settings = replace(self._settings, canary=None)
        for worker in self._workers:
            worker.stream.send("drop_canary")

    def _other_records(self, worker: _Worker) -> list[dict[str, Any]]:
        records = [each.record for each in self._workers if each is not worker]
        return [self._counts.as_record(), *(record for record in records if record is not None)]

    async def _reload(self, requester: _Worker | None = None) -> None:
        """Reload all processes, or none if one of them refuses the artifacts."""
        async with self._reloading:
            workers = [each for each in self._workers if each.ready.done()]
            prepared = await asyncio.gather(*(each.request("prepare") for each in workers))
            refused = [each for each in prepared if each and each["refused"]]
            answers: list[Any] = []
            if not refused:
                # A process that ended meanwhile is replaced by one that loads the same artifacts.
                switched = await asyncio.gather(*(each.request("switch") for each in workers))
                answers = [each["answer"] for each in switched if each]
        if refused:
            self._counts.add("groupnoise_reloads", ["refused", refused[0]["version"]], 1)
        elif answers:
            self._counts.add("groupnoise_reloads", ["switched", answers[0]["main"]["after"]], 1)
        if requester is not None:
            requester.stream.send(
                "reload",
                refused=refused[0]["refused"] if refused else None,
                answer=answers[0] if answers else None,
            )

    async def _follow_promotions(self, seen: tuple[int, int] | None) -> None:
        """Reload whenever another version of a registry is promoted."""
        while seen is not None:
            await asyncio.sleep(WATCH_SECONDS)
            stamp = promotion_stamp(self._settings.artifact) or seen
            if stamp != seen:
                seen = stamp
                await self._reload()
