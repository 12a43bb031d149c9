"""The desk over a real socket, killed between two answers, and in a real browser."""

import contextlib
import csv
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time

import httpx
import pytest

pytest.importorskip("fastapi")

TABLE = """text,ann_1,ann_2
red apple,fruit,fruit
green pea,fruit,plant
old oak,plant,plant
<b>fig</b>,plant,fruit
"""


@contextlib.contextmanager
def desk_at(folder, *words, data="rows.csv", port="0"):
    """A desk in a process of its own; yields its address and process id."""
    command = [sys.executable, "-m", "groupnoise", "review", data, "--port", port, *words]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment,
    ) as process:  # fmt: skip
        try:
            for line in process.stdout:
                if line.startswith("listening on "):
                    yield line.split()[-1], process
                    break
            else:
                raise AssertionError(process.stderr.read())
        finally:
            process.kill()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("desk")
    (place / "rows.csv").write_text(TABLE)
    return place


@pytest.mark.slow
def test_answers_survive_a_kill_between_two_of_them(folder):
    answers = ("--answers", "killed.jsonl")
    with desk_at(folder, *answers) as (address, process), httpx.Client(base_url=address) as client:
        first = client.get("/v1/next", params={"who": "ann"}).json()["next"]
        given = {"row": first["row"], "who": "ann", "label": "fruit", "note": "ü"}
        assert client.post("/v1/answer", json=given).json()["kept"]
        process.send_signal(signal.SIGKILL)
        process.wait()
    with desk_at(folder, *answers) as (address, process), httpx.Client(base_url=address) as client:
        assert client.get("/v1/progress").json()["answered"] == 1
        second = client.get("/v1/next", params={"who": "ann"}).json()["next"]
        assert second["row"] != first["row"]
        exported = list(csv.DictReader(io.StringIO(client.get("/v1/export").text)))
        assert exported[first["row"]]["label"] == "fruit"
        assert exported[first["row"]]["note"] == "ü"
        other = client.get("/v1/next", params={"who": "bob"}).json()["next"]
        stolen = {"row": other["row"], "who": "ann", "label": "fruit"}
        assert client.post("/v1/answer", json=stolen).status_code == 409
        again = client.get("/v1/progress").json()  # what was learned ended with the process
        assert again["learning"] or again["learned"] == 1
        # Bounds and foreign pages.
        huge = {**stolen, "who": "bob", "note": "n" * 20_000}
        assert client.post("/v1/answer", json=huge).status_code == 413
        assert client.post("/v1/answer", json={**stolen, "label": 3}).status_code == 422
        broken = client.post(
            "/v1/answer", content=b"{row", headers={"content-type": "application/json"}
        )
        assert "it is no JSON from this character on" in broken.json()["error"]["message"]
        foreign = client.get("/v1/progress", headers={"Origin": "https://elsewhere.example"})
        assert foreign.status_code == 403
        client.close()
        process.send_signal(signal.SIGTERM)
        assert "1 of 4 answered, kept in killed.jsonl" in process.stdout.read()
        assert process.wait(timeout=20) == 0


