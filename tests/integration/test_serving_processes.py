"""Several processes behind one socket are one service: real processes, sockets and signals."""

import os
import re
import shutil
import signal
import time
from pathlib import Path

import httpx
import pytest

from groupnoise.exceptions import ParameterError
from groupnoise.recall import Registry, open_artifact
from groupnoise.recall.http import Limits, ServiceSettings
from serving_support import Client, running_service, write_random, write_shop

pytestmark = pytest.mark.slow  # each test starts three processes


def workers_of(service):
    """Return the processes that a service started."""
    children = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children")
    return [int(word) for word in children.read_text().split()]


def wait_until(condition, seconds=30.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def count(service, name):
    text = service.get("/metrics").text
    found = re.findall(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def service(folder):
    with running_service(folder, write_shop(folder / "a"), processes=2) as running:
        yield running


def ask_all(service, n=40):
    """Ask over connections of their own, so that every process has its part."""
    return [service.recall([["tea"]], top=1) for _ in range(n)]


def test_every_process_answers_and_counts_are_summed(service):
    assert len(workers_of(service)) == 2
    before = count(service, "groupnoise_history_items_total")
    answers = ask_all(service)
    assert {answer["results"][0]["items"][0]["item"] for answer in answers} == {"cup"}
    wait_until(lambda: count(service, "groupnoise_history_items_total") == before + len(answers))


def test_the_artifact_is_mapped_by_all(service, folder):
    for worker in workers_of(service):
        mapped = Path(f"/proc/{worker}/maps").read_text()
        assert f"{folder / 'a'}/target_vectors-" in mapped


def test_a_list_that_one_process_was_given_is_seen_by_all(service):
    with service.client() as client:
        for items in (["cup"], ["cup", "spoon"], []):
            assert client.put("/v1/lists/gone", json=items).status_code == 200
            for _ in range(20):
                answer = service.recall([["tea"]], top=5, deny_lists=["gone"])
                shown = {item["item"] for item in answer["results"][0]["items"]}
                assert not shown & set(items)


def test_a_reload_reaches_all_of_them_or_none(folder):
    artifact = write_shop(folder / "reloaded")
    with running_service(folder, artifact, processes=2) as service, service.client() as client:
        before = {answer["version"] for answer in ask_all(service)}
        write_shop(artifact, popularity=[1, 2, 3, 4, 5, 6])
        switched = client.post("/v1/model/reload").json()["main"]
        assert {switched["before"]} == before
        assert {answer["version"] for answer in ask_all(service)} == {switched["after"]} != before
        vectors = next(artifact.glob("ids-*.npy"))
        kept = vectors.with_suffix(".kept")
        kept.write_bytes(vectors.read_bytes())
        kept.replace(vectors)  # what is mapped stays as it is
        with vectors.open("ab") as stream:
            stream.write(b"more")
        assert client.post("/v1/model/reload").status_code == 409
        assert {answer["version"] for answer in ask_all(service)} == {switched["after"]}
        text = client.get("/metrics").text
        label = f'version="{switched["after"]}"'
        assert f'groupnoise_reloads_total{{outcome="switched",{label}}} 1.0' in text
        assert f'groupnoise_reloads_total{{outcome="refused",{label}}} 1.0' in text


def test_a_promotion_reaches_all_of_them(folder):
    registry = Registry.create(folder / "registry")
    versions = []
    for popularity in ([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]):
        with registry.adding() as place:
            write_shop(place, popularity=popularity)
            versions.append(open_artifact(place).version)
    registry.promote(versions[0])
    with running_service(folder, folder / "registry", processes=2) as service:
        assert {answer["version"] for answer in ask_all(service)} == {versions[0]}
        registry.promote(versions[1])
        wait_until(lambda: {each["version"] for each in ask_all(service, 10)} == {versions[1]})


def test_a_killed_process_is_replaced_while_the_others_answer(folder):
    artifact = write_random(folder / "killed", 2_000)
    with running_service(folder, artifact, processes=2) as service:
        victim, other = workers_of(service)
        ask_all_random(service)
        os.kill(victim, signal.SIGKILL)
        n_lost = 0
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            try:
                service.recall([[1, 2, 3]])
            except httpx.TransportError:
                n_lost += 1  # at most what the killed process had accepted
        assert n_lost <= 1
        wait_until(lambda: len(workers_of(service)) == 2 and victim not in workers_of(service))
        assert other in workers_of(service)
        wait_until(lambda: count(service, "groupnoise_lost_processes_total") == 1)
        assert [line["pid"] for line in service.log_lines() if line["event"] == "process_lost"] == [
            victim
        ]


def test_a_process_is_replaced_though_the_canary_was_pruned_and_all_answer_alike(folder):
    registry = Registry.create(folder / "canaries")
    versions = []
    for popularity in ([1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]):
        with registry.adding() as place:
            write_shop(place, popularity=popularity)
            versions.append(open_artifact(place).version)
    registry.promote(versions[0])

    def answering(service):
        return {service.recall([["tea"]], top=1, user=1)["version"] for _ in range(10)}

    words = {"canary": f"{versions[1][:6]}=100%", "processes": 2}
    with running_service(folder, folder / "canaries", **words) as service:
        assert answering(service) == {versions[1]}
        shutil.rmtree(folder / "canaries" / versions[1])
        assert answering(service) == {versions[1]}  # it stays in memory
        victim = workers_of(service)[0]
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: answering(service) == {versions[0]})
        wait_until(lambda: len(workers_of(service)) == 2 and victim not in workers_of(service))
        assert answering(service) == {versions[0]}
        (lost,) = [line for line in service.log_lines() if line["event"] == "canary_lost"]
        assert versions[1] in lost["reason"]
        # The next is replaced without asking for it again.
        os.kill(workers_of(service)[0], signal.SIGKILL)
        wait_until(lambda: count(service, "groupnoise_lost_processes_total") == 2)
        wait_until(lambda: len(workers_of(service)) == 2)
        assert service.get("/v1/model").json()["canary"] is None


def ask_all_random(service):
    for _ in range(10):
        service.recall([[1, 2, 3]])


def test_a_process_that_is_asked_to_end_leaves_newcomers_to_the_others(folder):
    with running_service(folder, write_shop(folder / "ended"), processes=2) as service:
        os.kill(workers_of(service)[0], signal.SIGTERM)
        for _ in range(200):
            service.recall([["tea"]])


@pytest.mark.parametrize("keeps_connection", [True, False])
def test_a_stop_under_load_resets_no_request(folder, keeps_connection):
    artifact = write_random(folder / f"stopped-{keeps_connection}", 3_000)
    with running_service(folder, artifact, processes=2) as service:
        clients = [Client(service.address, keeps_connection) for _ in range(8)]
        for client in clients:
            client.start()
        wait_until(lambda: sum(client.n_answered for client in clients) >= 200)
        workers = workers_of(service)
        service.process.send_signal(signal.SIGTERM)
        for client in clients:
            client.join(timeout=30)
            client.is_ended = True
        assert [client.lost for client in clients if client.lost] == []
        assert service.process.wait(timeout=20) in (0, -signal.SIGTERM)
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def test_no_process_outlives_the_one_that_started_it(folder):
    with running_service(folder, write_shop(folder / "orphans"), processes=2) as service:
        workers = workers_of(service)
        service.process.kill()
        service.process.wait(timeout=10)
        wait_until(lambda: not any(is_running(worker) for worker in workers))


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"  # ended, and nobody has asked how


def test_feedback_is_kept_by_every_process(folder):
    told = folder / "told"
    with running_service(
        folder, write_shop(folder / "feedback"), processes=2, feedback=told
    ) as service:
        for number in range(30):
            body = {"request_id": f"r{number}", "user": "u", "shown": ["tea", "cup"]}
            answer = service.post("/v1/feedback", body)
            assert answer.status_code == 200, answer.text
        wait_until(lambda: count(service, "groupnoise_impressions_total") == 60)
    rows = [line for path in told.iterdir() for line in path.read_text().splitlines()]
    assert len(rows) == 60


def test_an_artifact_that_no_process_can_open_ends_the_start_in_one_sentence(folder):
    artifact = write_shop(folder / "broken")
    next(artifact.glob("ids-*.npy")).unlink()
    with (
        pytest.raises(AssertionError, match=r"ids-.*is missing"),
        running_service(folder, artifact, processes=2),
    ):
        pass


def test_processes_are_counted_from_one():
    with pytest.raises(ParameterError, match="processes must be"):
        ServiceSettings(artifact=Path("a"), processes=0)


def test_settings_are_handed_on_as_they_are():
    settings = ServiceSettings(
        artifact=Path("a"), lists=Path("b"), token="t", limits=Limits(top=3), processes=2
    )
    assert ServiceSettings.from_record(settings.as_record()) == settings
