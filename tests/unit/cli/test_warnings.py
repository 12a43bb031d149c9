"""What a command warns of is a sentence on the error stream."""

import copy
import json
import sys
import warnings

import polars as pl
import pytest

from groupnoise.cli import app as command_line
from groupnoise.clicks import read_clicks
from groupnoise.core.words import Message, Topic, topic_of


def test_a_message_keeps_its_topic_in_copies_and_is_plain_text_in_json():
    message = Message("user 7 clicks unlike people do", Topic.CLICKS)
    assert topic_of(copy.deepcopy(message)) is Topic.CLICKS
    assert json.loads(json.dumps({"note": message})) == {"note": "user 7 clicks unlike people do"}
    assert topic_of("user 7 clicks unlike people do") is None


def test_warnings_about_clicks_are_known_by_their_topic():
    rows = {"user": [0, 0, 1, 1] * 5, "item": [*range(20)], "rating": [1, 5] * 10}
    told = []
    read_clicks(pl.DataFrame(rows), report=told.append)
    about_clicks = [each for each in told if topic_of(each) is Topic.CLICKS]
    assert ["rated below" in each for each in about_clicks] == [True]
    assert len(told) > 1


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