@pytest.mark.slow
def test_other_machines_need_a_token_and_a_port_that_is_taken_is_told_at_once(folder):
    command = [sys.executable, "-m", "groupnoise", "review", "rows.csv", "--host", "0.0.0.0"]
    command += ["--answers", "refused.jsonl"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "needs a token" in ended.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        command[-4:] = ["--port", str(taken.getsockname()[1])]
        ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "give another one with --port" in ended.stderr
    assert "note" not in ended.stderr  # before anything long begins


@pytest.mark.slow
@pytest.mark.browser
def test_a_person_answers_by_keyboard_alone_in_two_tabs(folder, browser):
    asked = []
    with desk_at(folder, "--answers", "browser.jsonl") as (address, process):
        tabs = []
        for _ in range(2):
            context = browser.new_context(
                viewport={"width": 360, "height": 640}, color_scheme="dark"
            )
            page = context.new_page()
            page.on("request", lambda request: asked.append(request.url))
            page.goto(address)
            page.wait_for_selector("#named button")
            tabs.append(page)
        first, second = (page.inner_text("#cells") for page in tabs)
        assert first != second
        tabs[0].keyboard.press("n")
        tabs[0].keyboard.type("1 s u")  # keys of the note choose nothing
        tabs[0].keyboard.press("Enter")
        tabs[0].keyboard.press("1")
        tabs[0].wait_for_selector("#progress:has-text('1 of 4 answered')")
        tabs[0].keyboard.press("u")
        tabs[0].wait_for_selector("#progress:has-text('0 of 4 answered')")
        assert tabs[0].inner_text("#cells") == first
        assert tabs[0].input_value("#note") == "1 s u"  # what was written is not lost
        shown = [tabs[0].evaluate(f"percent({weight})") for weight in (1, 0.9999, 0.4, 0.0001, 0)]
        assert shown == ["100 %", "> 99 %", "40 %", "< 1 %", "0 %"]
        tabs[0].keyboard.press("s")
        tabs[0].wait_for_selector("#progress:has-text('1 skipped')")
        assert tabs[0].evaluate("document.querySelector('#cells b')") is None
        width = tabs[0].evaluate("document.documentElement.scrollWidth")
        assert width <= 360
        letters = tabs[0].evaluate("getComputedStyle(document.body).color")
        assert min(map(int, re.findall(r"\d+", letters)[:3])) > 200  # light on dark
        process.kill()
        process.wait()
        tabs[0].keyboard.press("1")
        tabs[0].wait_for_selector("#trouble:not([hidden])")
        assert "sent again until it is back" in tabs[0].inner_text("#trouble")
        port = address.rsplit(":", 1)[1]
        with desk_at(folder, "--answers", "browser.jsonl", port=port):
            tabs[0].wait_for_selector("#progress:has-text('1 of 4 answered')")
            assert tabs[0].is_hidden("#trouble")
            tabs[0].keyboard.press("l")
            tabs[0].wait_for_selector("#progress:has-text('learned from 1')")
            tabs[0].fill("#name", "Ann")
            tabs[0].keyboard.press("Enter")
            with tabs[0].expect_download() as saved:
                tabs[0].keyboard.press("e")
            assert "label" in saved.value.path().read_text().splitlines()[0]
    assert all(url.startswith((address, "blob:")) for url in asked)
    events = [json.loads(line) for line in (folder / "browser.jsonl").read_text().splitlines()]
    labels = [event.get("label", "undone") for event in events[1:]]
    assert labels[1:3] == ["undone", None]
    assert len(labels) == 4  # the answer of the lost connection was kept once
    assert events[1]["note"] == "1 s u"


@pytest.mark.slow
@pytest.mark.browser
def test_an_undo_whose_answer_was_lost_is_not_done_twice(folder, browser):
    with desk_at(folder, "--answers", "undone.jsonl") as (address, _):
        page = browser.new_context().new_page()
        page.goto(address)
        page.wait_for_selector("#named button")
        for done in (1, 2):
            page.keyboard.press("1")
            page.wait_for_selector(f"#progress:has-text('{done} of 4 answered')")

        def lose(route):
            route.fetch()  # the desk hears it, the page does not hear the desk
            route.abort()

        page.route("**/v1/undo", lose)
        page.keyboard.press("u")
        page.wait_for_selector("#progress:has-text('1 of 4 answered')")
        page.wait_for_selector("#trouble:has-text('look whether')")
        assert httpx.get(f"{address}/v1/progress").json()["answered"] == 1


BAGS = ["bag,label,picture,size"] + [
    f"b{bag},{['no', 'yes'][bag % 2]},p{row % 2}.png,{3 * (bag % 2 and row == 0) + row / 9:.2f}"
    for bag in range(10)
    for row in range(3)
]


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("kind", ["rows", "bags"])
def test_pictures_are_shown_of_rows_and_of_the_objects_of_bags(kind, browser, tmp_path):
    image = pytest.importorskip("PIL.Image")
    for name, colour in (("p0.png", "red"), ("p1.png", "blue")):
        image.new("RGB", (40, 30), colour).save(tmp_path / name)
    words = ()
    if kind == "rows":
        table = "picture,ann_1,ann_2\np0.png,red,red\np1.png,red,blue\n../rows.csv,red,red\n"
        words = ("--images", "picture")
    else:
        table = "\n".join(BAGS)
        words = ("--setting", "mil", "--group", "bag", "--label", "label", "--budget", "1s")
    (tmp_path / "rows.csv").write_text(table)
    asked = []
    with desk_at(tmp_path, *words) as (address, _):
        page = browser.new_context(viewport={"width": 360, "height": 640}).new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        where = "#pictures img" if kind == "rows" else "#named button img"
        # The page forbids evaluated strings to itself, so it is asked from outside.
        shown = f"[...document.querySelectorAll('{where}')].some(i => i.naturalWidth === 40)"
        deadline = time.monotonic() + 20
        while not page.evaluate(shown) and time.monotonic() < deadline:
            page.wait_for_timeout(50)
        assert page.evaluate(shown)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        if kind == "bags":
            assert page.inner_text("#ask") == "Which of these objects carries yes?"
            assert "none of them" in page.inner_text("#named")
        page.keyboard.press("1")
        page.wait_for_selector("#progress:has-text('1 of')")
        with httpx.Client(base_url=address) as client:
            exported = list(csv.DictReader(io.StringIO(client.get("/v1/export").text)))
            assert sum(bool(line["answered_by"]) for line in exported) == 1
            statuses = {client.get(f"/v1/picture/{row}/0").status_code for row in (2, 99)}
            assert statuses == ({404} if kind == "rows" else {200, 404})
            assert client.get("/v1/picture/0/0").headers["content-type"] == "image/png"
    assert all(url.startswith((address, "data:")) for url in asked)


@pytest.mark.slow
@pytest.mark.browser
def test_two_people_go_on_with_bags_after_a_kill_while_the_desk_learned(browser, tmp_path):
    """Answered while it learns, killed while it learns, and learned from when it is back."""
    (tmp_path / "rows.csv").write_text("\n".join(BAGS).replace(".png", ""))
    words = ("--setting", "mil", "--group", "bag", "--label", "label", "--budget", "1s")
    with desk_at(tmp_path, *words) as (address, process):
        tabs = []
        for _ in range(2):
            context = browser.new_context(
                viewport={"width": 360, "height": 640}, color_scheme="dark"
            )
            page = context.new_page()
            page.goto(address)
            page.wait_for_selector("#named button")
            tabs.append(page)
        shown = [page.inner_text("#cells") for page in tabs]
        assert shown[0] != shown[1]  # no bag is with two people
        tabs[0].keyboard.press("1")
        tabs[0].wait_for_selector("#progress:has-text('1 of 5 answered')")
        tabs[0].keyboard.press("l")
        tabs[0].wait_for_selector("#progress:has-text('learning')")
        assert tabs[0].is_disabled("#learn")
        tabs[0].keyboard.press("1")
        tabs[0].wait_for_selector("#progress:has-text('2 of 5 answered')")
        process.send_signal(signal.SIGKILL)
        process.wait()
        tabs[1].keyboard.press("2")
        tabs[1].wait_for_selector("#trouble:not([hidden])")
        with desk_at(tmp_path, *words, port=address.rsplit(":", 1)[1]):
            tabs[1].wait_for_selector("#progress:has-text('3 of 5 answered')")
            assert tabs[1].is_hidden("#trouble")
            # Nobody asks again: the desk learns from what it was told before, and pages look on.
            tabs[0].wait_for_selector("#progress:has-text('learned from 2')", timeout=60_000)
            for page in tabs:  # who had which row went with the process
                page.reload()
                page.wait_for_selector("#named button")
            tabs[0].keyboard.press("1")
            tabs[0].wait_for_selector("#cells:has-text('with other people')")
            last = tabs[1].inner_text("#cells")
            tabs[1].fill("#name", "Eve")
            with tabs[1].expect_response("**/v1/next*"):
                tabs[1].keyboard.press("Enter")
            assert tabs[1].inner_text("#cells") == last
            tabs[1].keyboard.press("1")
            tabs[1].wait_for_selector("#progress:has-text('5 of 5 answered')")
            # Who has nothing before them looks on by themselves.
            tabs[0].wait_for_selector("#cells:has-text('All rows are answered')")
            exported = list(csv.DictReader(io.StringIO(httpx.get(f"{address}/v1/export").text)))
    assert sum(line["answered_by"].startswith("Eve-") for line in exported) == 1
    assert all(line["object"] in ("0", "1", "2") for line in exported)
    assert {line["label"] for line in exported} == {"yes"}
