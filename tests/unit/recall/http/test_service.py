"""What the service does with the work of a request."""

import asyncio
import gc
import json
import threading
import weakref

import pytest

from groupnoise.recall import RecallModel
from groupnoise.recall.http import ServiceSettings
from groupnoise.recall.http.service import RecallService, freeze_memory
from serving_support import write_shop


@pytest.mark.parametrize(("max_quick", "together"), [(0, [3]), (1 << 18, [])])
def test_large_models_answer_together_what_is_asked_together(
    tmp_path, monkeypatch, max_quick, together
):
    monkeypatch.setattr("groupnoise.recall.model.MAX_QUICK", max_quick)
    service = RecallService(ServiceSettings(artifact=write_shop(tmp_path)))
    recall, asked = RecallModel.recall, []

    def counted(self, histories, options=None):
        asked.append(len(histories))
        return recall(self, histories, options)

    monkeypatch.setattr(RecallModel, "recall", counted)

    async def ask():
        bodies = [json.dumps({"histories": [[item]], "top": 1}) for item in ("tea", "cup", "nail")]
        answers = [service.recall(body.encode(), "application/json") for body in bodies]
        found = [json.loads(answer) for answer, _ in await asyncio.gather(*answers)]
        service.queue.close()
        return [each["results"][0]["items"][0]["item"] for each in found]

    assert asyncio.run(ask()) == ["cup", "tea", "hammer"]
    assert asked == together


def test_reasons_nobody_waits_for_are_not_worked_out(tmp_path, monkeypatch):
    begun, go_on, explained = threading.Event(), threading.Event(), []
    explain = RecallModel.explain

    def slow_explain(self, history, positions, **options):
        explained.append(history)
        begun.set()
        go_on.wait(10)
        return explain(self, history, positions, **options)

    monkeypatch.setattr(RecallModel, "explain", slow_explain)
    service = RecallService(ServiceSettings(artifact=write_shop(tmp_path)))

    async def give_up():
        request = json.dumps({"histories": [["tea"]] * 5, "explain": True}).encode()
        asked = asyncio.create_task(service.recall(request, "application/json"))
        await asyncio.to_thread(begun.wait, 10)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        go_on.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        service.queue.close()

    asyncio.run(give_up())
    assert len(explained) == 1


def test_memory_set_aside_is_given_back_when_another_model_takes_over(tmp_path):
    service = RecallService(ServiceSettings(artifact=write_shop(tmp_path)))
    try:
        freeze_memory()
        assert gc.get_freeze_count() > 1000
        model = service.model()
        model.manifest["itself"] = model  # only the collector can tell that nobody reaches it
        before = weakref.ref(model)
        del model
        asyncio.run(service.reload())
        assert before() is None
        assert gc.get_freeze_count() > 1000
    finally:
        gc.unfreeze()
        service.close()
