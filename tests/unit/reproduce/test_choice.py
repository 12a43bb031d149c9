"""Which method a fit takes when held-out groups decide."""

from functools import partial

import numpy as np
import pytest

from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks.shop import make_shop
from groupnoise.io.setting import setting_of
from groupnoise.reproduce import compare
from groupnoise.reproduce.comparison import ComparedMethod, ComparisonOfMethods
from groupnoise.reproduce.methods import (
    BASELINES,
    OURS,
    choose_method,
    compared_parameters,
    find_method,
    preferred_method,
)


def comparison(**values):
    methods = [
        ComparedMethod(name, tuple({"bag AUROC": each} for each in splits))
        for name, splits in values.items()
    ]
    methods.sort(key=lambda each: -each.values("bag AUROC").mean())
    return ComparisonOfMethods(
        "bags", "mil", "bag AUROC", False, len(splits_of(values)), 0.2, (*methods,)
    )


def splits_of(values):
    return next(iter(values.values()))


@pytest.mark.parametrize(
    ("ours", "milr", "taken"),
    [
        ([0.90, 0.91, 0.92], [0.80, 0.81, 0.82], "max-matching"),
        ([0.80, 0.81, 0.82], [0.90, 0.91, 0.92], "milr"),
        ([0.80, 0.90, 0.85], [0.88, 0.84, 0.86], "max-matching"),  # ahead by chance
        ([0.80], [0.90], "max-matching"),  # one split tells nothing of chance
    ],
)
def test_a_baseline_is_taken_only_where_it_is_ahead_beyond_chance(ours, milr, taken):
    assert preferred_method(comparison(**{"max-matching": ours, "milr": milr})) == taken


def test_who_tells_no_more_than_chance_is_told_so():
    noise = comparison(milr=[0.50, 0.66, 0.42], **{"max-matching": [0.58, 0.17, 0.42]})
    said = "may tell no more than chance, whose AUROC is 0.5"
    assert f" milr {said}" in noise.verdict()
    assert noise.chance_warning(preferred_method(noise)).startswith(f" max-matching {said}")
    known = comparison(milr=[0.70, 0.81, 0.62], **{"max-matching": [0.88, 0.77, 0.92]})
    assert not known.chance_warning("milr")
    assert "chance" not in known.verdict().replace("beyond chance", "")


def few_candidates(random_state):
    data = load_digit_candidates(part="validation", random_state=random_state)
    return setting_of(data).subset(data, np.arange(48))


DATA = {
    "mil": partial(load_digit_bags, 40, size=(3, 5)),
    "pll": few_candidates,
    "rs": partial(make_shop, n_users=60),
}
MEASURED = {
    "mil": ("instance AUROC", "by true labels of the training part"),
    "pll": ("accuracy", "by true labels of the training part"),
    "rs": ("full NDCG@10", "without true labels"),
}


DECIDED = {
    "mil": {"encoder": "identity", "likelihood": "max"},
    "pll": {"encoder": "linear", "max_epochs": 4},
    "rs": {"normalization": "click", "max_epochs": 1, "dim": 4},
}
"""What leaves a plain fit little to decide."""


@pytest.mark.parametrize("setting", DATA)
def test_the_sentence_names_what_was_measured(setting, monkeypatch):
    def parameters(entry):
        return compared_parameters(entry) | (DECIDED[setting] if entry.name == OURS else {})

    monkeypatch.setattr(compare, "compared_parameters", parameters)
    data = DATA[setting](random_state=0)
    choice = choose_method(setting_of(data), data, budget=1e-3, seed=0)
    assert choice.method.name == "max-matching"
    assert all(words in choice.sentence for words in MEASURED[setting])
    assert choice.comparison.n_splits == 1


def test_every_baseline_that_is_asked_exists():
    for setting, names in BASELINES.items():
        assert all(find_method(name, setting).setting == setting for name in names)
