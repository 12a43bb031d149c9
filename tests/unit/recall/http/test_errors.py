"""Every failure in one shape, whatever it was."""

import asyncio
import io
import json

import httpx
import pytest

from groupnoise.exceptions import ModelFileError
from groupnoise.recall.http import ServiceSettings, create_app
from groupnoise.recall.http.monitoring import JsonHandler
from groupnoise.recall.http.service import ModelSlot, RecallService
from serving_support import write_shop


def test_a_failure_is_told_in_the_shape_of_every_refusal(tmp_path, monkeypatch):
    def fail(self):
        raise RuntimeError("a path of this machine")

    monkeypatch.setattr(RecallService, "describe", fail)
    app = create_app(ServiceSettings(artifact=write_shop(tmp_path)))

    async def ask():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/v1/model")

    answer = asyncio.run(ask())
    error = answer.json()["error"]
    assert answer.status_code == 500
    assert error["code"] == "internal_error"
    assert error["request_id"] == answer.headers["x-request-id"]
    assert "path" not in error["message"]


@pytest.mark.parametrize("unwritable", ["half a character \ud800", float("nan")])
def test_an_artifact_whose_card_cannot_be_sent_is_refused(tmp_path, unwritable):
    manifest = write_shop(tmp_path) / "manifest.json"
    content = json.loads(manifest.read_text())
    content["card"]["data"] = unwritable
    manifest.write_text(json.dumps(content))
    with pytest.raises(ModelFileError):
        ModelSlot(tmp_path)


def test_a_log_whose_stream_was_closed_does_not_end_a_request():
    stream = io.StringIO()
    handler = JsonHandler(stream)
    stream.close()
    handler.write_line("{}\n")
