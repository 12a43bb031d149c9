"""Comparing methods on one data set: the same splits, honest intervals, a budget."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks import make_shop
from groupnoise.exceptions import ParameterError
from groupnoise.io.datasets import subset_rows
from groupnoise.io.setting import setting_of
from groupnoise.reproduce.compare import (
    compare_methods,
    corrected_interval,
    make_estimator,
    methods_to_compare,
)


@pytest.fixture(scope="module")
def digits():
    return subset_rows(load_digit_candidates(part="train", random_state=0), np.arange(240))


def compare(dataset, *names, **options):
    setting = setting_of(dataset)
    return compare_methods(setting, dataset, methods_to_compare(setting.name, names), **options)


def test_the_interval_is_that_of_nadeau_and_bengio():
    values, share = [0.7, 0.8, 0.75, 0.9], 0.25
    found = corrected_interval(values, share)
    variance = (1 / 4 + 1 / 3) * np.var(values, ddof=1)
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=math.sqrt(variance))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_one_split_has_no_interval():
    assert math.isnan(corrected_interval([0.7], 0.2).low)


def test_all_methods_see_the_same_splits_and_the_best_comes_first(digits):
    result = compare(digits, "pl-knn", "clpl", n_splits=2)
    assert result.metric == "accuracy"
    assert result.n_splits == 2
    means = [result.interval(each).mean for each in result.methods]
    assert means == sorted(means, reverse=True)
    assert result.is_level(result.winner)
    again = compare(digits, "pl-knn", n_splits=2)
    knn = next(each for each in result.methods if each.name == "pl-knn")
    assert knn.splits == again.winner.splits


def test_without_truth_methods_are_ranked_by_what_needs_none(digits):
    from dataclasses import replace

    result = compare(replace(digits, truth=None), "pl-knn", n_splits=1)
    assert not result.needs_truth
    assert "covering" in result.metric or "approximated" in result.metric


def test_a_spent_budget_leaves_whole_splits_and_says_so(digits):
    result = compare(digits, "pl-knn", "clpl", n_splits=3, budget=0.0)
    assert [each.failed is None for each in result.methods] == [True, False]
    assert "budget" in result.methods[1].failed
    assert result.is_alone
    (note,) = [note for note in result.notes if "budget was spent" in note]
    assert "pl-knn is the only one that was run; clpl would begin after that" in note
    assert "--budget" in note


def test_what_is_cheap_is_run_first_and_ours_before_networks():
    names = [each.name for each in methods_to_compare("mil")]
    assert names.index("milr") < names.index("max-matching") < names.index("attention-mil")
    named = methods_to_compare("rs", ["sasrec", "max-matching", "popularity"])
    assert [each.name for each in named] == ["popularity", "max-matching", "sasrec"]


def test_a_method_that_fails_is_told_and_the_others_go_on(digits, monkeypatch):
    from groupnoise.candidates.baselines import CLPLClassifier

    def refuse(*_, **__):
        raise ParameterError("cannot learn this.")

    monkeypatch.setattr(CLPLClassifier, "fit", refuse)
    result = compare(digits, "clpl", "pl-knn", n_splits=1)
    assert result.winner.name == "pl-knn"
    assert result.methods[-1].failed == "cannot learn this."
    assert result.as_record()["methods"][-1] == {"method": "clpl", "failed": "cannot learn this."}


def test_a_misspelt_method_is_named():
    with pytest.raises(ParameterError, match="pl-nn"):
        methods_to_compare("pll", ["pl-nn"])


def test_recommenders_are_compared_over_the_catalogue():
    result = compare(make_shop(n_users=60, random_state=0), "popularity", "item-cf", n_splits=1)
    assert result.metric == "full NDCG@10"


@pytest.mark.parametrize("name", ["mi-net", "pl-knn"])
def test_baselines_without_a_scaling_get_the_scaling_of_ours(name):
    setting = "mil" if name == "mi-net" else "pll"
    (entry,) = methods_to_compare(setting, [name])
    made = make_estimator(entry, 0)
    assert made.scaling == "standard"
