"""Explicit values shrink a portfolio; budgets are read from what people write."""

from __future__ import annotations

import numpy as np
import pytest

from groupnoise.decisions.portfolio import Option, is_auto, narrow, parse_budget
from groupnoise.exceptions import ParameterError

PORTFOLIO = [
    Option("linear", {"encoder": "linear", "dim": 64}),
    Option("small", {"encoder": "mlp", "dim": 64, "hidden": (32,)}),
    Option("large", {"encoder": "mlp", "dim": 64, "hidden": (300,)}),
]


def names(options):
    return [option.name for option in options]


def test_an_explicit_value_leaves_the_options_that_agree():
    assert names(narrow(PORTFOLIO, {"encoder": "mlp"})) == ["small", "large"]
    assert names(narrow(PORTFOLIO, {"encoder": "mlp", "hidden": [32]})) == ["small"]


def test_parameters_the_portfolio_does_not_decide_leave_it_alone():
    assert narrow(PORTFOLIO, {"random_state": 3}) == PORTFOLIO


def test_a_value_outside_the_portfolio_replaces_theirs():
    narrowed = narrow(PORTFOLIO, {"dim": 8, "encoder": "linear"})
    assert [dict(option.parameters) for option in narrowed] == [{"encoder": "linear", "dim": 8}]


def test_options_that_become_equal_are_tried_once():
    assert len(narrow(PORTFOLIO, {"hidden": (7,), "encoder": "mlp"})) == 1


def test_a_value_that_json_cannot_hold_is_left_to_the_estimator():
    narrowed = narrow(PORTFOLIO, {"encoder": object()})
    assert names(narrowed) == ["linear", "small", "large"]
    assert all("encoder" not in option.parameters for option in narrowed)


def test_an_empty_portfolio_is_refused():
    with pytest.raises(ParameterError, match="at least one option"):
        narrow([], {})


def test_an_option_keeps_plain_values_only():
    option = Option("x", {"temperature": [np.float64(1.0), 0.3], "epochs": np.int64(5)})
    assert option.parameters == {"temperature": (1.0, 0.3), "epochs": 5}
    with pytest.raises(ParameterError, match="recorded value"):
        Option("x", {"encoder": object()})


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("90s", 90.0), ("2m", 120.0), ("1.5h", 5400.0), ("30", 30.0), (12, 12.0), (".5m", 30.0)],
)
def test_a_budget_is_read_from_what_people_write(written, seconds):
    assert parse_budget(written) == seconds


def test_auto_and_none_are_the_default_and_no_limit():
    assert parse_budget("auto", default=7.0) == 7.0
    assert parse_budget("auto") is None
    assert parse_budget(None, default=7.0) is None


@pytest.mark.parametrize("written", [0, -3, "0s", "soon", "2 days", True, float("nan"), "", []])
def test_a_budget_that_is_none_is_refused_in_one_sentence(written):
    with pytest.raises(ParameterError, match=r"budget must be 'auto', or a time .* got"):
        parse_budget(written)


def test_only_the_word_auto_is_auto():
    assert is_auto("auto")
    assert not any(map(is_auto, ["Auto", None, 0, np.array(["auto", "auto"])]))
