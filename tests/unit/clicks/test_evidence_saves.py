"""A fit that decides by itself is saved after each epoch, and goes on where it was ended."""

import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from groupnoise import MaxMatchingRecommender
from groupnoise.exceptions import CheckpointError, TrainingStopped
from groupnoise.training import Checkpoints

PARAMETERS = {"random_state": 0, "dim": 8, "max_epochs": 3, "encoder": "recurrence", "budget": 60}


def histories(seed=0):
    generator = np.random.default_rng(seed)
    return [list(generator.integers(4) * 5 + generator.integers(5, size=6)) for _ in range(50)]


def answers(model):
    return model.recommend(histories(1)[:20], 10)


def same(first, second):
    return all(
        np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(first, second, strict=True)
    )


@pytest.fixture(scope="module")
def whole():
    return MaxMatchingRecommender(**PARAMETERS).fit(histories())


def test_saving_changes_nothing(whole, tmp_path):
    model = MaxMatchingRecommender(**PARAMETERS)
    model.fit(histories(), checkpoint=Checkpoints(tmp_path / "saves"))
    assert same(answers(model), answers(whole))


@pytest.mark.parametrize("n_epochs", [1, 3, 5])
def test_stopped_after_any_epoch_it_ends_with_the_same_answers(whole, tmp_path, n_epochs):
    checkpoint = Checkpoints(tmp_path / "saves")
    seen = []

    def stop_later(record):
        seen.append(record)
        if len(seen) == n_epochs:
            checkpoint.stop(signal.SIGTERM)

    model = MaxMatchingRecommender(**PARAMETERS, on_epoch=stop_later)
    with pytest.raises(TrainingStopped, match="saved in"):
        model.fit(histories(), checkpoint=checkpoint)
    again = []
    resumed = MaxMatchingRecommender(**PARAMETERS, on_epoch=again.append)
    resumed.fit(histories(), checkpoint=Checkpoints(tmp_path / "saves", resume=True))
    assert same(answers(resumed), answers(whole))
    assert [each["loss"] for each in resumed.history_] == [each["loss"] for each in whole.history_]


def test_other_data_or_settings_are_refused_and_so_is_a_folder_in_use(tmp_path):
    MaxMatchingRecommender(**PARAMETERS).fit(histories(), checkpoint=Checkpoints(tmp_path))
    resumed = Checkpoints(tmp_path, resume=True)
    with pytest.raises(CheckpointError, match="data differ"):
        MaxMatchingRecommender(**PARAMETERS).fit(histories(3), checkpoint=resumed)
    with pytest.raises(CheckpointError, match="max_epochs 3"):
        MaxMatchingRecommender(**{**PARAMETERS, "max_epochs": 4}).fit(
            histories(), checkpoint=resumed
        )
    with pytest.raises(CheckpointError, match="holds checkpoints already"):
        MaxMatchingRecommender(**PARAMETERS).fit(histories(), checkpoint=Checkpoints(tmp_path))


def test_a_damaged_save_is_told_of_and_trained_anew(whole, tmp_path):
    MaxMatchingRecommender(**PARAMETERS).fit(histories(), checkpoint=Checkpoints(tmp_path))
    for weights in tmp_path.rglob("*.safetensors"):
        weights.write_bytes(weights.read_bytes()[:-7])
    told = []
    resumed = Checkpoints(tmp_path, resume=True, report=told.append)
    model = MaxMatchingRecommender(**PARAMETERS).fit(histories(), checkpoint=resumed)
    assert told
    assert "trained again" in told[0]
    assert same(answers(model), answers(whole))


@pytest.mark.slow
def test_a_killed_command_goes_on_and_leaves_no_saves(tmp_path):
    lines = ["user,item"]
    lines += [f"{user},{item}" for user, clicks in enumerate(histories()) for item in clicks]
    (tmp_path / "clicks.csv").write_text("\n".join(lines) + "\n")
    words = [sys.executable, "-m", "groupnoise", "fit", "clicks.csv"]
    words += ["--setting", "rs", "--checkpoint", "saves"]
    words += ["-p", "dim=8", "-p", "max_epochs=100", "-p", "encoder=recurrence"]
    killed = subprocess.Popen(
        [*words, "-o", "model"], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    saved = tmp_path / "saves" / "member-fit"
    for _ in range(2400):
        if any(saved.glob("*/*.safetensors")):
            break
        try:
            killed.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
    killed.kill()
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    done = subprocess.run(
        [*words, "-o", "model", "--resume"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("resuming the training saved in saves") == 1
    assert (tmp_path / "model").is_dir()
    assert not (tmp_path / "saves").exists()
    shutil.rmtree(tmp_path / "model")
