"""Differences are tested as reviewers ask: corrected for overlap, and for many comparisons."""

import numpy as np
import pytest
from scipy import stats

import reference
from groupnoise.reproduce.report.reproduction import rank_picture
from groupnoise.reproduce.report.tables import (
    corrected_t_test,
    critical_difference,
    holm,
    signed_rank_tests,
)


@pytest.mark.parametrize("ratio", [0.0, 1 / 8, 1.0])
def test_the_corrected_test_follows_its_formula(ratio):
    gaps = [0.03, -0.01, 0.02, 0.05, 0.01]
    found = corrected_t_test(gaps, ratio)
    statistic = reference.corrected_t(gaps, ratio)
    assert found.p_value == pytest.approx(2 * stats.t.sf(statistic, 4))
    reach = stats.t.ppf(0.975, 4) * np.mean(gaps) / statistic
    assert (found.low, found.high) == pytest.approx((0.02 - reach, 0.02 + reach))


def test_without_overlap_it_is_the_plain_t_test():
    gaps = [0.03, -0.01, 0.02, 0.05, 0.01]
    assert corrected_t_test(gaps, 0.0).p_value == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue)


def test_one_trial_and_equal_differences_say_what_they_can():
    assert corrected_t_test([0.1], 0.1).p_value == 1.0
    level = corrected_t_test([0.0, 0.0], 0.1)
    assert (level.low, level.high, level.p_value) == (0.0, 0.0, 1.0)
    assert corrected_t_test([0.1, 0.1], 0.1).p_value == 0.0


def test_many_comparisons_cost_confidence():
    assert holm({"a": 0.6, "b": 0.01, "c": 0.9}) == {"a": 1.0, "b": 0.03, "c": 1.0}
    assert holm({}) == {}


def test_over_sets_equal_methods_do_not_differ():
    means = {"ours": [0.5] * 6, "same": [0.5] * 6, "worse": [0.4, 0.3, 0.2, 0.1, 0.35, 0.15]}
    found = signed_rank_tests(means, "ours")
    assert found["same"] == 1.0
    assert found["worse"] == pytest.approx(
        2 * stats.wilcoxon([0.1, 0.2, 0.3, 0.4, 0.15, 0.35]).pvalue
    )
    assert signed_rank_tests({"ours": [0.5], "worse": [0.4]}, "ours") == {}


def test_five_sets_can_never_be_sure_and_are_not_tested():
    always_ahead = {"ours": [0.9] * 6, "worse": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
    assert signed_rank_tests(always_ahead, "ours")["worse"] < 0.05
    five = {name: values[:5] for name, values in always_ahead.items()}
    assert stats.wilcoxon(np.subtract(*five.values())).pvalue > 0.05
    assert signed_rank_tests(five, "ours") == {}


def test_methods_far_apart_differ_and_near_ones_do_not():
    ranks = {"best": [1.0] * 10, "second": [2.0] * 10, "third": [3.5] * 10, "last": [3.5] * 10}
    found = critical_difference(ranks)
    assert found.distance == pytest.approx(2.569 * np.sqrt(4 * 5 / 60), abs=1e-3)
    assert found.cliques == [("best", "second"), ("last", "third")]
    assert critical_difference({"a": [1.0] * 10, "b": [2.0] * 10}) is None
    assert critical_difference({name: [1.0] for name in "abc"}) is None


def test_the_picture_names_every_method_once_and_within_its_frame():
    ranks = {f"m{i}": list(np.random.default_rng(i).uniform(1, 7, 9)) for i in range(7)}
    picture = rank_picture(ranks)
    assert {mark.method for mark in picture.marks} == set(ranks)
    assert all(0 <= mark.y <= picture.height for mark in picture.marks)
    assert all(picture.left - 3 <= bar.low < bar.high <= picture.right + 3 for bar in picture.bars)
    assert len({(mark.anchor, mark.y) for mark in picture.marks}) == len(ranks)
