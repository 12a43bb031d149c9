"""Choosing settings: by validation alone, once per criterion, once per reading."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from groupnoise import (
    MaxMatchingMILClassifier,
    MaxMatchingMIPLClassifier,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
)
from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks import make_shop, split_clicks
from groupnoise.io.datasets import subset_bags
from groupnoise.reproduce.run import Method, run_method, summarise
from groupnoise.reproduce.trials import BagTrial, CandidateTrial, ClickTrial, fit_monitored

N_ITEMS = len(make_shop(80, random_state=0).item_ids)


class Told:
    """An estimator that reports the figures it is made with."""

    def __init__(self, oracle, free, test, keep="last", random_state=0):
        self.oracle, self.free, self.test, self.keep = oracle, free, test, keep

    def fit(self, inputs, targets, *, validate=None):
        validate(self)


class ToldTrial:
    """A trial that asks such an estimator."""

    setting, dataset, seed, criteria = "pll", "told", 3, ("oracle", "free")

    def fit(self, estimator, *, supervised=False):
        return fit_monitored(self, estimator, None, None)

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


class Learning:
    """An estimator whose criteria are best at different epochs, of which it keeps one."""

    def __init__(self, keep):
        self.keep = keep

    def fit(self, inputs, targets, *, validate=None):
        epochs = [{"oracle": 1, "free": 9}, {"oracle": 8, "free": 2}, {"oracle": 3, "free": 3}]
        for values in epochs:
            self.__dict__.update(values)
            validate(self)
        self.__dict__.update(epochs[1] if self.keep == "best" else epochs[2])


@pytest.mark.parametrize(("keep", "kept"), [("best", (8, 9)), ("last", (3, 3))])
def test_one_fit_serves_every_criterion_with_its_own_best_epoch(keep, kept):
    watched = fit_monitored(ToldTrial(), Learning(keep), None, None)
    assert (watched.kept["oracle"].oracle, watched.kept["free"].free) == kept


def test_what_is_followed_is_taken_down_after_every_epoch():
    watched = fit_monitored(
        ToldTrial(), Learning("best"), None, None, follow=lambda fitted: fitted.free
    )
    assert watched.followed == [9, 2, 3]


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


class Counting:
    """A recommender that validates best in its second epoch, and remembers what it was shown."""

    fits: list = []

    def __init__(self, max_epochs, bonus=0.0, random_state=0):
        self.max_epochs, self.bonus = max_epochs, bonus

    def fit(self, histories, y=None, *, item_ids=None, validate=None):
        values = [0.1, 0.3, 0.2][: self.max_epochs]
        records = [{"epoch": 1 + n, "validation": value} for n, value in enumerate(values)]
        self.history_ = records if validate else []
        Counting.fits.append((self.max_epochs, len(histories)))

    def scores(self, histories, items=None):
        shape = (len(histories), N_ITEMS) if items is None else items.shape
        return np.full(shape, self.bonus)


def test_what_was_chosen_is_fitted_anew_with_the_validation_windows():
    clicks = make_shop(80, random_state=0)
    split = split_clicks(clicks.histories, "authors")
    trial = ClickTrial("shop", 0, clicks, split, refits=True)
    Counting.fits.clear()
    make = partial(Counting, max_epochs=3)
    method = Method("count", make, {"bonus": [0.0, 1.0]}, readings={"same": {}})
    results, estimator = run_method(trial, method)
    n_train, n_validation = len(split.train.groups), len(split.validation.groups)
    # Two settings on the training part; then the chosen one, for two epochs, for both rows.
    assert Counting.fits == [(3, n_train), (3, n_train), (2, n_train + n_validation)]
    assert [result.n_fits for result in results] == [3, 3]
    assert estimator.max_epochs == 2


class CountingPair(Counting):
    """The same with two members, the second a little better and best in its first epoch."""

    def fit(self, histories, y=None, *, item_ids=None, validate=None):
        super().fit(histories, y, item_ids=item_ids, validate=validate)
        self.history_ += [
            {**record, "validation": 0.5 - record["validation"]} for record in self.history_
        ]


def test_members_are_fitted_anew_for_the_epochs_of_one_of_them():
    clicks = make_shop(80, random_state=0)
    trial = ClickTrial("shop", 0, clicks, split_clicks(clicks.histories, "authors"), refits=True)
    _, estimator = run_method(trial, Method("pair", partial(CountingPair, max_epochs=3)))
    assert estimator.max_epochs == 1


def test_bags_of_one_label_are_a_trial_for_pairs_of_instance_and_label_too():
    bags = load_digit_bags(40, random_state=0)
    parts = (subset_bags(bags, np.arange(start, 40, 3)) for start in range(3))
    make = partial(MaxMatchingMIPLClassifier, hidden=(4,), max_epochs=1)
    (result,), _ = run_method(BagTrial("digits", 0, *parts), Method("pairs", make))
    assert set(result.metrics) == {"accuracy"}


def test_labelled_instances_in_the_order_of_their_bags_are_no_mistake():
    bags = load_digit_bags(60, random_state=0)
    truth = np.repeat(np.arange(60) % 6, bags.bags.sizes)
    part = replace(bags, instance_labels=truth)
    model = MaxMatchingMILClassifier.fixed(encoder="identity", max_epochs=1)
    watched = BagTrial("digits", 0, part, part, part).fit(model, supervised=True)
    assert watched.n_epochs == 1


def test_ages_are_also_counted_within_a_tolerance():
    draw = partial(load_digit_candidates, random_state=0)
    parts = [draw(part=part) for part in ("train", "validation", "test")]
    trial = CandidateTrial("digits", 0, *parts, ordered=True)
    make = partial(MaxMatchingPartialLabelClassifier.fixed, encoder="linear", max_epochs=1)
    results, _ = run_method(trial, Method("ours", make))
    metrics = results[0].metrics
    assert metrics["accuracy"] <= metrics["MAE3"] <= metrics["MAE5"] <= 1


def test_rows_keep_criteria_apart():
    results, _ = run_method(ToldTrial(), Method("told", Told, GRID))
    rows = summarise([*results, *results])
    assert [(row["criterion"], row["trials"]) for row in rows] == [("oracle", 2), ("free", 2)]
    expected = {"setting", "dataset", "method", "metric", "mean", "std", "trials", "criterion"}
    assert set(rows[0]) == expected
