"""Figures of a group from its log scores, against plain loops."""

import math
from itertools import pairwise

import numpy as np
import pytest

from groupnoise.audit.evidence import class_columns, object_posterior
from groupnoise.exceptions import UnknownTargetError


def looped_figures(scores):
    odds = [math.exp(score - max(scores)) for score in scores]
    shares = [value / sum(odds) for value in odds]
    ranked = sorted(shares, reverse=True)
    runner_up = ranked[1] if len(ranked) > 1 else 0.0
    entropy = -sum(share * math.log(share) for share in shares if share > 0)
    return shares, shares.index(ranked[0]), ranked[0], ranked[0] - runner_up, entropy


def test_every_figure_is_that_of_a_plain_loop_over_ragged_groups():
    generator = np.random.default_rng(0)
    sizes = [1, 4, 2, 7, 1]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores = 3 * generator.normal(size=offsets[-1])
    found = object_posterior(scores, offsets)
    for group, (start, stop) in enumerate(pairwise(offsets)):
        shares, chosen, probability, margin, entropy = looped_figures(scores[start:stop].tolist())
        assert found.responsibility[start:stop] == pytest.approx(shares)
        assert found.chosen[group] - start == chosen
        assert found.probability[group] == pytest.approx(probability)
        assert found.margin[group] == pytest.approx(margin)
        assert found.entropy[group] == pytest.approx(entropy)


def test_of_equal_objects_the_first_is_chosen_with_no_margin():
    found = object_posterior(np.zeros(3), np.array([0, 3]))
    assert found.chosen.tolist() == [0]
    assert found.margin.tolist() == [0.0]
    assert found.entropy[0] == pytest.approx(math.log(3))


def test_scores_far_apart_neither_overflow_nor_give_nan():
    found = object_posterior(np.array([1000.0, -1000.0]), np.array([0, 2]))
    assert found.responsibility.tolist() == [1.0, 0.0]
    assert found.entropy.tolist() == [0.0]


def test_classes_are_found_by_name_whatever_their_order():
    assert class_columns(np.array(["b", "c", "a"]), ["a", "b"]).tolist() == [2, 0]


def test_numbered_classes_stand_for_names_in_order():
    assert class_columns(np.arange(3), ["x", "y", "z"]).tolist() == [0, 1, 2]


def test_numbered_classes_stand_for_names_in_order_even_if_these_are_numbers():
    names = sorted(str(number) for number in range(11))
    assert names[:3] == ["0", "1", "10"]
    assert class_columns(np.arange(11), names).tolist() == list(range(11))


def test_a_class_the_model_has_never_heard_of_is_named():
    with pytest.raises(UnknownTargetError, match="does not know the class 'owl'"):
        class_columns(np.array(["cat", "dog"]), ["cat", "owl"])
