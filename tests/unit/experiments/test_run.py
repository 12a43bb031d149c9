"""Choosing settings: by validation alone, once per criterion, once per reading."""

from functools import partial

import pytest

from groupnoise.datasets import load_digit_candidates, make_shop, split_clicks
from groupnoise.estimators import MaxMatchingPartialLabelClassifier, MaxMatchingRecommender
from groupnoise.experiments import CandidateTrial, ClickTrial, Method, run_method, summarise
from groupnoise.experiments._run import count_fits


class Told:
    """An estimator that reports the figures it is made with."""

    def __init__(self, oracle, free, test, keep="last", random_state=0):
        self.oracle, self.free, self.test, self.keep = oracle, free, test, keep

    def fit(self, inputs, targets, *, validate=None):
        validate(self)


class ToldTrial:
    """A trial that asks such an estimator."""

    setting, dataset, seed, criteria = "pll", "told", 3, ("oracle", "free")

    def __init__(self):
        self.fitted_for = []

    def fit(self, estimator, criterion, *, supervised=False):
        self.fitted_for.append(criterion)
        return []

    def validation_value(self, estimator, criterion):
        return getattr(estimator, criterion)

    def test_metrics(self, estimator):
        return {"accuracy": estimator.test}

    def chosen_right(self, estimator):
        return None


GRID = {"oracle": [0.1, 0.9], "free": [0.8, 0.2], "test": [0.5]}


def test_each_criterion_chooses_its_own_setting():
    results, best = run_method(ToldTrial(), Method("told", Told, GRID))
    assert [result.criterion for result in results] == ["oracle", "free"]
    assert results[0].chosen_settings["oracle"] == 0.9
    assert results[1].chosen_settings["free"] == 0.8
    assert best.oracle == 0.9


def test_test_figures_choose_nothing():
    grid = {"oracle": [0.9, 0.1], "free": [0.5], "test": [0.0, 1.0]}
    results, _ = run_method(ToldTrial(), Method("told", Told, grid))
    assert results[0].metrics == {"accuracy": 0.0}  # the first of the best by validation


@pytest.mark.parametrize(("keep", "n_fits"), [("last", 4), ("best", 8)])
def test_a_fit_serves_all_criteria_unless_one_picks_its_epoch(keep, n_fits):
    trial, method = ToldTrial(), Method("told", partial(Told, keep=keep), GRID)
    results, _ = run_method(trial, method)
    assert len(trial.fitted_for) == results[0].n_fits == n_fits
    assert count_fits(method, trial.criteria) == n_fits


def test_a_reading_asks_the_same_fits_otherwise():
    clicks = make_shop(80, random_state=0)
    trial = ClickTrial("shop", 0, clicks, split_clicks(clicks.histories, "authors"))
    make = partial(MaxMatchingRecommender, dim=8, max_epochs=2, candidates="full")
    method = Method("ours", make, {"learning_rate": [1e-2]}, readings={"mm": {"scope": "last"}})
    (group, last), estimator = run_method(trial, method)
    assert (group.method, last.method) == ("ours", "mm")
    assert group.n_fits == last.n_fits == 1
    assert group.metrics != last.metrics
    assert estimator.scope == "group"
    estimator.scope = "last"
    assert trial.test_metrics(estimator).items() <= last.metrics.items()


def test_ages_are_also_counted_within_a_tolerance():
    draw = partial(load_digit_candidates, random_state=0)
    parts = [draw(part=part) for part in ("train", "validation", "test")]
    trial = CandidateTrial("digits", 0, *parts, ordered=True)
    make = partial(MaxMatchingPartialLabelClassifier, encoder="linear", max_epochs=1)
    results, _ = run_method(trial, Method("ours", make))
    metrics = results[0].metrics
    assert metrics["accuracy"] <= metrics["MAE3"] <= metrics["MAE5"] <= 1


def test_rows_keep_criteria_apart():
    results, _ = run_method(ToldTrial(), Method("told", Told, GRID))
    rows = summarise([*results, *results])
    assert [(row["criterion"], row["trials"]) for row in rows] == [("oracle", 2), ("free", 2)]
    expected = {"setting", "dataset", "method", "metric", "mean", "std", "trials", "criterion"}
    assert set(rows[0]) == expected
