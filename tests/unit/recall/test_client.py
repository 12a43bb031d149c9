"""The clients against a real service, and against a server that fails as told."""

import asyncio
import os
import shutil
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from groupnoise.exceptions import DataError, ParameterError, ServiceError
from groupnoise.recall import AsyncClient, Client
from serving_support import running_service, write_shop

TOKEN = "a token of some length"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def service(folder):
    settings = {"token": TOKEN, "feedback": folder / "feedback"}
    with running_service(folder, write_shop(folder / "shop"), **settings) as running:
        yield running


@pytest.fixture
def failing():
    """A server that gives the answers it is told, and then a good one; it counts requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            server.n_requests += 1
            status = server.answers.pop(0) if server.answers else 200
            if status == "silence":
                threading.Event().wait(1.0)
                return
            if status == "reset":
                self.close_connection = True
                return
            body = b'{"results": [{"items": []}]}' if status == 200 else b"busy"
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 429:
                self.send_header("Retry-After", "0")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.n_requests, server.answers = 0, []
    server.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def ask(kind, address, histories, options=None, **settings):
    """Ask with the client of that kind."""
    if kind is Client:
        with Client(address, **settings) as client:
            return client.recall(histories, **(options or {}))

    async def asked():
        async with AsyncClient(address, **settings) as client:
            return await client.recall(histories, **(options or {}))

    return asyncio.run(asked())


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_gets_what_the_service_answers(service, kind):
    results = ask(kind, service.address, [["tea"], []], {"top": 2, "explain": True}, token=TOKEN)
    assert [item["item"] for item in results[0]["items"]] == ["cup", "spoon"]
    assert results[0]["items"][0]["matched"]["item"] == "tea"
    assert results[1]["source"] == "popularity"


def test_the_other_routes(service):
    with Client(service.address, token=TOKEN) as client:
        assert [item["item"] for item in client.similar("tea", top=1)] == ["cup"]
        described = client.model()

    async def asked():
        async with AsyncClient(service.address, token=TOKEN) as client:
            return await client.similar("tea", top=1), await client.model()

    similar, again = asyncio.run(asked())
    assert [item["item"] for item in similar] == ["cup"]
    assert described == again


def test_named_lists_are_put_asked_for_and_deleted(service):
    with Client(service.address, token=TOKEN) as client:
        assert client.put_list("stock", ["cup", "gone"]) == {
            "name": "stock", "n_items": 2, "n_known": 1,
        }  # fmt: skip
        answer = client.recall([["tea"]], allow_lists=["stock"])
        assert [item["item"] for item in answer[0]["items"]] == ["cup"]
        assert [each["name"] for each in client.lists()] == ["stock"]
        client.delete_list("stock")
        with pytest.raises(ServiceError, match="no list 'stock'") as caught:
            client.delete_list("stock")
        assert caught.value.status == 404
        with pytest.raises(DataError, match="ids must be a sequence of item ids; got 'cup'"):
            client.put_list("stock", "cup")
        with pytest.raises(ServiceError, match="letters, digits"):
            client.put_list("in stock", ["cup"])

    async def asked():
        async with AsyncClient(service.address, token=TOKEN) as client:
            put = await client.put_list("new", np.array([1, 2]))
            listed = await client.lists()
            await client.delete_list("new")
            return put, listed, await client.lists()

    put = {"name": "new", "n_items": 2, "n_known": 0}
    assert asyncio.run(asked()) == (put, [put], [])


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_many_requests_at_once_share_a_client(service, kind):
    if kind is Client:
        with Client(service.address, token=TOKEN) as client:
            found = []
            threads = [
                threading.Thread(target=lambda: found.append(client.recall([["tea"]], top=1)))
                for _ in range(16)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    else:

        async def asked():
            async with AsyncClient(service.address, token=TOKEN) as client:
                return await asyncio.gather(*(client.recall([["tea"]], top=1) for _ in range(16)))

        found = asyncio.run(asked())
    assert [results[0]["items"][0]["item"] for results in found] == ["cup"] * 16


@pytest.mark.parametrize("kind", [Client, AsyncClient])
@pytest.mark.parametrize("answers", [[503, 429], ["reset"], ["silence"]])
def test_what_may_pass_is_asked_again(failing, kind, answers):
    failing.answers = list(answers)
    assert ask(kind, failing.address, [["tea"]], timeout=0.3, backoff=0.01) == [{"items": []}]
    assert failing.n_requests == len(answers) + 1


def test_there_is_an_end_to_asking(failing):
    failing.answers = [503] * 9
    with pytest.raises(ServiceError, match=r"asked 3 times and answered 503: busy") as caught:
        ask(Client, failing.address, [["tea"]], retries=2, backoff=0.001)
    assert caught.value.status == 503
    assert failing.n_requests == 3


@pytest.mark.parametrize(
    ("settings", "options", "status", "sentence"),
    [
        ({}, {}, 401, "asked once and answered 401"),
        ({"token": TOKEN}, {"top": 0}, 422, "top"),
        ({"token": TOKEN}, {"no_such_option": 1}, 422, "no_such_option"),
    ],
)
def test_what_is_refused_is_not_asked_again(service, settings, options, status, sentence):
    with pytest.raises(ServiceError, match=sentence) as caught:
        ask(Client, service.address, [["tea"]], options, **settings)
    assert caught.value.status == status


def test_a_service_that_is_not_there_is_named_as_such():
    with pytest.raises(ServiceError, match="asked 2 times and did not answer") as caught:
        ask(Client, "http://127.0.0.1:9", [["tea"]], retries=1, backoff=0.001)
    assert caught.value.status is None


EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.mark.parametrize(
    ("program", "script"), [("curl", "recall.sh"), ("node", "recall.mjs")], ids=["curl", "node"]
)
def test_the_examples_in_other_languages_ask_the_service(service, program, script):
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    run = "bash" if program == "curl" else program
    answer = subprocess.run(
        [run, EXAMPLES / script, service.address, "tea"],
        env={**os.environ, "GROUPNOISE_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.index("cup") < answer.stdout.index("spoon")


def test_both_clients_tell_what_was_shown_and_clicked_of_an_answer(service, folder):
    with Client(service.address, token=TOKEN) as client:
        answer = client.recall([["tea"]], top=2)
        assert answer.version == client.model()["main"]["version"]
        shown = [item["item"] for item in answer[0]["items"]]
        assert client.feedback(answer, user="u1", shown=shown, clicked=shown[:1]) == 2
        with pytest.raises(ServiceError, match="not shown"):
            client.feedback(answer, user="u1", shown=shown[:1], clicked=["saw"])

    async def told():
        async with AsyncClient(service.address, token=TOKEN) as client:
            answer = await client.recall([["cup"]], top=1)
            return answer, await client.feedback(answer, user=7, shown=["tea"], propensity=[0.5])

    answer, n_rows = asyncio.run(told())
    assert n_rows == 1
    kept = "".join(path.read_text() for path in (folder / "feedback").iterdir())
    assert f'"request_id":"{answer.request_id}","version":"{answer.version}"' in kept


def test_what_is_no_history_is_refused_before_it_is_sent(service):
    with Client(service.address, token=TOKEN) as client:
        asked = client.recall([np.array(["tea"]), np.arange(2)], top=np.int64(2))
        assert asked[0]["items"][0]["item"] == "cup"
        assert asked[1]["unknown"] == [0, 1]
        for histories in (["tea", "cup"], "tea", [None]):
            with pytest.raises(DataError, match="sequence"):
                client.recall(histories)
        with pytest.raises(DataError, match="ids are whole numbers or text"):
            client.recall([[float("nan")]])
        with pytest.raises(DataError, match="shown must be a sequence of item ids; got 'tea'"):
            client.feedback(asked, user="u", shown="tea")
        with pytest.raises(ParameterError, match="as `recall` returned it; got a dict"):
            client.feedback(asked[0], user="u", shown=["tea"])


@pytest.mark.parametrize(
    ("address", "settings", "sentence"),
    [
        ("127.0.0.1:8000", {}, "begins with http://"),
        ("http://127.0.0.1", {"token": "ü"}, "ASCII"),
        ("http://127.0.0.1", {"timeout": -1}, "timeout"),
    ],
)
def test_a_client_that_could_never_ask_is_refused(address, settings, sentence):
    with pytest.raises(ParameterError, match=sentence):
        Client(address, **settings)
