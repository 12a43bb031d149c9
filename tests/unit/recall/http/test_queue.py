import asyncio
import threading

import numpy as np
import pytest

from groupnoise.exceptions import DataError
from groupnoise.recall import RecallModel, RecallOptions, open_artifact
from groupnoise.recall.http.queue import RecallQueue
from serving_support import write_shop


class SlowFirstModel(RecallModel):
    """Counts calls and holds the first one until told to go on."""

    def recall(self, histories, options=None):
        calls.append(len(histories))
        if len(calls) == 1:
            go_on.wait(5)
        return super().recall(histories, options)


calls: list[int] = []
go_on = threading.Event()


@pytest.fixture
def model(tmp_path):
    calls.clear()
    go_on.clear()
    opened = open_artifact(write_shop(tmp_path))
    return SlowFirstModel(opened.items, opened.ranker, opened.manifest)


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 10))


def test_what_arrives_meanwhile_is_answered_together(model):
    async def scenario():
        queue = RecallQueue()
        options = RecallOptions(top=2)
        first = asyncio.create_task(queue.recall(model, [["tea"]], options))
        while not calls:
            await asyncio.sleep(0.001)
        rest = [
            asyncio.create_task(queue.recall(model, [[item]], options))
            for item in ("cup", "nail", "saw")
        ]
        await asyncio.sleep(0)
        go_on.set()
        answers = await asyncio.gather(first, *rest)
        queue.close()
        return answers

    answers = run(scenario())
    assert calls == [1, 3]
    for item, answer in zip(("tea", "cup", "nail", "saw"), answers, strict=True):
        alone = RecallModel.recall(model, [[item]], RecallOptions(top=2))
        np.testing.assert_array_equal(answer.positions, alone.positions)


def test_different_options_are_answered_apart(model):
    async def scenario():
        queue = RecallQueue()
        go_on.set()
        tasks = [queue.recall(model, [["tea"]], RecallOptions(top=top)) for top in (1, 2, 1)]
        answers = await asyncio.gather(*tasks)
        queue.close()
        return [answer.positions.shape for answer in answers]

    assert run(scenario()) == [(1, 1), (1, 2), (1, 1)]
    assert sorted(calls) == [1, 2]


def test_an_error_reaches_everyone_it_concerns_and_no_one_else(model):
    async def scenario():
        queue = RecallQueue()
        go_on.set()
        bad = RecallOptions(categories=("nowhere",))
        answers = await asyncio.gather(
            queue.recall(model, [["tea"]], bad),
            queue.recall(model, [["tea"]], RecallOptions()),
            queue.recall(model, [["cup"]], bad),
            return_exceptions=True,
        )
        queue.close()
        return [type(answer) for answer in answers]

    first, second, third = run(scenario())
    assert first is third is DataError
    assert second is not DataError


def test_a_request_that_gave_up_is_not_computed(model):
    async def scenario():
        queue = RecallQueue()
        first = asyncio.create_task(queue.recall(model, [["tea"]], RecallOptions()))
        while not calls:
            await asyncio.sleep(0.001)
        late = asyncio.create_task(queue.recall(model, [["cup"]], RecallOptions()))
        await asyncio.sleep(0)
        late.cancel()
        await asyncio.gather(late, return_exceptions=True)
        go_on.set()
        await first
        await asyncio.sleep(0.05)
        queue.close()

    run(scenario())
    assert calls == [1]
