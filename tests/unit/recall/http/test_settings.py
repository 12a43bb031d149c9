from pathlib import Path

import pytest

from groupnoise.exceptions import ParameterError
from groupnoise.recall.http import Limits, ServiceSettings


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "example.org", "::"])
def test_listening_beyond_this_machine_needs_a_token(host):
    with pytest.raises(ParameterError, match="needs a token"):
        ServiceSettings(artifact=Path("a"), host=host)
    assert ServiceSettings(artifact=Path("a"), host=host, token="secret").token == "secret"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.9.1"])
def test_loopback_needs_none(host):
    assert ServiceSettings(artifact=Path("a"), host=host).token is None


@pytest.mark.parametrize(
    "bad",
    [
        {"port": -1},
        {"port": 70000},
        {"host": "[::1]"},
        {"token": " "},
        {"least_recall": 2},
        {"grace_seconds": 0},
    ],
)
def test_impossible_settings_are_refused(bad):
    with pytest.raises(ParameterError):
        ServiceSettings(artifact=Path("a"), **bad)


@pytest.mark.parametrize("token", ["schlüssel", " key", "key\n", "a\tb", "\ud800"])
def test_a_token_no_header_can_carry_is_refused(token):
    with pytest.raises(ParameterError, match="printable ASCII"):
        ServiceSettings(artifact=Path("a"), token=token)


@pytest.mark.parametrize("bad", [{"top": 0}, {"seconds": 0}, {"body_bytes": 1.5}])
def test_impossible_limits_are_refused(bad):
    with pytest.raises(ParameterError):
        Limits(**bad)
