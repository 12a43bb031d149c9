"""Comparing methods on one data set: the same splits, honest intervals, a budget."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from scipy import stats

from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks import make_shop
from groupnoise.exceptions import ParameterError
from groupnoise.io.datasets import subset_rows
from groupnoise.io.setting import setting_of
from groupnoise.reproduce.compare import compare_methods, make_estimator, methods_to_compare
from groupnoise.reproduce.comparison import (
    ComparedMethod,
    ComparisonOfMethods,
    adjusted_means,
    corrected_interval,
)
from groupnoise.reproduce.report.pages import comparison_page


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


def test_an_interval_wider_than_the_scale_calls_no_method_level():
    figures = {"one": (0.9, 0.1, 1.0), "other": (0.1, 0.9, 0.6)}
    methods = tuple(
        ComparedMethod(name, tuple({"hit": value} for value in values))
        for name, values in figures.items()
    )
    result = ComparisonOfMethods("few", "mil", "hit", False, 3, 0.2, methods)
    assert result.is_inconclusive(methods[1])
    assert not result.is_inconclusive(methods[0])
    assert result.verdict().endswith("there are too few groups to tell.")
    page = comparison_page(result, "groupnoise fit few")
    assert "too few groups to tell" in page
    assert ", level" not in page


def test_one_split_has_no_interval():
    assert math.isnan(corrected_interval([0.7], 0.2).low)


def test_all_methods_see_the_same_splits_and_the_best_comes_first(digits):
    result = compare(digits, "pl-knn", "clpl", n_splits=2)
    assert result.metric == "accuracy"
    assert result.n_splits == 2
    means = [result.interval(each).mean for each in result.methods]
    assert means == sorted(means, reverse=True)
    assert result.is_tied(result.leader)
    again = compare(digits, "pl-knn", n_splits=2)
    knn = next(each for each in result.methods if each.name == "pl-knn")
    assert knn.splits == again.leader.splits


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


def compared(**values):
    """A comparison of methods, each with its values on the first splits, best first."""
    methods = [
        ComparedMethod(name, tuple({"hit": value} for value in each))
        for name, each in values.items()
    ]
    means = adjusted_means(methods, "hit")
    methods.sort(key=lambda each: -means[each.name])
    n_splits = max(len(each) for each in values.values())
    return ComparisonOfMethods("data", "rs", "hit", False, n_splits, 0.2, tuple(methods))


def test_a_split_that_some_lack_counts_for_those_that_have_it_and_favours_nobody():
    """The second split is hard; who was not run on it is not ahead for that."""
    result = compared(cheap=[0.80, 0.50], good=[0.82, 0.53], dear=[0.81])
    assert [each.name for each in result.methods] == ["good", "dear", "cheap"]
    assert result.interval(result.methods[1]).mean == pytest.approx(0.66, abs=0.01)
    assert [row["n_splits"] for row in result.as_record()["methods"]] == [2, 1, 2]
    assert result.behind(result.methods[2]).mean == pytest.approx(0.025)
    assert "mean over up to 2 splits" in result.heading("histories")


def test_a_winner_is_named_only_where_the_interval_tells():
    near = compared(a=[0.80, 0.70, 0.75], b=[0.79, 0.72, 0.73])
    assert near.winner is None
    assert near.as_record()["winner"] is None
    assert near.as_record()["leader"] == "a"
    assert near.verdict() == (
        "a has the highest mean, but the data cannot tell it from b: none is ahead beyond chance."
    )
    clear = compared(a=[0.80, 0.70, 0.75], b=[0.59, 0.51, 0.55])
    assert clear.winner is clear.leader
    assert clear.verdict() == "a is ahead of the others beyond chance."


def test_methods_that_differ_by_nothing_stand_at_one_place_on_the_page():
    page = comparison_page(compared(a=[1.0] * 5, b=[1.0 - 1e-12] * 5), "groupnoise fit few")
    places = re.findall(r'class="mean" cx="([\d.]+)"', page)
    assert len(set(places)) == 1
    ticks = re.findall(r'class="tick"[^>]*>([\d.]+)<', page)
    assert len(set(ticks)) == len(ticks) > 2


def test_one_split_names_no_winner():
    once = compared(a=[0.9], b=[0.1])
    assert once.winner is None
    assert (
        once.verdict()
        == "a has the highest mean, but one split cannot show whether that is chance."
    )


def test_many_that_are_level_are_not_all_named():
    names = {name: [0.7, 0.6, 0.65 + 0.001 * number] for number, name in enumerate("abcdef")}
    assert compared(**names).verdict().count(",") == 3


def test_finished_fits_of_a_split_that_was_cut_short_count(digits, monkeypatch):
    import groupnoise.reproduce.compare as module

    clock = iter(range(0, 1000, 10))  # a second split begins within the budget, and is not ended
    monkeypatch.setattr(module.time, "perf_counter", lambda: float(next(clock)))
    result = compare(digits, "pl-knn", "clpl", n_splits=3, budget=85.0)
    assert {each.name: len(each.splits) for each in result.methods} == {"pl-knn": 2, "clpl": 1}
    (note,) = result.notes
    assert "the budget was spent after 3 of 6 fits" in note


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
    assert result.leader.name == "pl-knn"
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


def test_few_histories_held_out_are_said_to_say_little():
    few = compare(make_shop(n_users=40, random_state=0), "popularity", n_splits=1)
    assert "each split holds out 8 histories: that says little" in " ".join(few.notes)
    more = compare(make_shop(n_users=60, random_state=0), "popularity", n_splits=1)
    assert "says little" not in " ".join(more.notes)
