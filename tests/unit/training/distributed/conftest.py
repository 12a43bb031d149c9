"""One run of real processes whose results all tests of this folder read."""

from pathlib import Path

import pytest
import torch

from worker_processes import run_workers

SCRIPT = Path(__file__).parent / "on_every_worker.py"


@pytest.fixture(scope="session", params=[2, pytest.param(3, marks=pytest.mark.nightly)])
def results(request, tmp_path_factory):
    """What each worker computed, by rank."""
    folder = tmp_path_factory.mktemp("workers")
    run_workers(SCRIPT, folder, count=request.param)
    return [torch.load(folder / f"{rank}.pt") for rank in range(request.param)]
