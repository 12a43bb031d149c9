"""What the tests of data sets share."""

import pytest


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """Leave no directory to be searched but those a test names; the user's cache is empty."""
    monkeypatch.delenv("GROUPNOISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "working").mkdir()
    monkeypatch.chdir(tmp_path / "working")
    return tmp_path
