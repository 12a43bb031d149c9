"""The six-item shop, opened."""

import pytest

from groupnoise.recall import open_artifact
from serving_support import write_neighbour_shop, write_shop


@pytest.fixture
def shop(tmp_path):
    return open_artifact(write_shop(tmp_path / "shop"))


@pytest.fixture
def neighbour_shop(tmp_path):
    return open_artifact(write_neighbour_shop(tmp_path / "neighbours"))
