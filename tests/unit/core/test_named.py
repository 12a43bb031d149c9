"""Parts by name: what each name makes, and one sentence for a name that is none."""

import numpy as np
import pytest

from groupnoise.core import All, Marginal, Max, Tempered, TopK
from groupnoise.core.objective import (
    NAMED_OBJECTIVES,
    make_selection,
    make_weighting,
)
from groupnoise.core.weighting import ContrastiveWeighting, Dot, NegativeKL, SigmoidWeighting
from groupnoise.exceptions import ParameterError


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("max", Max()),
        ("marginal", Marginal()),
        ("tempered", Tempered(1.0, 0.3)),
        ("top_k", TopK(2)),
        ("all", All()),
        (TopK(3), TopK(3)),
    ],
    ids=str,
)
def test_selection_by_name(name, expected):
    assert make_selection(name) == expected


def test_temperature_is_a_number_or_a_path():
    assert make_selection("tempered", temperature=0.5) == Tempered(0.5, 0.5)
    assert make_selection("tempered", temperature=[2.0, 0.1]) == Tempered(2.0, 0.1)


@pytest.mark.parametrize("number", [1, np.int64(1), np.float32(1.0), np.array(1.0)], ids=repr)
def test_a_temperature_may_be_a_number_of_any_type(number):
    made = make_selection("tempered", temperature=number)
    assert made == Tempered(1.0, 1.0)
    assert type(made.start) is float


@pytest.mark.parametrize("temperature", [[1.0, 0.5, 0.1], [1.0], None, "warm"], ids=repr)
def test_a_temperature_that_is_neither_a_number_nor_a_path_is_refused(temperature):
    with pytest.raises(ParameterError, match=r"a number or a \(start, end\) pair"):
        make_selection("tempered", temperature=temperature)


@pytest.mark.parametrize(
    ("form", "similarity", "expected"),
    [
        ("sigmoid", "dot", SigmoidWeighting(Dot(2.0))),
        ("sigmoid", "neg_kl", SigmoidWeighting(NegativeKL(2.0))),
        ("contrastive", "dot", ContrastiveWeighting(Dot(2.0))),
        ("sigmoid", Dot(7.0), SigmoidWeighting(Dot(7.0))),
        (None, "dot", None),
        (SigmoidWeighting(), "neg_kl", SigmoidWeighting()),
    ],
    ids=str,
)
def test_weighting_by_name(form, similarity, expected):
    assert make_weighting(form, similarity=similarity, scale=2.0) == expected


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_selection("maximum"), "selection must be one of 'max', 'marginal'"),
        (lambda: make_weighting("softmax"), "weighting must be one of 'sigmoid', 'contrastive'"),
        (lambda: make_weighting("sigmoid", similarity="kl"), "similarity must be one of 'dot'"),
    ],
    ids=["selection", "weighting", "similarity"],
)
def test_unknown_names_are_answered_with_the_known_ones(make, message):
    with pytest.raises(ParameterError, match=message):
        make()


def test_the_papers_four_objectives_differ_in_selection_and_weighting():
    values = {
        name: (parameters["selection"], parameters["weighting_strength"])
        for name, parameters in NAMED_OBJECTIVES.items()
    }
    assert values == {
        "pairwise": ("all", 0.0),
        "matching": ("all", 1.0),
        "maximizing": ("max", 0.0),
        "max_matching": ("max", 1.0),
    }


@pytest.mark.parametrize("selection", [{}, [], 3, None], ids=repr)
def test_a_selection_that_is_neither_a_name_nor_callable_is_refused(selection):
    with pytest.raises(ParameterError, match="selection must be one of 'max'"):
        make_selection(selection)
