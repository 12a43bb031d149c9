"""Ray as a launcher, on a cluster of this machine alone."""

import subprocess
import sys

import numpy as np
import pytest

from groupnoise import MaxMatchingRecommender

pytest.importorskip("ray", reason="needs the extra 'ray'")


@pytest.mark.nightly
def test_ray_runs_the_training_that_torchrun_runs(tmp_path):
    fitted = {}
    for launcher in ("ray", "torchrun"):
        command = ["groupnoise", "fit", "shop", "-q", "--workers", "2", "--launcher", launcher]
        options = ["-o", tmp_path / launcher, "-p", "dim=8", "-p", "max_epochs=2"]
        finished = subprocess.run(
            [sys.executable, "-m", *command, *options],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert finished.returncode == 0, finished.stderr
        fitted[launcher] = MaxMatchingRecommender.load(tmp_path / launcher).item_vectors()
    for ours, theirs in zip(fitted["ray"], fitted["torchrun"], strict=True):
        np.testing.assert_array_equal(ours, theirs)
