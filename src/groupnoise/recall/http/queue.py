"""Recalls that share a matrix product: what waits at the same time is answered together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from groupnoise.recall.items import ItemId
from groupnoise.recall.model import RecallModel
from groupnoise.recall.options import RecallOptions
from groupnoise.recall.recalled import Recalled

MAX_TOGETHER = 256
MAX_DIRECT_SCORES = 1 << 18
"""Clicks times items that are scored on the event loop. It is a few hundred microseconds of work,
where handing it to a thread and back would cost as much again."""
MAX_DIRECT_IDS = 100
"""Ids in a filter, and items in an answer, of what is answered on the event loop."""


@dataclass(eq=False)
class _Waiting:
    model: RecallModel
    histories: Sequence[Sequence[ItemId]]
    options: RecallOptions
    answer: asyncio.Future[Recalled]

    @property
    def n_scores(self) -> int:
        n_clicks = sum(len(history) + 1 for history in self.histories)
        return n_clicks * len(self.model.items)


class RecallQueue:
    """Runs recalls, equal ones together: small ones at once, the others on one worker thread.

    `max_direct_scores`: clicks times items up to which recalls are answered on the event loop.
    """

    def __init__(self, max_direct_scores: int = 0) -> None:
        self._max_direct_scores = max_direct_scores
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recall")
        self._small: list[_Waiting] = []
        self._short: list[tuple[Callable[[], bytes], asyncio.Future[bytes]]] = []
        self._large: list[_Waiting] = []
        self._running: asyncio.Task[None] | None = None

    async def recall(
        self, model: RecallModel, histories: Sequence[Sequence[ItemId]], options: RecallOptions
    ) -> Recalled:
        """Return what `model.recall` returns, computed with whatever else is waiting."""
        loop = asyncio.get_running_loop()
        waiting = _Waiting(model, histories, options, loop.create_future())
        if waiting.n_scores <= self._max_direct_scores and options.n_ids <= MAX_DIRECT_IDS:
            self._small.append(waiting)
            if len(self._small) == 1:
                # Not at once: what came in the same turn of the loop is then here too.
                loop.call_soon(self._answer_small)
        else:
            self._large.append(waiting)
            if self._running is None or self._running.done():
                self._running = loop.create_task(self._answer_large())
        return await waiting.answer

    async def together(self, work: Callable[[], bytes]) -> bytes:
        """Return what some short work returns, done right after that of others in this turn.

        The same work in a row finds its code and data in the processor's caches, which the
        reading and writing of requests in between would drive out.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        self._short.append((work, answer))
        if len(self._short) == 1:
            loop.call_soon(self._do_short)
        return await answer

    def _do_short(self) -> None:
        short, self._short = self._short, []
        for work, answer in short:
            if not answer.done():
                try:
                    answer.set_result(work())
                except Exception as error:
                    answer.set_exception(error)

    def close(self) -> None:
        """End the worker; call when no request is left."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _answer_small(self) -> None:
        waiting, self._small = self._small, []
        while waiting:
            batch, waiting = _taken(waiting, self._max_direct_scores)
            try:
                _hand_out(batch, _answer(batch))
            except Exception as error:
                _fail(batch, error)

    async def _answer_large(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch, self._large = _taken(self._large)
            if not batch:
                return
            try:
                _hand_out(batch, await loop.run_in_executor(self._worker, _answer, batch))
            except Exception as error:
                _fail(batch, error)


def _taken(
    waiting: list[_Waiting], max_scores: float = float("inf")
) -> tuple[list[_Waiting], list[_Waiting]]:
    """Return the oldest request with those that can share its product, and the rest."""
    batch: list[_Waiting] = []
    rest: list[_Waiting] = []
    n_histories = n_scores = 0
    for one in waiting:
        if one.answer.done():  # nobody waits for it any more
            continue
        fits = not batch or (
            n_histories + len(one.histories) <= MAX_TOGETHER
            and n_scores + one.n_scores <= max_scores
            and one.model is batch[0].model
            and one.options == batch[0].options
        )
        if fits:
            batch.append(one)
            n_histories += len(one.histories)
            n_scores += one.n_scores
        else:
            rest.append(one)
    return batch, rest


def _answer(batch: list[_Waiting]) -> list[Recalled]:
    if not batch:
        return []
    together = [history for one in batch for history in one.histories]
    recalled = batch[0].model.recall(together, batch[0].options)
    answers, begin = [], 0
    for one in batch:
        answers.append(recalled.rows(begin, begin + len(one.histories)))
        begin += len(one.histories)
    return answers


def _hand_out(batch: list[_Waiting], answers: list[Recalled]) -> None:
    for one, answer in zip(batch, answers, strict=True):
        if not one.answer.done():
            one.answer.set_result(answer)


def _fail(batch: list[_Waiting], error: Exception) -> None:
    for one in batch:
        if not one.answer.done():
            one.answer.set_exception(error)
