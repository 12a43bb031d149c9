"""What the journeys share."""

import sys

import pytest

from groupnoise.cli import main


@pytest.fixture
def groupnoise(tmp_path, monkeypatch, capsys):
    """The command line in this process, whose libraries are loaded: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["groupnoise", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code, said.out, said.err

    return run
