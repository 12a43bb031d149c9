"""Filters, named lists, variety and interests over real sockets and the command line."""

import json

import httpx
import pytest

from groupnoise.recall.http import Limits
from serving_support import running_service, write_shop

LABELS = [
    ["kitchen", "brand=Acme"],
    ["kitchen", "brand=Bolt"],
    ["kitchen", "brand=Acme"],
    ["tools", "brand=Bolt"],
    ["tools", "brand=Acme"],
    ["tools", "brand=Core"],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("stage")


@pytest.fixture(scope="module")
def service(folder):
    lists = folder / "lists"
    lists.mkdir()
    artifact = write_shop(folder / "artifact", categories=LABELS)
    limits = Limits(list_bytes=2000, variety=50)
    with running_service(folder, artifact, lists=lists, limits=limits) as running:
        yield running


def items(service, history, **options):
    result = service.recall([history], exclude_seen=False, top=6, **options)["results"][0]
    return [item["item"] for item in result["items"]]


def test_filters_caps_and_scores(service):
    assert items(service, ["tea"], filter={"brand": "Acme"}) == ["tea", "spoon", "nail"]
    assert items(service, ["tea"], max_per={"brand": 1}) == ["tea", "cup", "saw"]
    full = service.recall([["tea"]], exclude_seen=False, top=6)["results"][0]["items"]
    assert items(service, ["tea"], min_score=full[1]["score"]) == ["tea", "cup"]
    assert set(items(service, ["tea"], diversity=0.9)[:2]) != {"tea", "cup"}


def test_interests_name_their_click_with_and_without_reasons(service):
    for explain in (False, True):
        answer = service.recall([["tea", "hammer"]], top=2, interests=2, explain=explain)
        found = {item["item"]: item["click"] for item in answer["results"][0]["items"]}
        assert found == {"cup": "tea", "spoon": "tea", "nail": "hammer", "saw": "hammer"}


def test_interests_are_explained_by_their_click(service):
    history = ["tea", "cup", "hammer"]
    answer = service.recall([history], top=2, interests=2, explain=True)["results"][0]
    for item in answer["items"]:
        assert item["matched"] == {"item": item["click"], "responsibility": 1.0}
        assert item["shares"] == [float(click == item["click"]) for click in history]


def test_a_list_is_put_replaced_shared_by_its_file_and_deleted(service, folder):
    with service.client() as client:
        put = client.put("/v1/lists/stock", json=["cup", "saw", "gone"])
        assert put.json() == {"name": "stock", "n_items": 3, "n_known": 2}
        assert items(service, ["tea"], allow_lists=["stock"]) == ["cup", "saw"]
        client.put("/v1/lists/stock", json=["spoon"])
        assert items(service, ["tea"], allow_lists=["stock"]) == ["spoon"]
        (folder / "lists" / "blocked.txt").write_text("tea\ncup\n")
        assert "cup" not in items(service, ["tea"], deny_lists=["blocked"])
        names = [each["name"] for each in client.get("/v1/lists").json()["lists"]]
        assert names == ["blocked", "stock"]
        assert client.delete("/v1/lists/stock").status_code == 200
        again = client.delete("/v1/lists/stock")
        assert (again.status_code, again.json()["error"]["code"]) == (404, "no_such_list")


def test_a_file_of_a_list_that_becomes_unreadable_is_told_of_and_the_list_stays(service, folder):
    file = folder / "lists" / "banned.txt"
    with service.client() as client:

        def health():
            return client.get("/healthz").json()

        file.write_text("tea\n")
        assert "tea" not in items(service, ["tea"], deny_lists=["banned"])
        assert health() == {"status": "alive"}
        file.write_bytes(b"cup\n\xff\xfe\n")
        for _ in range(2):
            assert "tea" not in items(service, ["tea"], deny_lists=["banned"])
        assert health() == {"status": "alive", "unreadable_lists": 1}
        told = [line for line in service.log_lines() if line["event"] == "list_unreadable"]
        assert [(line["level"], line["list"], line["items_kept"]) for line in told] == [
            ("error", "banned", 1)
        ]
        assert "banned.txt cannot be read as lines of item ids" in told[0]["error"]
        assert 'groupnoise_unreadable_lists_total{list="banned"} 1.0' in client.get("/metrics").text
        (folder / "lists" / "never.txt").write_bytes(b"\xff\xfe")
        listed = {each["name"]: each for each in client.get("/v1/lists").json()["lists"]}
        assert listed["banned"]["n_items"] == 1
        assert listed["never"]["n_items"] == 0
        assert all("cannot be read" in listed[name]["error"] for name in ("banned", "never"))
        file.write_text("cup\n")
        (folder / "lists" / "never.txt").unlink()
        assert "cup" not in items(service, ["tea"], deny_lists=["banned"])
        client.get("/v1/lists")
        file.unlink()
        assert "never" not in str(client.get("/v1/lists").json())


def test_what_is_wrong_with_a_file_of_a_list_names_no_folder_and_can_be_put_right(service, folder):
    lists = folder / "lists"
    (lists / "spoilt.txt").write_bytes(b"\xff\xfe")
    (lists / "heap.txt" / "inside").mkdir(parents=True)
    with service.client() as client:
        asked = {"histories": [["tea"]], "deny_lists": ["spoilt"]}
        refused = client.post("/v1/recall", json=asked)
        written = client.put("/v1/lists/heap", json=["tea"])
        kept = client.delete("/v1/lists/heap")
        assert [each.status_code for each in (refused, written, kept)] == [503, 503, 422]
        assert refused.json()["error"]["code"] == "list_unreadable"
        assert written.json()["error"]["code"] == "list_not_written"
        for said in (refused.text, written.text, kept.text, client.get("/v1/lists").text):
            assert "spoilt.txt" in said or "heap.txt" in said
            assert str(folder) not in said
        assert client.delete("/v1/lists/spoilt").status_code == 200
        assert client.put("/v1/lists/spoilt", json=["cup"]).status_code == 200
        assert "cup" not in items(service, ["tea"], deny_lists=["spoilt"])
        (lists / "heap.txt" / "inside").rmdir()
        (lists / "heap.txt").rmdir()
        client.delete("/v1/lists/spoilt")


@pytest.mark.parametrize(
    ("options", "status", "code", "sentence"),
    [
        ({"filter": {"size": "L"}}, 422, "invalid_request", "no attribute is called 'size'"),
        ({"filter": {"brand": "X"}}, 422, "invalid_request", "no brand is called 'X'"),
        ({"filter": {"and": 5}}, 422, "invalid_request", "needs a list of filters"),
        ({"filter": "brand"}, 422, "invalid_request", "filter"),
        ({"max_per": {"size": 1}}, 422, "invalid_request", "no attribute is called 'size'"),
        ({"max_per": {"brand": 0}}, 422, "invalid_request", "max_per.brand"),
        ({"diversity": 2}, 422, "invalid_request", "diversity"),
        ({"interests": 21}, 422, "invalid_request", "interests"),
        ({"interests": 20}, 422, "variety_limit", "at most 50"),
        ({"min_score": "low"}, 422, "invalid_request", "min_score"),
        ({"allow_lists": ["nowhere"]}, 404, "no_such_list", "no list 'nowhere'"),
        ({"deny_lists": ["../x"]}, 422, "invalid_request", "letters, digits"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(service, options, status, code, sentence):
    body = {"histories": [["tea"]], **options}
    answer = httpx.post(f"{service.address}/v1/recall", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code)
    assert sentence in error["message"]
    assert "\n" not in error["message"]


@pytest.mark.parametrize(
    ("name", "content", "status", "sentence"),
    [
        ("large", json.dumps(["x" * 3000]), 413, "larger than 2000 bytes"),
        ("bad", '{"a": 1}', 422, "must be a JSON list of item ids"),
        ("bad", "[1.5]", 422, "must be a JSON list of item ids"),
        ("bad", "[", 422, "the body is not JSON"),
        ("a.b", "[]", 422, "letters, digits"),
    ],
)
def test_a_bad_list_is_refused_and_nothing_is_kept(service, name, content, status, sentence):
    answer = httpx.put(f"{service.address}/v1/lists/{name}", content=content)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]["message"]
    names = [each["name"] for each in httpx.get(f"{service.address}/v1/lists").json()["lists"]]
    assert name not in names


def test_the_command_has_the_options_of_the_service(service, folder, groupnoise):
    log, stock = folder / "clicks.csv", folder / "stock.txt"
    log.write_text("user,item,time\nann,tea,1\nann,hammer,2\n")
    stock.write_text("cup\nnail\nsaw\n")
    output = folder / "out.jsonl"
    options = {
        "filter": {"not": {"brand": "Core"}},
        "max_per": {"brand": 2},
        "diversity": 0.2,
        "min_score": -50.0,
        "interests": 2,
        "top": 2,
    }
    code, _, said = groupnoise(
        "recall", folder / "artifact", "--histories", log, "--output", output, "--quiet",
        "--filter", json.dumps(options["filter"]), "--allow", stock, "--max-per", "brand=2",
        "--diversity", 0.2, "--min-score", -50, "--interests", 2, "--top", 2,
    )  # fmt: skip
    assert code == 0, said
    httpx.put(f"{service.address}/v1/lists/stock", json=stock.read_text().split())
    answer = service.recall([["tea", "hammer"]], allow_lists=["stock"], **options)
    expected = answer["results"][0]["items"]
    row = json.loads(output.read_text())
    assert row["items"] == [item["item"] for item in expected]
    assert row["clicks"] == [item["click"] for item in expected]
    for wrong, sentence in (
        (("--filter", "{"), "--filter is not JSON"),
        (("--filter", "brand=Acme"), """as in --filter '{"brand": "Acme"}'."""),
        (("--max-per", "brand"), "--max-per is written ATTRIBUTE=COUNT"),
        (("--allow", folder / "none.txt"), "cannot be read as lines of item ids"),
    ):
        code, _, said = groupnoise(
            "recall", folder / "artifact", "--histories", log, "--output", folder / "x.csv", *wrong
        )
        assert code == 2
        assert sentence in " ".join(said.split())
