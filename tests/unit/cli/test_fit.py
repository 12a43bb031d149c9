"""Parameters from words of the command line."""

import pytest

from groupnoise.cli.methods import read_parameters
from groupnoise.exceptions import ParameterError

KNOWN = {"dim": 8, "encoder": "mlp", "random_state": None, "on_epoch": None}


def test_values_are_json_or_plain_words():
    assert read_parameters(["dim=3", "encoder=linear"], KNOWN) == {"dim": 3, "encoder": "linear"}
    assert read_parameters(["dim=None", "encoder=null"], KNOWN) == {"dim": None, "encoder": None}


@pytest.mark.parametrize(
    ("pair", "helpful"), [("random_state=5", "--seed"), ("on_epoch=print", "a function")]
)
def test_what_no_word_can_set_is_refused_with_what_to_do(pair, helpful):
    with pytest.raises(ParameterError, match=helpful):
        read_parameters([pair], KNOWN)
