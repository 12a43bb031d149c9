"""`groupnoise push` and `pull` against a small hub of our own, over a socket."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

from groupnoise.recall import open_artifact
from groupnoise.recall.hub import model_card
from serving_support import write_shop

pytest.importorskip("huggingface_hub", reason="the extra hub is not installed")

COMMIT = "c" * 40


class Hub(ThreadingHTTPServer):
    """Keeps the files of repositories as the routes of a hub send and ask for them."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        self.repositories: dict[str, dict[str, bytes]] = {}
        self.private: dict[str, bool] = {}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def answer(self, value, status=200, **headers):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), text)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_POST(self):
        path, body = urlsplit(self.path).path, self.body()
        hub = self.server
        if self.headers.get("Authorization") != "Bearer hf_key":
            self.answer({"error": "no key"}, 401)
        elif path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            hub.repositories.setdefault(name, {"old.npy": b"stale", "notes.txt": b"kept"})
            hub.private[name] = asked.get("private") or asked.get("visibility") == "private"
            self.answer({"url": f"{hub.address}/{name}", "name": name, "id": name})
        elif path == "/api/validate-yaml":
            self.answer({"errors": [], "warnings": []})
        elif found := re.fullmatch(r"/api/models/(.+)/preupload/main", path):
            files = json.loads(body)["files"]
            modes = [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in files
            ]
            self.answer({"files": modes})
        elif found := re.fullmatch(r"/api/models/(.+)/commit/main", path):
            files = hub.repositories[found[1]]
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
                if line["key"] == "deletedFile":
                    del files[line["value"]["path"]]
            url = f"{hub.address}/{found[1]}/commit/{COMMIT}"
            self.answer({"success": True, "commitUrl": url, "commitOid": COMMIT})
        else:
            self.answer({"error": f"no route {path}"}, 404)

    def do_GET(self):
        path = unquote(urlsplit(self.path).path)
        repositories = self.server.repositories
        if found := re.fullmatch(r"/api/models/(.+)/tree/[^/]+", path):
            files = repositories[found[1]]
            listed = [
                {"type": "file", "path": name, "size": len(data), "oid": _tag(data)}
                for name, data in files.items()
            ]
            self.answer(listed)
        elif (found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(/revision/.+)?", path)) and (
            found[1] in repositories
        ):
            names = [{"rfilename": name} for name in repositories[found[1]]]
            self.answer({"id": found[1], "sha": COMMIT, "siblings": names, "tags": []})
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/[^/]+/(.+)", path):
            data = repositories[found[1]][found[2]]
            self.answer(data, ETag=f'"{_tag(data)}"', X_Repo_Commit=COMMIT)
        else:
            self.answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")

    do_HEAD = do_GET


def _tag(data):
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


@pytest.fixture
def hub():
    server = Hub()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def run(hub, tmp_path, *words, key="hf_key"):
    return subprocess.run(
        [sys.executable, "-m", "groupnoise", *map(str, words)],
        env={
            **os.environ,
            "HF_ENDPOINT": hub.address,
            "HF_TOKEN": key,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_OFFLINE": "0",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.slow
def test_what_is_pushed_is_pulled_and_answers_alike(hub, tmp_path):
    write_shop(tmp_path / "shop")
    sent = run(hub, tmp_path, "push", tmp_path / "shop", "own/shop")
    assert sent.returncode == 0, sent.stderr
    assert COMMIT in sent.stdout
    files = hub.repositories["own/shop"]
    assert hub.private["own/shop"]
    assert b"library_name: groupnoise" in files["README.md"]
    assert "old.npy" not in files  # of the artifact before
    assert files["notes.txt"] == b"kept"
    # What is no part of an artifact stays where it is, whatever it may be.
    files["model.pkl"] = b"cos\nsystem\n(S'false'\ntR."
    got = run(hub, tmp_path, "pull", "own/shop", tmp_path / "pulled")
    assert got.returncode == 0, got.stderr
    assert not (tmp_path / "pulled" / "model.pkl").exists()
    own, pulled = open_artifact(tmp_path / "shop"), open_artifact(tmp_path / "pulled")
    assert pulled.version == own.version
    assert pulled.recall([["tea"]]).positions.tolist() == own.recall([["tea"]]).positions.tolist()

    # A damaged file is refused, and what was there stays.
    name = next(name for name in files if name.startswith("target_vectors"))
    files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])
    again = run(hub, tmp_path, "pull", "own/shop", tmp_path / "pulled")
    assert again.returncode == 2
    assert "Traceback" not in again.stderr
    assert open_artifact(tmp_path / "pulled", memory_map=False).version == own.version
    assert not list(tmp_path.glob("pulled.tmp-*"))


@pytest.mark.slow
def test_what_a_hub_refuses_is_one_sentence(hub, tmp_path):
    write_shop(tmp_path / "shop")
    for words, key, sentence in [
        (["push", tmp_path / "shop", "own/shop"], "wrong", "HF_TOKEN"),
        (["pull", "own/nothing", tmp_path / "out"], "hf_key", "did not give or take own/nothing"),
        (["push", tmp_path / "shop", "a b c"], "hf_key", "names no repository"),
    ]:
        refused = run(hub, tmp_path, *words, key=key)
        assert refused.returncode == 2, refused.stderr
        assert sentence in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("out*"))
    hub.address = "http://127.0.0.1:9"  # where nobody listens
    refused = run(hub, tmp_path, "push", tmp_path / "shop", "own/shop")
    assert refused.returncode == 2, refused.stderr
    assert "did not give or take own/shop" in refused.stderr


def test_the_card_says_what_the_exporter_said_and_cannot_be_broken_by_it(tmp_path):
    strange = {"name": "A\n---\n# <script>", "metrics": {"hit@10 |": 0.5}, "data": ["a", "b"]}
    model = open_artifact(write_shop(tmp_path / "shop", card=strange))
    lines = model_card(model, "own/shop").splitlines()
    assert lines.count("---") == 2
    assert "# A --- # &lt;script>" in lines
    assert "| hit@10 \\| | 0.5 |" in lines
    assert '- data: ["a", "b"]' in lines
