"""A service over a registry: it follows promotions, and gives some users another version."""

import shutil
import time

import pytest

from groupnoise.exceptions import ModelFileError, ParameterError
from groupnoise.recall import Registry, open_artifact
from groupnoise.recall.http import ServiceSettings, create_app
from groupnoise.recall.http.settings import Canary
from groupnoise.recall.reference import add_reference
from serving_support import WATCH_SECONDS, add, running_service, write_shop


@pytest.fixture
def registry(tmp_path):
    return Registry.create(tmp_path / "shop")


def wait_for(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_service_follows_what_is_promoted_and_keeps_the_old_where_it_is_damaged(
    registry, tmp_path
):
    first, second, third = (add(registry, scale) for scale in (1, 2, 3))
    registry.promote(first)
    with running_service(tmp_path, registry.path) as service:

        def version():
            return service.recall([["tea"]])["version"]

        assert version() == first
        registry.promote(second)
        wait_for(lambda: version() == second)
        registry.rollback()
        wait_for(lambda: version() == first)
        registry.promote(third)
        wait_for(lambda: version() == third)
        registry.promote(first)
        wait_for(lambda: version() == first)
        registry.promote(second)
        wait_for(lambda: version() == second)
        (path,) = (registry.path / first).glob("target_vectors-*.npy")
        path.write_bytes(path.read_bytes()[:-1] + b"\x01")
        pointer = registry.path / "registry.json"
        staged = pointer.with_name("staged")
        staged.write_text(pointer.read_text().replace(second, first))
        staged.replace(pointer)

        def refused():
            return [line for line in service.log_lines() if line["event"] == "reload_refused"]

        wait_for(refused)
        assert version() == second
        time.sleep(10 * WATCH_SECONDS)
        assert len(refused()) == 1, "what was refused is not tried at every look"


def test_some_users_get_the_canary_and_everything_says_which_version(registry, tmp_path):
    first, second = add(registry, 1), add(registry, 2)
    registry.promote(first)
    with running_service(tmp_path, registry.path, canary=f"{second[:6]}=30%") as service:
        with service.client() as client:

            def version(user):
                body = {"histories": [["tea", "nobody"]], "user": user}
                return client.post("/v1/recall", json=body).json()["version"]

            given = [version(f"user {number}") for number in range(200)]
            assert 30 < given.count(second) < 90
            assert given.count(first) + given.count(second) == 200
            assert [version(f"user {number}") for number in range(200)] == given
            assert version(None) == first
            assert client.get("/v1/similar/tea").json()["version"] == first
            described = client.get("/v1/model").json()
            assert described["canary"]["version"] == second
            metrics = client.get("/metrics").text
        n_canary = 2 * given.count(second)
        assert f'groupnoise_unknown_items_total{{version="{second}"}} {n_canary}.0' in metrics
        recalls = f'groupnoise_requests_total{{route="/v1/recall",status="200",version="{second}"}}'
        assert f"{recalls} {n_canary}.0" in metrics
        assert f'_count{{route="/v1/similar/{{item:path}}",version="{first}"}} 1.0' in metrics
        lines = [line for line in service.log_lines() if line.get("path") == "/v1/recall"]
        assert [line["version"] for line in lines[:200]] == given


def test_a_shift_of_what_is_asked_shows_in_the_metrics(tmp_path):
    artifact = write_shop(tmp_path / "a")
    add_reference(artifact, [["tea"], ["cup"], ["hammer"]] * 50)
    with running_service(tmp_path, artifact) as service:
        version = service.recall([["nail", "spoon"]] * 250)["version"]
        metrics = service.get("/metrics").text
    for of in ("popularity", "score"):
        (line,) = (
            line
            for line in metrics.splitlines()
            if line.startswith(f'groupnoise_drift{{of="{of}",version="{version}"}}')
        )
        assert float(line.split()[-1]) > 0.25


@pytest.mark.parametrize(
    "word", ["3f9a", "3f9a=0%", "3f9a=1", "3f9a=101%", "3f9a=x", "=5%", "../a=5%"]
)
def test_what_is_no_canary_is_refused(word):
    with pytest.raises(ParameterError, match="such as 3f9a=5%"):
        Canary.parse(word)


def test_the_share_of_a_canary_is_exact_over_many_users():
    taken = sum(Canary("3f9a", 0.05).takes(user) for user in range(20_000))
    assert 880 < taken < 1120


def test_a_canary_needs_a_registry_that_has_it(registry, tmp_path):
    with pytest.raises(ParameterError, match="is no registry"):
        create_app(ServiceSettings(artifact=write_shop(tmp_path / "a"), canary="3f9a=5%"))
    with pytest.raises(ModelFileError, match="nothing is promoted"):
        create_app(ServiceSettings(artifact=registry.path))
    registry.promote(add(registry, 1))
    with pytest.raises(ParameterError, match="no version begins"):
        create_app(ServiceSettings(artifact=registry.path, canary="000000000000=5%"))


def test_who_asks_must_be_an_id(registry, tmp_path):
    with running_service(tmp_path, write_shop(tmp_path / "a")) as service:
        body = {"histories": [["tea"]], "user": ["a"]}
        answer = service.post("/v1/recall", body)
        assert answer.status_code == 422
        assert "user" in answer.json()["error"]["message"]


def test_a_canary_that_was_pruned_does_not_hold_up_promotions(registry, tmp_path):
    first, second, canary = (add(registry, scale) for scale in (1, 2, 3))
    registry.promote(first)
    with running_service(tmp_path, registry.path, canary=f"{canary[:6]}=30%") as service:
        shutil.rmtree(registry.path / canary)
        registry.promote(second)
        wait_for(lambda: service.recall([["tea"]])["version"] == second)
        assert service.get("/v1/model").json()["canary"]["version"] == canary


def test_a_model_of_other_items_is_told_of(registry, tmp_path):
    ours = add(registry, 1)
    with registry.adding() as folder:
        write_shop(folder, ids=[f"x{number}" for number in range(6)])
        theirs = open_artifact(folder).version
    registry.promote(ours)
    beside = {"compare": registry.path, "canary": f"{theirs}=30%"}
    with running_service(tmp_path, registry.path, **beside) as service:
        registry.promote(theirs)
        wait_for(lambda: service.recall([["tea"]])["version"] == theirs)
        said = [(line["event"], line["model"]) for line in service.log_lines() if "model" in line]
    assert said[:2] == [("same_model", "compare"), ("foreign_items", "canary")]
    assert ("foreign_items", "main") in said
    assert ("same_model", "canary") in said
