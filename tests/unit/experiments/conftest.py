"""A demonstration small enough for tests, run once."""

import pytest

from groupnoise.experiments import demo_tasks, run_demo


@pytest.fixture(scope="session")
def quick_demo():
    """The quick demonstration under two seeds."""
    return run_demo(demo_tasks(quick=True), [0, 1], n_jobs=1)
