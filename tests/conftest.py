"""What every test shares."""

import os
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def data_directory() -> Path:
    """The directory of real data sets, or a skip that says what to set."""
    candidates = [os.environ.get("GROUPNOISE_DATA"), Path(__file__).parents[2] / "shared" / "data"]
    for candidate in candidates:
        if candidate and Path(candidate).is_dir():
            return Path(candidate)
    pytest.skip("no real data: set GROUPNOISE_DATA to the directory that holds it")
