"""Answering concurrent requests together: what arrives while one batch runs forms the next.

Scoring 16 histories in one matrix product costs little more than scoring one, so under load the
service grows faster instead of queueing; without load nobody waits for a batch to fill.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from groupnoise.serving._items import ItemId
from groupnoise.serving._model import Recalled, RecallModel
from groupnoise.serving._options import RecallOptions

MOST_TOGETHER = 256


@dataclass(eq=False)
class _Waiting:
    model: RecallModel
    histories: Sequence[Sequence[ItemId]]
    options: RecallOptions
    answer: asyncio.Future[Recalled]

    def fits_with(self, other: _Waiting) -> bool:
        return self.model is other.model and self.options == other.options


class RecallQueue:
    """Runs recalls on one worker thread, equal ones together."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recall")
        self._waiting: list[_Waiting] = []
        self._drain: asyncio.Task[None] | None = None

    async def recall(
        self, model: RecallModel, histories: Sequence[Sequence[ItemId]], options: RecallOptions
    ) -> Recalled:
        """Return what `model.recall` returns, computed with whatever else is waiting."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(model, histories, options, loop.create_future())
        self._waiting.append(waiting)
        if self._drain is None or self._drain.done():
            self._drain = loop.create_task(self._run())
        return await waiting.answer

    def close(self) -> None:
        """End the worker; call when no request is left."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while batch := self._take():
            try:
                answers = await loop.run_in_executor(self._worker, _answer, batch)
            except Exception as error:
                for one in batch:
                    if not one.answer.done():
                        one.answer.set_exception(error)
            else:
                for one, answer in zip(batch, answers, strict=True):
                    if not one.answer.done():
                        one.answer.set_result(answer)

    def _take(self) -> list[_Waiting]:
        """Remove and return the oldest request and those that can share its product."""
        self._waiting = [one for one in self._waiting if not one.answer.done()]
        batch: list[_Waiting] = []
        rest: list[_Waiting] = []
        n_histories = 0
        for one in self._waiting:
            fits = not batch or (
                one.fits_with(batch[0]) and n_histories + len(one.histories) <= MOST_TOGETHER
            )
            if fits:
                batch.append(one)
                n_histories += len(one.histories)
            else:
                rest.append(one)
        self._waiting = rest
        return batch


def _answer(batch: list[_Waiting]) -> list[Recalled]:
    together = [history for one in batch for history in one.histories]
    recalled = batch[0].model.recall(together, batch[0].options)
    answers, begin = [], 0
    for one in batch:
        answers.append(recalled.rows(begin, begin + len(one.histories)))
        begin += len(one.histories)
    return answers
