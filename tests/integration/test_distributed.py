"""Two processes under torchrun against one process with the same global batch."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from groupnoise import MaxMatchingRecommender
from worker_processes import run_torchrun

SCRIPT = Path(__file__).parent / "train_on_workers.py"
RECOMMENDERS = ["sampled", "two tables, max", "in_batch", "spectral", "full", "members"]
TRAININGS = [*RECOMMENDERS, "both", "targets", "bags"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process makes of the trainings: a folder with losses and models."""
    folder = tmp_path_factory.mktemp("alone")
    runpy.run_path(str(SCRIPT))["main"](folder)
    return folder


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """What two processes make of the same."""
    folder = tmp_path_factory.mktemp("together")
    run_torchrun(SCRIPT, folder, count=2)
    return folder


def losses_in(folder):
    return json.loads((folder / "losses.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("name", TRAININGS)
def test_two_processes_give_the_loss_curve_of_one(alone, together, name):
    assert_allclose(losses_in(together)[name], losses_in(alone)[name], rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", RECOMMENDERS)
def test_the_gathered_weights_are_those_of_one_process(alone, together, name):
    expected = MaxMatchingRecommender.load(alone / name).model_.state_dict()
    gathered = MaxMatchingRecommender.load(together / name).model_.state_dict()
    assert gathered.keys() == expected.keys()
    for key, weight in expected.items():
        torch.testing.assert_close(gathered[key], weight, rtol=0, atol=1e-4)


@pytest.mark.slow
def test_the_saved_model_recommends_what_that_of_one_process_does(alone, together):
    histories = [[1, 2, 3], [40], [99, 101, 102]]
    expected, scores = MaxMatchingRecommender.load(alone / "sampled").recommend(histories, top=5)
    ids, same_scores = MaxMatchingRecommender.load(together / "sampled").recommend(histories, top=5)
    np.testing.assert_array_equal(ids, expected)
    assert_allclose(same_scores, scores, atol=1e-4)
