"""The recall service over a real socket."""

import gzip
import json
import re
import shlex
import signal
import subprocess
import time
from html import unescape

import httpx
import numpy as np
import pytest

from groupnoise.io.folders.array_folder import read_folder, write_folder
from groupnoise.recall.http import Limits
from serving_support import IDS, running_service, write_neighbour_shop, write_shop

TIGHT = Limits(
    body_bytes=2000, histories=3, history_length=4, top=12, filter_items=4, query_length=20
)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    main = write_shop(folder / "main")
    compare = write_neighbour_shop(folder / "compare")
    with running_service(folder, main, compare=compare, limits=TIGHT) as running:
        yield running


@pytest.fixture(scope="module")
def client(service):
    with service.client() as opened:
        yield opened


@pytest.mark.slow
def test_one_and_many_histories_are_answered(client):
    answer = client.post("/v1/recall", json={"histories": [["tea"], [], ["zz"]], "top": 2}).json()
    first, second, third = answer["results"]
    assert [item["item"] for item in first["items"]] == ["cup", "spoon"]
    assert first["items"][0]["title"] == "Tea Cup"
    assert first["items"][0]["category"] == "kitchen"
    assert second["source"] == third["source"] == "popularity"
    assert third["unknown"] == ["zz"]


def test_filters_reach_the_search(client):
    request = {"histories": [["tea"]], "categories": ["tools"], "deny": ["saw"], "top": 5}
    items = client.post("/v1/recall", json=request).json()["results"][0]["items"]
    assert {item["item"] for item in items} == {"hammer", "nail"}


def test_an_explained_answer_names_match_weights_and_noise(client):
    request = {"histories": [["tea", "hammer", "cup"]], "top": 1, "explain": True}
    result = client.post("/v1/recall", json=request).json()["results"][0]
    assert result["items"][0]["matched"]["item"] in ("tea", "cup")
    assert sum(result["items"][0]["shares"]) == pytest.approx(1, abs=1e-3)
    assert [click["is_noise"] for click in result["clicks"]] == [False, True, False]


def test_the_second_model_answers_beside_the_first(client):
    request = {"histories": [["tea"]], "top": 1, "model": "compare", "explain": True}
    answer = client.post("/v1/recall", json=request).json()
    assert answer["model"] == "compare"
    assert answer["results"][0]["items"][0]["item"] == "cup"


def test_similar_items_and_title_search(client):
    similar = client.get("/v1/similar/tea", params={"top": 2}).json()
    assert [item["item"] for item in similar["items"]] == ["cup", "spoon"]
    found = client.get("/v1/items", params={"q": "tea", "limit": 2}).json()["items"]
    assert [item["item"] for item in found] == ["tea", "cup"]  # the id itself, then popularity
    popular = client.get("/v1/items", params={"limit": 1}).json()["items"]
    assert popular[0]["item"] == "cup"


def test_the_routes_are_shown_with_a_request_that_works_and_nothing_from_outside(client):
    shown = client.get("/docs")
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    for path, methods in client.get("/openapi.json").json()["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in shown.text
    links = re.findall(r'(?:href|src)="([^"]*)"', shown.text)
    assert sorted(set(links)) == ["./", "openapi.json", "page.css"]
    commands = [unescape(each) for each in re.findall(r"<pre>(.*?)</pre>", shown.text)]
    for command in commands:
        answer = subprocess.run(
            shlex.split(command), capture_output=True, text=True, timeout=30, check=True
        )
        assert '"version"' in answer.stdout
    assert '[["cup", "hammer"]]' in commands[0]  # the most popular


def test_fields_are_shown_with_defaults_and_examples(client):
    shown = unescape(client.get("/docs").text)
    assert "Items per history; per interest, where interests are asked for. Default: 10." in shown
    assert 'oldest click first. Required. Example: [["i12", "i7"], []]' in shown
    assert 'Never recall these. Default: []. Example: ["i12"]' in shown
    schema = client.get("/openapi.json").json()["paths"]["/v1/feedback"]["post"]["requestBody"]
    fields = schema["content"]["application/json"]["schema"]["properties"]
    assert fields["clicked"]["default"] == []
    assert fields["user"]["examples"] == ["u7"]


@pytest.mark.parametrize(
    ("method", "path", "status", "said"),
    [
        ("POST", "/v1/similar", 404, "there are POST /v1/recall, GET /v1/similar/{item}"),
        ("POST", "/v1/recall/", 404, "(did you mean '/v1/recall'?)"),
        ("POST", "/v1/similar/tea", 405, "'/v1/similar/tea' is not asked by POST; use GET."),
    ],
)
def test_other_paths_and_methods_are_answered_with_those_there_are(
    client, method, path, status, said
):
    answer = client.request(method, path, json={"item": "tea"}, follow_redirects=False)
    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]


