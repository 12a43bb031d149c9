"""What a command warns of is a sentence on the error stream."""

import sys
import warnings

import pytest

from groupnoise.cli import app as command_line


def test_warnings_are_said_without_the_code_that_gave_them(monkeypatch, capsys):
    before = warnings.showwarning

    def command():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn("three items have no row.", UserWarning, stacklevel=1)
            warnings.warn("an old name", FutureWarning, stacklevel=1)

    monkeypatch.setattr(command_line, "_parser", lambda: command)
    monkeypatch.setattr(sys, "argv", ["groupnoise"])
    command_line.main()
    said = capsys.readouterr().err
    assert "warning: three items have no row.\n" in said
    assert "UserWarning" not in said
    assert "FutureWarning: an old name" in said
    assert warnings.showwarning is before


@pytest.mark.parametrize("code", [0, 2])
def test_warnings_are_shown_as_before_when_a_command_ends(monkeypatch, code):
    before = warnings.showwarning
    monkeypatch.setattr(command_line, "_parser", lambda: lambda: sys.exit(code))
    with pytest.raises(SystemExit):
        command_line.main()
    assert warnings.showwarning is before
