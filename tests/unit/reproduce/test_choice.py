"""Which method a fit takes when held-out groups decide."""

import pytest

from groupnoise.bags.digits import load_digit_bags
from groupnoise.io.setting import setting_of
from groupnoise.reproduce.choice import choose_method, method_taken
from groupnoise.reproduce.compare import ComparedMethod, ComparisonOfMethods


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
    assert method_taken(comparison(**{"max-matching": ours, "milr": milr})) == taken


def test_the_sentence_names_what_was_measured_and_who_was_behind():
    data = load_digit_bags(40, size=(3, 5), random_state=0)
    choice = choose_method(setting_of(data), data, budget=1e-3, seed=0)
    assert choice.method.name == "max-matching"
    assert "instance AUROC" in choice.sentence
    assert "by true labels of the training part" in choice.sentence
    assert choice.comparison.n_splits == 1
