"""The package as a wheel installs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="module")
def _small_forests(small_forests):
    """What a journey meets does not depend on how many trees answer."""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Where the wheel of this checkout is installed: its modules and nothing else of it."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    # A copy, so that the build leaves nothing in the checkout and takes nothing left there.
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "src"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    for name in [
        "pyproject.toml",
        "README.md",
        "LICENSE",
        *listed.decode().strip("\0").split("\0"),
    ]:
        if (ROOT / name).is_file():
            copy = folder / "source" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder / "dist", "."]
    subprocess.run(build, cwd=folder / "source", check=True, capture_output=True, timeout=300)
    (built,) = (folder / "dist").glob("*.whl")
    installed = folder / "installed"
    install = [*pip, "install", "--no-deps", "--no-compile", "--target", installed, built]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    return installed


@pytest.fixture
def from_wheel(wheel, tmp_path):
    """Commands of the installed wheel in an empty folder, without any data of this machine."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(wheel),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "OMP_NUM_THREADS": "1",
    }
    environment.pop("GROUPNOISE_DATA", None)
    empty = tmp_path / "empty"
    empty.mkdir()

    def start(python, code, **variables):
        finished = subprocess.run(
            [sys.executable, *python],
            cwd=empty,
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert finished.returncode == code, f"{python}\n{finished.stdout}\n{finished.stderr}"
        return finished

    def run(*words, code=0, **variables):
        return start(["-m", "groupnoise", *map(str, words)], code, **variables)

    run.folder = empty
    run.one_after_the_other = lambda commands: start(["-c", IN_ONE_PROCESS, *commands], 0)
    return run


IN_ONE_PROCESS = """
import shlex, sys
from groupnoise.cli import main
for command in sys.argv[1:]:
    sys.argv = ["groupnoise", *shlex.split(command)]
    try:
        main()
    except SystemExit as left:
        if left.code:
            raise
"""
"""Runs commands as one process after the other would, but loads the libraries once."""
