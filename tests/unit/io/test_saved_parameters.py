"""Parameters in model folders: what is kept comes back alike, what cannot be kept is refused."""

import json
from dataclasses import dataclass

import numpy as np
import pytest

from groupnoise.exceptions import ParameterError
from groupnoise.io.folders.model_files import pack_parameters, unpack_parameters


@dataclass(frozen=True)
class Inner:
    scale: float = 1.0


@dataclass(frozen=True)
class Outer:
    inner: Inner
    size: int = 2


class Derived(Inner):
    """Not in the table, though its base is."""


PARTS = (Inner, Outer)


def returned(value):
    packed = json.loads(json.dumps(pack_parameters({"it": value}, parts=PARTS), allow_nan=False))
    return unpack_parameters(packed, parts=PARTS)["it"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        ("mlp", "mlp"),
        (0.1, 0.1),
        (np.bool_(True), True),
        (np.int64(3), 3),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.str_("mlp"), "mlp"),
        ([1, np.int64(2)], (1, 2)),
        ((np.float64(1.0), 0.3), (1.0, 0.3)),
        (np.array([8, 4]), (8, 4)),
        ({1: 2.0, "a": np.float32(0.5), 1.5: 0}, {1: 2.0, "a": 0.5, 1.5: 0}),
        ({np.int64(1): 1.0, np.str_("1"): 2.0}, {1: 1.0, "1": 2.0}),
        ({}, {}),
        (Inner(np.float64(0.5)), Inner(0.5)),
        (Outer(Inner(3.0), np.int64(7)), Outer(Inner(3.0), 7)),
    ],
)
def test_what_is_kept_comes_back_equal_and_of_plain_types(value, expected):
    again = returned(value)
    assert again == expected
    assert type(again) is type(expected)
    if isinstance(expected, dict):
        assert [type(key) for key in again] == [type(key) for key in expected]


@pytest.mark.parametrize("generator", [np.random.default_rng(0), np.random.RandomState(0)])
def test_a_generator_is_left_out(generator):
    assert pack_parameters({"random_state": generator, "dim": 4}) == {"dim": 4}


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (Derived(), "a Derived"),
        (Outer(Derived()), "a Derived"),
        (print, "a builtin_function_or_method"),
        ({"a": {1}}, "a set"),
        (np.datetime64("2020-01-01"), "a date"),
        (float("inf"), "inf"),
        ((1.0, np.nan), "nan"),
    ],
)
def test_what_has_no_written_form_is_refused_by_its_parameter(value, found):
    with pytest.raises(ParameterError, match=f"^selection holds {found}, which a model folder"):
        pack_parameters({"selection": value}, parts=PARTS)


@pytest.mark.parametrize(
    "packed",
    [
        {"part": "Path", "fields": {}},
        {"part": "os.system", "fields": {"command": "true"}},
        {"part": ["Inner"], "fields": {}},
        {"part": "Inner", "fields": {"colour": 1}},
        {"part": "Inner", "fields": 3},
        {"part": "Inner"},
        {"pairs": [1, 2]},
        {"pairs": 3},
        {"fields": {}},
    ],
)
def test_nothing_outside_the_table_is_made(packed):
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        unpack_parameters({"it": packed}, parts=PARTS)
