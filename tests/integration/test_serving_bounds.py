"""What one request or one client can take from the service, measured over a real socket."""

import json

import httpx
import pytest

from serving_support import running_service, write_random, write_shop


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bounds")
    with running_service(folder, write_shop(folder / "a")) as running:
        yield running


def post(service, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(
        f"{service.address}/v1/recall",
        content=content,
        headers={"content-type": "application/json", **headers},
        timeout=60,
    )


@pytest.mark.parametrize(
    "body",
    [
        b'{"histories":[[' + b",".join([b"[]"] * 330_000) + b"]]}",
        b'{"histories":[' + b",".join([b"[]"] * 333_000) + b"]}",
        b'{"histories":[[1],' + b",".join([b"[{},{},{},{}]"] * 70_000) + b"]}",
        b'{"histories":[["tea"]],"deny":[' + b",".join([b"{}"] * 330_000) + b"]}",
        b"{" + b",".join(b'"%x":1' % key for key in range(95_000)) + b"}",
        b"[" * 990_000,
    ],
    ids=["ids", "histories", "ids of many", "filter", "fields", "depth"],
)
def test_a_megabyte_of_mistakes_costs_little_time_and_memory(service, body):
    assert len(body) < 1_000_000
    httpx.get(f"{service.address}/healthz", timeout=60)
    megabytes, seconds = service.resident_megabytes(), service.processor_seconds()
    answer = post(service, body)
    assert answer.status_code == 422
    assert len(answer.content) < 500
    assert service.processor_seconds() - seconds < 1.5
    assert service.resident_megabytes() - megabytes < 150


def test_every_id_of_a_legal_request_may_be_wrong(service):
    seconds = service.processor_seconds()
    answer = post(service, {"histories": [[None] * 200] * 256})
    assert answer.status_code == 422
    assert "histories.0.0" in answer.json()["error"]["message"]
    assert service.processor_seconds() - seconds < 1.0


def test_the_largest_explained_answer_is_refused_or_affordable(tmp_path):
    clicks = list(range(200))
    artifact = write_random(tmp_path / "a", 1000)
    with running_service(tmp_path, artifact) as service:
        httpx.get(f"{service.address}/healthz", timeout=60)
        megabytes = service.resident_megabytes()
        body = {"top": 500, "explain": True, "exclude_seen": False}
        refused = post(service, {**body, "histories": [clicks] * 256})
        assert refused.status_code == 422
        assert refused.json()["error"]["code"] == "explain_limit"
        largest = post(service, {**body, "histories": [clicks] * 10})
        assert largest.status_code == 200
        assert len(largest.json()["results"][9]["items"][499]["shares"]) == 200
        assert service.resident_megabytes() - megabytes < 250
