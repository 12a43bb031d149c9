"""The options of checkpoints and workers: what they are read as, and what is said of them."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from groupnoise import Groups, MaxMatchingMILClassifier, MaxMatchingRecommender
from groupnoise.cli.training import adjust_batch_size, read_checkpoints
from groupnoise.exceptions import ParameterError
from groupnoise.io import ClickDataset


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
    ("estimator", "count", "n_clicks", "batch_size", "sentence"),
    [
        (MaxMatchingRecommender(), 1, 10**6, "auto", None),
        (MaxMatchingRecommender(), 2, 10**6, 2048, "batch_size=2048.*=512 keeps that"),
        (MaxMatchingRecommender(), 2, 10**5, "auto", "=512 is little work for 2 workers.*=2048"),
        (MaxMatchingRecommender(batch_size=512), 2, 10**6, 512, "batch_size=2048 pays"),
        (MaxMatchingRecommender(batch_size=2048), 2, 10**6, 2048, None),
        (MaxMatchingMILClassifier(batch_size=8), 2, 10**6, 8, None),
    ],
)
def test_workers_get_a_batch_that_pays_unless_another_was_asked_for(
    estimator, count, n_clicks, batch_size, sentence
):
    histories = Groups(np.zeros(n_clicks, dtype=np.int64), np.array([0, n_clicks]))
    log = ClickDataset("log", histories, np.array(["a"]), np.array(["b"]))
    settled = clone(estimator)
    found = adjust_batch_size(settled, count, log)
    assert found is None if sentence is None else re.search(sentence, found)
    assert settled.batch_size == batch_size