def test_the_model_describes_itself_and_its_limits(client):
    described = client.get("/v1/model").json()
    assert described["main"]["card"]["name"] == "Six items"
    assert described["compare"]["kind"] == "neighbours"
    assert described["limits"]["top"] == 12


def test_health_readiness_and_schema(client):
    assert client.get("/healthz").json() == {"status": "alive"}
    assert client.get("/readyz").json() == {"status": "ready"}
    assert "/v1/recall" in client.get("/openapi.json").json()["paths"]


def test_metrics_tell_latency_errors_unknown_items_and_version(client, service):
    client.post("/v1/recall", json={"histories": [["tea", "zz"]]})
    client.get("/v1/similar/zz")
    text = client.get("/metrics").text
    version = client.get("/v1/model").json()["main"]["version"]
    label = f'version="{version}"'
    assert f'groupnoise_request_seconds_bucket{{le="0.1",route="/v1/recall",{label}}}' in text
    assert 'groupnoise_requests_total{route="/v1/similar/{item:path}",status="404",' in text
    counts = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert (
        0
        < float(counts[f"groupnoise_unknown_items_total{{{label}}}"])
        < float(counts[f"groupnoise_history_items_total{{{label}}}"])
    )


@pytest.mark.parametrize(
    ("change", "limit"),
    [
        ({"histories": [[]] * 4}, "histories"),
        ({"histories": [["tea"] * 5]}, "history_length"),
        ({"top": 13}, "top"),
        ({"deny": ["tea"] * 5}, "filter_items"),
        ({"categories": ["tools"] * 5}, "filter_items"),
    ],
)
def test_each_limit_is_a_422_that_names_it(client, change, limit):
    answer = client.post("/v1/recall", json={"histories": [["tea"]], **change})
    error = answer.json()["error"]
    assert answer.status_code == 422
    assert error["code"] == f"{limit}_limit"
    assert error["limit"] == getattr(TIGHT, limit)
    assert str(error["limit"]) in error["message"]


