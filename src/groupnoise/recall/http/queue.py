"""Batching of concurrent recalls, so that they share a matrix product."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from groupnoise.recall.items import ItemId
from groupnoise.recall.model import RecallModel
from groupnoise.recall.options import RecallOptions
from groupnoise.recall.recalled import Recalled

MAX_BATCH_HISTORIES = 256
MAX_DIRECT_SCORES = 1 << 18
"""Clicks times items up to which scores are computed on the event loop: a few hundred
microseconds, about what handing the work to a thread would cost."""
MAX_DIRECT_IDS = 100
"""Ids in a filter, and items in an answer, up to which the event loop answers."""


@dataclass(eq=False)
class _PendingRecall:
    model: RecallModel
    histories: Sequence[Sequence[ItemId]]
    options: RecallOptions
    answer: asyncio.Future[Recalled]

    @property
    def n_scores(self) -> int:
        n_clicks = sum(len(history) + 1 for history in self.histories)
        return n_clicks * len(self.model.items)


class RecallQueue:
    """Runs recalls with equal options in batches: small ones on the event loop, others on a thread.

    `max_direct_scores`: clicks times items up to which a recall is small.
    """

    def __init__(self, max_direct_scores: int = 0) -> None:
        self._max_direct_scores = max_direct_scores
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="recall")
        self._small: list[_PendingRecall] = []
        self._short: list[tuple[Callable[[], bytes], asyncio.Future[bytes]]] = []
        self._large: list[_PendingRecall] = []
        self._running: asyncio.Task[None] | None = None

    async def recall(
        self, model: RecallModel, histories: Sequence[Sequence[ItemId]], options: RecallOptions
    ) -> Recalled:
        """Return what `model.recall` returns, computed in a batch with other pending recalls."""
        loop = asyncio.get_running_loop()
        pending = _PendingRecall(model, histories, options, loop.create_future())
        if pending.n_scores <= self._max_direct_scores and options.n_ids <= MAX_DIRECT_IDS:
            self._small.append(pending)
            if len(self._small) == 1:
                # Deferred, so that requests of the same turn of the loop join the batch.
                loop.call_soon(self._answer_small)
        else:
            self._large.append(pending)
            if self._running is None or self._running.done():
                self._running = loop.create_task(self._answer_large())
        return await pending.answer

    async def run_together(self, work: Callable[[], bytes]) -> bytes:
        """Return the result of short work, run right after that of others in this turn of the loop.

        Done in a row, the work finds its code and data in the processor's caches.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        self._short.append((work, answer))
        if len(self._short) == 1:
            loop.call_soon(self._run_short)
        return await answer

    def _run_short(self) -> None:
        short, self._short = self._short, []
        for work, answer in short:
            if not answer.done():
                try:
                    answer.set_result(work())
                except Exception as error:
                    answer.set_exception(error)

    def close(self) -> None:
        """Stop the worker thread; call when no request is left."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _answer_small(self) -> None:
        pending, self._small = self._small, []
        while pending:
            batch, pending = _next_batch(pending, self._max_direct_scores)
            try:
                _set_results(batch, _recall_batch(batch))
            except Exception as error:
                _set_errors(batch, error)

    async def _answer_large(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            batch, self._large = _next_batch(self._large)
            if not batch:
                return
            try:
                _set_results(batch, await loop.run_in_executor(self._worker, _recall_batch, batch))
            except Exception as error:
                _set_errors(batch, error)


def _next_batch(
    pending: list[_PendingRecall], max_scores: float = float("inf")
) -> tuple[list[_PendingRecall], list[_PendingRecall]]:
    """Return the oldest request with those that can share its batch, and the rest."""
    batch: list[_PendingRecall] = []
    rest: list[_PendingRecall] = []
    n_histories = n_scores = 0
    for one in pending:
        if one.answer.done():  # cancelled
            continue
        fits = not batch or (
            n_histories + len(one.histories) <= MAX_BATCH_HISTORIES
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


def _recall_batch(batch: list[_PendingRecall]) -> list[Recalled]:
    if not batch:
        return []
    histories = [history for one in batch for history in one.histories]
    recalled = batch[0].model.recall(histories, batch[0].options)
    answers, begin = [], 0
    for one in batch:
        answers.append(recalled.rows(begin, begin + len(one.histories)))
        begin += len(one.histories)
    return answers


def _set_results(batch: list[_PendingRecall], answers: list[Recalled]) -> None:
    for one, answer in zip(batch, answers, strict=True):
        if not one.answer.done():
            one.answer.set_result(answer)


def _set_errors(batch: list[_PendingRecall], error: Exception) -> None:
    for one in batch:
        if not one.answer.done():
            one.answer.set_exception(error)
