"""What a process of several says to the one that started it: lines of JSON over a socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from groupnoise.recall.http.answers import Refusal

if TYPE_CHECKING:
    from groupnoise.recall.http.service import RecallService

Message = dict[str, Any]

MAX_LINE = 1 << 26
"""Bytes of a message: the counts of every version and route."""
TELL_SECONDS = 1.0
"""How often a process tells its counts."""


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
    `on_stop`: called when the whole service is to end, or the process that started this one is
        gone.
    """

    def __init__(self, connection: socket.socket, on_stop: Callable[[], None]) -> None:
        self._connection = connection
        self._on_stop = on_stop
        self._line: Line | None = None
        self._waiting: dict[str, list[asyncio.Future[Message]]] = {"reload": [], "others": []}

    async def listen(self, service: RecallService) -> None:
        """Answer what is asked of this process, for as long as it runs."""
        line = self._line = await Line.over(self._connection)
        line.say("ready")
        telling = asyncio.get_running_loop().create_task(self._tell(service))
        try:
            while (message := await line.hear()) is not None:
                kind = message["kind"]
                if kind == "prepare":
                    version = service.model().version
                    line.say("prepared", refused=await _refused(service), version=version)
                elif kind == "switch":
                    line.say("switched", answer=service.switch())
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
