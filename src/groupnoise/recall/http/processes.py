"""Several processes behind one socket: started, kept at their number, reloaded and ended as one."""

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
from groupnoise.recall.http.server import hold_off_newcomers
from groupnoise.recall.http.settings import ServiceSettings
from groupnoise.recall.registry import promotion_stamp, served_folder

if TYPE_CHECKING:
    from groupnoise.recall.http.service import RecallService

Message = dict[str, Any]

MAX_LINE = 1 << 26
"""Bytes of a message: the counts of every version and route."""
TELL_SECONDS = 1.0
"""How often a process tells its counts."""
MIN_SECONDS = 5.0
"""A process that ends sooner is not replaced at once, so that a fault does not eat the machine."""
MAX_PAUSE = 10.0
WATCH_SECONDS = 1.0
LATE_SECONDS = 5.0
"""Beyond the time to finish requests: then what still runs is killed."""
WORKER = "groupnoise.recall.http.worker"


class Line:
    """One end of a connection between two processes.

    `reader`, `writer`: the connection.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, connection: socket.socket) -> Line:
        """Return the end that a connected socket makes."""
        return cls(*await asyncio.open_connection(sock=connection, limit=MAX_LINE))

    def say(self, kind: str, **content: Any) -> None:
        """Send a message; to one that is gone it is lost."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"kind": kind, **content}).encode() + b"\n")

    async def hear(self) -> Message | None:
        """Return the next message, None where the other side is gone."""
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            return None
        return json.loads(line) if line.endswith(b"\n") else None

    def close(self) -> None:
        """Close this end."""
        self._writer.close()


class Peers:
    """The other processes of a service, as one of them sees them.

    `connection`: to the process that started this one.
    `lost_canary`: why this one answers without the canary that others have; empty if it does not.
    `on_stop`: called when the whole service is to end, or the process that started this one is
        gone.
    """

    def __init__(
        self, connection: socket.socket, on_stop: Callable[[], None], lost_canary: str = ""
    ) -> None:
        self._connection = connection
        self._lost_canary = lost_canary
        self._on_stop = on_stop
        self._line: Line | None = None
        self._waiting: dict[str, list[asyncio.Future[Message]]] = {"reload": [], "others": []}

    async def listen(self, service: RecallService) -> None:
        """Answer what is asked of this process, for as long as it runs."""
        line = self._line = await Line.over(self._connection)
        line.say("ready", lost_canary=self._lost_canary)
        telling = asyncio.get_running_loop().create_task(self._tell(service))
        try:
            while (message := await line.hear()) is not None:
                kind = message["kind"]
                if kind == "prepare":
                    version = service.model().version
                    line.say("prepared", refused=await _refused(service), version=version)
                elif kind == "switch":
                    line.say("switched", answer=service.switch())
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
            telling.cancel()
            line.say("counts", record=service.as_record())
            self._line = None
            for waiting in self._waiting.values():
                for each in waiting:
                    each.cancel()
        self._on_stop()

    async def reload(self) -> dict[str, Any]:
        """Have all processes switch to the artifacts now on disk, or none."""
        if self._line is None:
            raise Refusal(409, "stopping", "the service is ending and reloads nothing.")
        message = await self._ask("reload")
        if message["refused"] is not None:
            raise Refusal(409, "artifact_refused", message["refused"])
        return dict(message["answer"])

    async def records(self) -> list[dict[str, Any]]:
        """Return what all other processes have counted, as they told it last."""
        return [] if self._line is None else list((await self._ask("others"))["records"])

    async def _ask(self, kind: str) -> Message:
        assert self._line is not None
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[kind].append(answer)
        self._line.say(kind)
        return await answer

    async def _tell(self, service: RecallService) -> None:
        assert self._line is not None
        while True:
            self._line.say("counts", record=service.as_record())
            await asyncio.sleep(TELL_SECONDS)


async def _refused(service: RecallService) -> str | None:
    """Load what is on disk beside what answers now; return why that is refused, if it is."""
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

    `listening`: bound; what waits to be accepted there is lost with no process. `on_ready`: called
    with the address once every process answers. Raises GroupNoiseError if the processes cannot
    start, in the words of one of them.
    """
    with tempfile.TemporaryDirectory(prefix="groupnoise-serve-") as folder:
        own = _share_of_one(settings, Path(folder))
        supervisor = _Supervisor(own, listening)
        asyncio.run(supervisor.run(lambda: on_ready and on_ready(address), address))


def _share_of_one(settings: ServiceSettings, folder: Path) -> ServiceSettings:
    """Return the settings of one process: its part of the limits, and lists that all see."""
    n, limits = settings.processes, settings.limits
    if settings.canary is not None:
        # By its whole name: a version that begins alike may come before a process is replaced.
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
    line: Line
    record: dict[str, Any] | None = None
    ready: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    answer: asyncio.Future[Message | None] | None = None

    async def ask(self, kind: str) -> Message | None:
        """Return what the process answers, None where it ended meanwhile."""
        self.answer = asyncio.get_running_loop().create_future()
        self.line.say(kind)
        return await self.answer

    def take(self, message: Message | None) -> None:
        """Hand an answer to whoever waits for it."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(message)


