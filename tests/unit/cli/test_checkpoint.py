"""The checkpoint options: times and steps are read, anything else is refused."""

from pathlib import Path

import pytest

from groupnoise.cli.workers import read_checkpoints
from groupnoise.exceptions import ParameterError


@pytest.mark.parametrize(
    ("every", "seconds", "steps"),
    [
        ("30s", 30.0, None),
        ("5m", 300.0, None),
        ("1.5h", 5400.0, None),
        ("200steps", None, 200),
        ("1 step", None, 1),
    ],
)
def test_how_often_is_read_as_time_or_steps(every, seconds, steps):
    checkpoints = read_checkpoints(Path("saves"), every, True)
    assert (checkpoints.every_seconds, checkpoints.every_steps) == (seconds, steps)
    assert checkpoints.resume


@pytest.mark.parametrize("every", ["", "5", "m", "-5m", "5 days", "1.5steps"])
def test_anything_else_is_refused(every):
    with pytest.raises(ParameterError, match=r"--checkpoint-every takes 30s, 5m, 1h or 200steps"):
        read_checkpoints(Path("saves"), every, False)


def test_resuming_needs_a_folder():
    with pytest.raises(ParameterError, match="--resume needs --checkpoint"):
        read_checkpoints(None, "5m", True)


def test_without_a_folder_nothing_is_saved():
    assert read_checkpoints(None, "5m", False) is None
