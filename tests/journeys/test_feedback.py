"""From answers of a service over what was shown and clicked to what a model would earn."""

import json

import httpx
import polars as pl
import pytest

from groupnoise.clicks import make_shop
from groupnoise.clicks.evaluation.replay import logged_by_version, read_impressions
from groupnoise.recall.http import Limits
from processes import run_python
from serving_support import running_service, write_shop


def test_feedback_of_a_service_is_replayed(command, tmp_path):
    shop = make_shop(60, 40, random_state=0)
    rows = [(u, int(i)) for u, history in enumerate(shop.histories) for i in history]
    pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv(tmp_path / "clicks.csv")
    for method in ("item-cf", "popularity"):
        command("fit", "clicks.csv", "--setting", "rs", "--method", method, "-o", method, "-q")
        command("export", method, "--output", "shop", "--registry")
    first, second = (
        each["version"] for each in json.loads(command("versions", "list", "shop", "--json").out)
    )
    command("versions", "promote", "shop", first)
    kept = tmp_path / "kept"
    shown = {}
    with running_service(
        tmp_path, tmp_path / "shop", canary=f"{second}=50%", feedback=kept
    ) as service:
        with service.client() as client:
            for user, history in enumerate(shop.histories):
                body = {"histories": [history.tolist()], "top": 10, "user": user}
                answer = client.post("/v1/recall", json=body)
                request_id = answer.headers["X-Request-ID"]
                version = answer.json()["version"]
                items = [each["item"] for each in answer.json()["results"][0]["items"]]
                shown[request_id] = version
                about = {"request_id": request_id, "user": user, "version": version}
                told = {**about, "shown": items, "clicked": items[:1]}
                for _ in range(2):  # a client that tries again counts once
                    kept_rows = client.post("/v1/feedback", json=told).json()
                    assert kept_rows == {"rows": 10, "unknown": []}
                if user % 2:  # a click that comes later
                    later = {**about, "clicked": items[1:2]}
                    assert client.post("/v1/feedback", json=later).json()["rows"] == 1
            stray = {"request_id": "nobody", "user": 1, "clicked": [1]}
            assert client.post("/v1/feedback", json=stray).status_code == 200
            metrics = client.get("/metrics").text
        n_first = sum(version == first for version in shown.values())
        assert 0 < n_first < 60
        assert f'groupnoise_impressions_total{{version="{first}"}} {20 * n_first}.0' in metrics
        assert 'groupnoise_clicks_total{version="other"} 1.0' in metrics
    words = ["replay", "kept", "--model", "item-cf", "--histories", "clicks.csv", "--json"]
    said = command(*words)
    found = json.loads(said.out)
    assert "left out 1 click on items" in said.err
    assert found["rows"] == 600
    assert found["logged click-through"] == pytest.approx(90 / 600)
    assert set(found["by version"]) == {first, second}
    (policy,) = found["policies"]
    assert 0 < policy["shown"] < 1
    by_hand = logged_by_version(read_impressions(kept))
    assert by_hand[first].mean == pytest.approx(found["by version"][first][0])
    told = command("replay", "kept").out
    assert f"version {first}: 0.1" in told


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    limits = Limits(feedback_rows=20, feedback_bytes=400, feedback_files=3, body_bytes=5000, top=12)
    artifact = write_shop(folder / "a")
    with running_service(folder, artifact, feedback=folder / "kept", limits=limits) as running:
        running.kept = folder / "kept"
        yield running


GOOD = {"request_id": "a", "user": "u", "shown": ["tea", "cup"], "clicked": ["tea"]}


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"shown": []}, 200, ""),
        ({"shown": [], "clicked": []}, 422, "shown"),
        ({"shown": ["cup", "cup"], "clicked": []}, 422, "once"),
        ({"clicked": ["nail"]}, 422, "not shown"),
        ({"propensity": [0.5]}, 422, "one for each"),
        ({"propensity": [0.5, 0.0]}, 422, "propensity.1"),
        ({"request_id": "a b"}, 422, "request_id"),
        ({"user": ""}, 422, "characters"),
        ({"user": None}, 422, "user"),
        ({"version": "../../a"}, 422, "version"),
        ({"more": 1}, 422, "more"),
        ({"shown": list(range(13)), "clicked": []}, 422, "at most 12"),
        ({"user": "u" * 6000}, 413, "5000 bytes"),
    ],
)
def test_feedback_is_checked(service, change, status, said):
    answer = httpx.post(f"{service.address}/v1/feedback", json={**GOOD, **change})
    assert answer.status_code == status, answer.text
    assert said in answer.text


def test_items_that_no_served_model_knows_are_told_and_refused_of_a_version_that_lacks_them(
    service,
):
    address = f"{service.address}/v1/feedback"
    strange = {**GOOD, "shown": ["tea", "kettle"]}
    assert httpx.post(address, json=strange).json() == {"rows": 2, "unknown": ["kettle"]}
    version = httpx.get(f"{service.address}/v1/model").json()["main"]["version"]
    assert httpx.post(address, json={**GOOD, "version": version}).json()["unknown"] == []
    answer = httpx.post(address, json={**strange, "version": version})
    assert answer.status_code == 422
    assert f"version {version} has no item 'kettle', so it cannot have" in answer.text


def test_floods_are_refused_and_files_are_bounded(service):
    with service.client() as client:
        answers = [client.post("/v1/feedback", json=GOOD) for _ in range(120)]
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) == {200, 429}
    refused = answers[statuses.index(429)]
    assert refused.headers["Retry-After"] == "1"
    assert refused.json()["error"]["limit"] == 20
    files = sorted(service.kept.iterdir())
    assert len(files) == 3
    assert all(path.stat().st_size <= 400 for path in files)
    assert all(json.loads(line) for path in files for line in path.read_text().splitlines())
    assert any(line["event"] == "feedback_deleted" for line in service.log_lines())


def test_a_service_that_keeps_no_feedback_says_so(tmp_path):
    with running_service(tmp_path, write_shop(tmp_path / "a")) as running:
        answer = httpx.post(f"{running.address}/v1/feedback", json=GOOD)
    assert answer.status_code == 404
    assert "--feedback" in answer.json()["error"]["message"]


FULL = """
import json, resource, sys
from pathlib import Path
from groupnoise.recall.http.answers import Refusal
from groupnoise.recall.http.feedback import FeedbackLog
sys.dont_write_bytecode = True  # a module compiled under the quota would be cut off
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
log = FeedbackLog(sys.argv[1], max_bytes=10**6, max_files=3, rows_per_second=10**6)
kept = 0
try:
    while True:
        log.append([{"item": "tea"}] * 7)
        kept += 7
except Refusal as refusal:
    assert refusal.status == 503, refusal
(path,) = Path(sys.argv[1]).iterdir()
assert [json.loads(line) for line in path.read_text().splitlines()] == [{"item": "tea"}] * kept
assert kept > 0
"""


def test_a_full_disk_keeps_whole_rows_only(tmp_path):
    run_python(FULL, str(tmp_path / "kept"))