class _Supervisor:
    def __init__(self, settings: ServiceSettings, listening: socket.socket) -> None:
        self._settings = settings
        self._listening = listening
        self._workers: list[_Worker] = []
        self._own = RequestCounts()  # of processes that ended, and of what concerns all
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
            kept = [self._spawn(self._keep(worker)) for worker in workers]
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
            await self._end(kept)
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

    async def _end(self, kept: list[asyncio.Task[Any]]) -> None:
        """Have every process answer what is open and end."""
        hold_off_newcomers([self._listening])
        for worker in self._workers:
            if worker.ready.done():
                worker.line.say("stop")
            else:
                worker.process.terminate()
        await asyncio.wait(kept, timeout=self._settings.grace_seconds + LATE_SECONDS)

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
                start_new_session=True,  # an interrupt from the keyboard comes here alone
                env={**os.environ, "PYTHONSAFEPATH": "1"},  # no module of the current folder
            )
        line = await Line.over(ours)
        line.say("settings", settings=self._settings.as_record(), replaces=self._is_up)
        worker = _Worker(process, line)
        self._workers.append(worker)
        self._spawn(self._hear(worker))
        if self._stopping.is_set():  # it came too late to be told with the others
            process.terminate()
        return worker

    async def _keep(self, worker: _Worker) -> None:
        """Replace a process whenever it ends unasked."""
        loop, pause = asyncio.get_running_loop(), 0.0
        while True:
            began = loop.time()
            code = await worker.process.wait()
            self._forget(worker)
            if self._stopping.is_set():
                return
            self._own.add("groupnoise_lost_processes", [], 1)
            log("process_lost", level=logging.ERROR, pid=worker.process.pid, code=code)
            is_short = loop.time() - began < MIN_SECONDS
            pause = min(2 * pause or 0.5, MAX_PAUSE) if is_short else 0.0
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), timeout=pause)
            if self._stopping.is_set():
                return
            worker = await self._start()

    def _forget(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.take(None)
        worker.line.close()
        if worker.record is not None:
            self._own.include(worker.record)
        if not worker.ready.done():
            worker.ready.set_exception(GroupNoiseError("a process of the service did not start."))
            worker.ready.exception()  # seen to, where nobody waits for it any more

    async def _hear(self, worker: _Worker) -> None:
        while (message := await worker.line.hear()) is not None:
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
                worker.take(message)
            elif kind == "others":
                worker.line.say("others", records=self._others(worker))
            elif kind == "reload":
                self._spawn(self._reload(worker))

    def _drop_canary(self, reason: str) -> None:
        """Give up a canary that one process could not read any more, so that all answer alike."""
        log("canary_lost", level=logging.ERROR, reason=reason)
        self._settings = replace(self._settings, canary=None)
        for worker in self._workers:
            worker.line.say("drop_canary")

    def _others(self, worker: _Worker) -> list[dict[str, Any]]:
        told = [each.record for each in self._workers if each is not worker]
        return [self._own.as_record(), *(record for record in told if record is not None)]

    async def _reload(self, asking: _Worker | None = None) -> None:
        """Have every process load what is on disk, and switch only if all of them can."""
        async with self._reloading:
            workers = [each for each in self._workers if each.ready.done()]
            prepared = await asyncio.gather(*(each.ask("prepare") for each in workers))
            refused = [each for each in prepared if each and each["refused"]]
            answers: list[Any] = []
            if not refused:
                # Whoever ended meanwhile is replaced by one that reads the same artifacts.
                switched = await asyncio.gather(*(each.ask("switch") for each in workers))
                answers = [each["answer"] for each in switched if each]
        if refused:
            self._own.add("groupnoise_reloads", ["refused", refused[0]["version"]], 1)
        elif answers:
            self._own.add("groupnoise_reloads", ["switched", answers[0]["main"]["after"]], 1)
        if asking is not None:
            asking.line.say(
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