def test_other_routes_have_limits_too(client):
    assert client.get("/v1/items", params={"q": "x" * 21}).json()["error"]["limit"] == 20
    assert client.get("/v1/items", params={"limit": 13}).json()["error"]["limit"] == 12
    assert client.get("/v1/similar/tea", params={"top": 13}).json()["error"]["limit"] == 12


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_large_body_is_a_413(client, is_chunked):
    body = json.dumps({"histories": [["x" * 3000]]}).encode()
    content = iter([body[:1000], body[1000:]]) if is_chunked else body
    answer = client.post("/v1/recall", content=content)
    assert answer.status_code == 413
    assert answer.json()["error"]["limit"] == 2000


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"histories": []}',
        b'{"histories": "tea"}',
        b'{"histories": [[1.5]]}',
        b'{"histories": [[null]]}',
        b'{"histories": [[true]]}',
        b'{"histories": [[]], "top": 0}',
        b'{"histories": [[]], "top": "many"}',
        b'{"histories": [[]], "scope": "best"}',
        b'{"histories": [[]], "unheard_of": 1}',
        b'{"histories": [["tea"]], "categories": ["nowhere"]}',
        b'{"histories": [["\\ud800"]]}',
        b'{"histories": [["tea"]], "categories": ["\\udfff"]}',
        b"[" * 1900,
    ],
)
def test_a_bad_body_is_a_422_in_one_sentence(client, body):
    answer = client.post("/v1/recall", content=body, headers={"content-type": "application/json"})
    error = answer.json()["error"]
    assert answer.status_code == 422, answer.text
    assert set(error) == {"code", "message", "request_id"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/recall", 405),
        ("GET", "/nowhere", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/page/", 404),
        ("GET", "/v1/similar/zz", 404),
        ("DELETE", "/v1/model", 405),
    ],
)
def test_wrong_routes_are_refused_in_the_same_shape(client, method, path, status):
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/model", "/nowhere", "/page.js"])
def test_every_answer_carries_security_headers(client, path):
    headers = client.get(path).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "server" not in headers


def test_an_answer_in_json_carries_those_that_protect_it(client):
    headers = client.post("/v1/recall", json={"histories": [["tea"]]}).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"


def test_pages_of_other_sites_are_refused(client):
    foreign = client.post("/v1/model/reload", headers={"origin": "https://example.org"})
    assert foreign.status_code == 403
    for site in ("cross-site", "same-site"):
        shown = client.get("/v1/items", headers={"sec-fetch-site": site})
        assert shown.json()["error"]["code"] == "foreign_origin"
        assert client.get("/", headers={"sec-fetch-site": site}).status_code == 200
    for site in ("same-origin", "none"):
        assert client.get("/v1/items", headers={"sec-fetch-site": site}).status_code == 200
    rebound = client.get("/v1/model", headers={"host": "example.org"})
    assert rebound.json()["error"]["code"] == "foreign_host"
    assert "says 'example.org'" in rebound.json()["error"]["message"]


def test_a_packed_body_is_refused_as_such(client):
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    body = gzip.compress(b'{"histories": [["tea"]]}')
    refused = client.post("/v1/recall", content=body, headers=headers)
    assert refused.status_code == 422
    assert "the body is gzip" in refused.json()["error"]["message"]


def test_a_request_id_is_kept_or_made_and_logged(client, service):
    kept = client.get("/healthz", headers={"x-request-id": "mine-42"})
    made = client.get("/healthz", headers={"x-request-id": "not fit\x20for a log"})
    assert kept.headers["x-request-id"] == "mine-42"
    assert made.headers["x-request-id"] != "not fit for a log"
    logged = {}
    for _ in range(500):  # a line is written after its answer was sent
        logged = {line.get("request_id"): line for line in service.log_lines()}
        if made.headers["x-request-id"] in logged:
            break
        time.sleep(0.02)
    assert logged["mine-42"]["path"] == "/healthz"
    assert logged["mine-42"]["status"] == 200
    assert made.headers["x-request-id"] in logged


def test_a_token_guards_everything_but_page_and_health(tmp_path):
    artifact = write_shop(tmp_path / "a")
    with (
        running_service(tmp_path, artifact, token="s3cret", host="0.0.0.0") as service,
        httpx.Client(base_url=service.address.replace("0.0.0.0", "127.0.0.1")) as client,
    ):
        for path in ("/", "/docs", "/page.js", "/healthz", "/readyz"):
            assert client.get(path).status_code == 200
        routes = client.get("/docs").text
        assert "Bearer $GROUPNOISE_TOKEN" in routes
        assert not any(f"&quot;{item}&quot;" in routes for item in IDS)  # without a token, no id
        for path in ("/v1/model", "/metrics", "/openapi.json"):
            refused = client.get(path)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        for wrong in ("Bearer s3creT", "Bearer", "s3cret", "Basic s3cret", "Bearer s3cret2"):
            assert client.get("/v1/model", headers={"authorization": wrong}).status_code == 401
        for right in ("Bearer s3cret", "bearer s3cret", "BEARER  s3cret"):
            assert client.get("/v1/model", headers={"authorization": right}).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize("by_signal", [False, True])
