"""The options of checkpoints and workers: what they are read as, and what is said of them."""

import re
from pathlib import Path

import pytest

from groupnoise import MaxMatchingMILClassifier, MaxMatchingRecommender
from groupnoise.cli.workers import read_checkpoints, small_batch
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


@pytest.mark.parametrize(
    ("estimator", "count", "sentence"),
    [
        (MaxMatchingRecommender(), 1, None),
        (MaxMatchingRecommender(), 2, "batch_size=512 is little work for 2 workers.*=2048 pays"),
        (MaxMatchingRecommender(batch_size=2048), 2, None),
        (MaxMatchingRecommender(batch_size=2048), 4, "-p batch_size=4096 pays"),
        (MaxMatchingMILClassifier(), 2, None),
    ],
)
def test_workers_who_are_slower_than_one_process_are_told_of(estimator, count, sentence):
    found = small_batch(estimator, count)
    assert found is None if sentence is None else re.search(sentence, found)
