"""Fetching from a real HTTP server on loopback that breaks off, stalls and lies."""

import hashlib
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from groupnoise.cli.data import data_app
from groupnoise.exceptions import DataError, MissingDataError, ParameterError
from groupnoise.io import fetch_dataset, registry as _registry
from groupnoise.io.registry import DataFile, find_dataset

pytest.importorskip("pooch")

CONTENT = bytes(range(256)) * 1200  # 300 kB, no two blocks of a transfer alike in place
CUT = 100_000


class Handler(BaseHTTPRequestHandler):
    """Serves CONTENT at any path; the first word of the path says how badly."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        behaviour = self.path.split("/")[1]
        self.server.requests[behaviour] += 1
        asked = self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        self.server.starts.append(start)
        self.close_connection = True
        getattr(self, f"send_{behaviour}")(start)

    def begin(self, start):
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        if start:
            last = len(CONTENT) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{len(CONTENT)}")
        self.end_headers()

    def send_well(self, start):
        self.begin(start)
        self.wfile.write(CONTENT[start:])

    def send_cut(self, start):
        self.begin(start)
        self.wfile.write(CONTENT[start : start + CUT])

    def send_deaf(self, start):
        """Cut off the first time; afterwards send everything, whatever part was asked for."""
        self.begin(0)
        is_first = self.server.requests["deaf"] == 1
        self.wfile.write(CONTENT[:CUT] if is_first else CONTENT)

    def send_endless(self, start):
        """Send everything, but break off before saying that this was all."""
        if start == len(CONTENT):
            self.send_error(416)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(CONTENT), CONTENT))

    def send_slow(self, start):
        self.begin(start)
        for position in range(start, len(CONTENT), 60_000):
            self.wfile.write(CONTENT[position : position + 60_000])
            self.wfile.flush()
            time.sleep(0.15)

    def send_stalled(self, start):
        self.begin(start)
        self.wfile.write(CONTENT[start : start + CUT])
        self.wfile.flush()
        self.server.released.wait(5)

    def send_wrong(self, start):
        self.begin(start)
        self.wfile.write(bytes(len(CONTENT) - start))

    def send_absent(self, start):
        self.send_error(404)

    def send_busy(self, start):
        if self.server.requests["busy"] < 3:
            self.send_error(503)
        else:
            self.send_well(start)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.requests = Counter()
        running.starts = []
        running.released = threading.Event()
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.released.set()
        running.shutdown()
        thread.join()


def entry_at(server, behaviour, *, path="rs/log.txt"):
    file = DataFile(
        path=path,
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        plain_sha256=hashlib.sha256(CONTENT).hexdigest(),
        url=f"http://127.0.0.1:{server.server_port}/{behaviour}/log.txt",
    )
    return replace(find_dataset("video"), files=(file,))


def files_below(directory):
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_a_file_is_fetched_verified_and_not_fetched_again(server, tmp_path):
    entry = entry_at(server, "well")
    (path,) = fetch_dataset(entry, data_dir=tmp_path)
    assert path == tmp_path / "rs" / "log.txt"
    assert path.read_bytes() == CONTENT
    assert fetch_dataset(entry, data_dir=tmp_path) == [path]
    assert server.requests["well"] == 1


def test_a_transfer_that_breaks_off_is_resumed_where_it_stopped(server, tmp_path):
    (path,) = fetch_dataset(entry_at(server, "cut"), data_dir=tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.requests["cut"] > 2
    assert server.starts[0] == 0
    assert server.starts == sorted(set(server.starts))


def test_a_server_that_cannot_resume_is_asked_for_everything_again(server, tmp_path):
    (path,) = fetch_dataset(entry_at(server, "deaf"), data_dir=tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.starts[1] > 0


def test_a_break_after_the_last_byte_does_no_harm(server, tmp_path):
    (path,) = fetch_dataset(entry_at(server, "endless"), data_dir=tmp_path)
    assert path.read_bytes() == CONTENT
    assert server.starts == [0, len(CONTENT)]


def test_a_transfer_that_keeps_breaking_off_leaves_nothing(server, tmp_path):
    with pytest.raises(MissingDataError, match=r"could not be fetched .*; try again later, or get"):
        fetch_dataset(entry_at(server, "cut"), data_dir=tmp_path, attempts=2)
    assert files_below(tmp_path) == []


def test_a_slow_transfer_is_waited_for(server, tmp_path):
    entry = entry_at(server, "slow")
    (path,) = fetch_dataset(entry, data_dir=tmp_path, timeout_seconds=0.6)
    assert path.read_bytes() == CONTENT
    assert server.requests["slow"] == 1


def test_a_stalled_transfer_is_given_up_and_leaves_nothing(server, tmp_path):
    entry = entry_at(server, "stalled")
    with pytest.raises(MissingDataError, match="timed out"):
        fetch_dataset(entry, data_dir=tmp_path, attempts=2, timeout_seconds=0.2)
    assert server.requests["stalled"] == 2
    assert files_below(tmp_path) == []


def test_another_file_than_the_known_one_is_not_kept(server, tmp_path):
    with pytest.raises(DataError, match="its SHA-256 differs; nothing was kept"):
        fetch_dataset(entry_at(server, "wrong"), data_dir=tmp_path)
    assert files_below(tmp_path) == []


def test_a_failed_fetch_leaves_an_older_copy_alone(server, tmp_path):
    (tmp_path / "rs").mkdir()
    old = tmp_path / "rs" / "log.txt"
    old.write_text("older edition")
    with pytest.raises(DataError, match="SHA-256 differs"):
        fetch_dataset(entry_at(server, "wrong"), data_dir=tmp_path)
    assert files_below(tmp_path) == [old]
    assert old.read_text() == "older edition"


def test_what_does_not_exist_is_not_asked_for_again(server, tmp_path):
    with pytest.raises(MissingDataError, match="404"):
        fetch_dataset(entry_at(server, "absent"), data_dir=tmp_path)
    assert server.requests["absent"] == 1


def test_a_server_that_is_busy_for_a_moment_is_asked_again(server, tmp_path):
    (path,) = fetch_dataset(entry_at(server, "busy"), data_dir=tmp_path)
    assert path.read_bytes() == CONTENT


def test_a_packed_file_sent_plain_is_stored_plain(server, tmp_path):
    entry = entry_at(server, "well", path="rs/log.txt.gz")
    assert fetch_dataset(entry, data_dir=tmp_path) == [tmp_path / "rs" / "log.txt"]


def test_progress_counts_up_to_the_whole(server, tmp_path):
    seen = []
    fetch_dataset(
        entry_at(server, "cut"),
        data_dir=tmp_path,
        progress=lambda *record: seen.append(record),
    )
    received = [n_received for _, n_received, _ in seen]
    assert received == sorted(received)
    assert seen[-1] == ("log.txt", len(CONTENT), len(CONTENT))


def test_a_fetched_file_is_found_without_naming_the_directory(server, tmp_path, monkeypatch):
    monkeypatch.setenv("GROUPNOISE_DATA", str(tmp_path))
    entry = entry_at(server, "well")
    assert fetch_dataset(entry) == fetch_dataset(entry) == [tmp_path / "rs" / "log.txt"]
    assert server.requests["well"] == 1


def test_a_place_that_cannot_be_written_is_named(server, tmp_path):
    (tmp_path / "rs").write_text("a file where a folder should be")
    with pytest.raises(DataError, match=r"rs/log\.txt cannot be written"):
        fetch_dataset(entry_at(server, "well"), data_dir=tmp_path)


def test_nothing_is_printed(server, tmp_path, capfd):
    fetch_dataset(entry_at(server, "well"), data_dir=tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_set_without_an_address_says_how_to_get_it(tmp_path):
    with pytest.raises(MissingDataError, match="Musk 1 cannot be fetched as it is: get it"):
        fetch_dataset("musk1", data_dir=tmp_path)


def test_a_shipped_set_needs_no_fetching():
    with pytest.raises(MissingDataError, match="needs no file: generated by groupnoise"):
        fetch_dataset("shop")


def test_no_attempt_at_all_is_refused():
    with pytest.raises(ParameterError, match="attempts must be a whole number of at least 1"):
        fetch_dataset("lost", attempts=0)


def test_the_command_prints_where_the_file_lies(server, tmp_path, monkeypatch):
    entry = entry_at(server, "cut")
    monkeypatch.setattr(_registry, "list_datasets", lambda: (entry,))
    result = CliRunner().invoke(data_app, ["fetch", "video", "--data-dir", str(tmp_path)])
    assert result.exit_code == 0, result.exception
    assert result.stdout.splitlines() == [str(tmp_path / "rs" / "log.txt")]


def test_an_interrupted_fetch_leaves_nothing(server, tmp_path):
    url = entry_at(server, "stalled").files[0].url
    # Begun in the background, a process ignores the signal unless it says otherwise.
    program = f"""
import signal
from dataclasses import replace
from groupnoise.io import fetch_dataset
from groupnoise.io.registry import DataFile, find_dataset
file = DataFile(path="rs/log.txt", sha256="0" * 64, url={url!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
fetch_dataset(replace(find_dataset("video"), files=(file,)), data_dir={str(tmp_path)!r})
"""
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 20
        while not server.requests["stalled"] and time.monotonic() < deadline:
            time.sleep(0.02)
        assert files_below(tmp_path), "the transfer never began"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert server.requests["stalled"] == 1
    assert process.returncode != 0
    assert files_below(tmp_path) == []