def test_a_new_artifact_takes_over_after_a_reload(tmp_path, by_signal):
    artifact = write_shop(tmp_path / "a")
    with running_service(tmp_path, artifact) as service, service.client() as client:
        before = client.get("/v1/model").json()["main"]["version"]
        write_shop(artifact, target_bias=[0, 0, 9, 0, 0, 0])
        assert service.recall([["tea"]], top=1)["results"][0]["items"][0]["item"] == "cup"
        if by_signal:
            service.process.send_signal(signal.SIGHUP)
            wait_until(lambda: client.get("/v1/model").json()["main"]["version"] != before)
        else:
            switched = client.post("/v1/model/reload").json()["main"]
            assert switched["before"] == before != switched["after"]
        assert service.recall([["tea"]], top=1)["results"][0]["items"][0]["item"] == "spoon"


def test_a_bad_artifact_is_refused_and_the_old_one_stays(tmp_path):
    artifact = write_shop(tmp_path / "a")
    with running_service(tmp_path, artifact) as service, service.client() as client:
        vectors = next(artifact.glob("target_vectors-*.npy"))
        vectors.write_bytes(vectors.read_bytes()[:-8])
        refused = client.post("/v1/model/reload")
        assert refused.status_code == 409
        assert str(tmp_path) not in refused.text
        service.process.send_signal(signal.SIGHUP)
        wait_until(lambda: len(reload_refusals(service)) == 2)
        assert "truncated" in reload_refusals(service)[0]["reason"]
        assert service.recall([["tea"]], top=1)["results"][0]["items"][0]["item"] == "cup"
        version = client.get("/v1/model").json()["main"]["version"]
        counted = f'groupnoise_reloads_total{{outcome="refused",version="{version}"}} 2.0'
        assert counted in client.get("/metrics").text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ids", lambda a: a.astype("U10")),
        ("popularity", lambda a: a * np.nan),
        ("target_vectors", lambda a: a * np.nan),
        ("popular_order", lambda a: a - 7),
        ("titles_offsets", lambda a: a + 1),
        ("category_codes", lambda a: a + 5),
    ],
)
def test_an_artifact_altered_with_its_checksums_is_refused(tmp_path, name, change):
    artifact = write_shop(tmp_path / "a")
    with running_service(tmp_path, artifact) as service, service.client() as client:
        manifest, arrays = read_folder(artifact, memory_map=False)
        write_folder(artifact, manifest=manifest, arrays={**arrays, name: change(arrays[name])})
        assert client.post("/v1/model/reload").status_code == 409
        assert service.recall([["tea"], []], top=1)["results"][0]["items"][0]["item"] == "cup"


@pytest.mark.slow
def test_both_models_switch_or_neither(tmp_path):
    main, compare = write_shop(tmp_path / "main"), write_neighbour_shop(tmp_path / "compare")
    with running_service(tmp_path, main, compare=compare) as service, service.client() as client:
        before = client.get("/v1/model").json()["main"]["version"]
        write_shop(main, target_bias=[0, 0, 9, 0, 0, 0])
        manifest = json.loads((compare / "manifest.json").read_text())
        manifest["files"]["indptr"] = manifest["files"]["scores"]  # whole, but nonsense
        (compare / "manifest.json").write_text(json.dumps(manifest))
        assert client.post("/v1/model/reload").status_code == 409
        assert client.get("/v1/model").json()["main"]["version"] == before


def reload_refusals(service):
    return [line for line in service.log_lines() if line["event"] == "reload_refused"]


def wait_until(condition, seconds=5.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.02)
