"""What every test shares."""

import gc
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
BESIDE = Path(__file__).parents[2] / "shared" / "data"
if BESIDE.is_dir():
    os.environ.setdefault("GROUPNOISE_DATA", str(BESIDE))


LONGEST = {"test_from_a_wheel.py", "test_examples.py", "test_readme.py", "test_demo.py"}
"""Short files whose tests run everything that a page shows; else a large file takes longer."""

gc.disable()  # what is collected stays until the end: a fifth of the time was spent looking at it


def pytest_collection_modifyitems(items):
    """Workers take what is long first: at the end it would keep the others waiting."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        sizes = {path: path.stat().st_size for path in {item.path for item in items}}
        items.sort(key=lambda item: (item.path.name not in LONGEST, -sizes[item.path]))


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import torch

    torch.set_num_threads(1)


CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    """A Chromium, or a skip where there is none."""
    playwright = pytest.importorskip("playwright.sync_api")
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("no Chromium on this machine: install it to test pages")
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def small_forests():
    """Few trees in forests, where how well they answer is not what is tested."""
    from groupnoise.candidates import gradient_free

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradient_free, "N_TREES", 12)
        patch.setattr(gradient_free, "N_TREES_PER_ITERATION", 10)
        yield


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The directory of real data sets, or a skip that says what to set."""
    named = os.environ.get("GROUPNOISE_DATA")
    if named and Path(named).is_dir():
        return Path(named)
    pytest.skip("no real data: set GROUPNOISE_DATA to the directory that holds it")


@pytest.fixture
def groupnoise(tmp_path, monkeypatch, capsys):
    """The command line in this process, whose libraries are loaded: (exit code, stdout, stderr)."""
    from groupnoise.cli import main

    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["groupnoise", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code, said.out, said.err

    return run


class Said(NamedTuple):
    out: str
    err: str


@pytest.fixture
def command(groupnoise):
    """The same; the exit code must be as said, and what was said comes back."""

    def run(*words, code=0):
        left, *said = groupnoise(*words)
        assert (left or 0) == code, (words, *said)
        return Said(*said)

    return run
