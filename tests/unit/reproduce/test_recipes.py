"""Recipes: rows that build on others, protocols, and what is refused."""

import pytest

from groupnoise.exceptions import ConfigError
from groupnoise.reproduce.files import read_recipe

RECIPE = """
setting = "mil"
datasets = ["sival"]
stand_ins = { sival = ["digit-bags"] }

[protocol]
fractions = [0.8, 0.1, 0.1]
trials = 3

[paper]
selection = "max"
learning_rate = [1e-1, 1e-2]

[ours]
selection = "marginal"

[dataset.digit-bags.paper]
batch_size = 16

[variant.pairwise]
like = "paper"
selection = "all"

[variant.supervised]
like = "pairwise"
supervised = true

[baseline.milr-plain]
method = "milr"
scaling = ["standard", "l2"]
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"

    def read(*changes):
        text = RECIPE
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        path.write_text(text)
        return read_recipe(path)

    return read


def test_a_row_like_another_takes_its_settings_those_of_the_data_set_included(recipe):
    method = recipe().method("supervised", "digit-bags")
    expected = {"selection": ["all"], "learning_rate": [0.1, 0.01], "batch_size": [16]}
    assert method.grid == expected
    assert method.supervised
    assert "batch_size" not in recipe().method("pairwise", "sival").grid


def test_a_rival_may_be_a_method_under_another_name_and_be_prepared(recipe):
    method = recipe().method("milr-plain", "sival")
    estimator = method.make(scaling="l2", random_state=0)
    assert estimator.scaling == "l2"
    assert type(estimator).__name__ == "MILRClassifier"
    assert method.make(random_state=0).scaling == "standard"


def test_a_quick_run_takes_one_setting_and_few_epochs(recipe):
    grid = recipe().method("paper", "sival", quick=True).grid
    assert grid["learning_rate"] == [0.1]
    assert grid["max_epochs"] == [2]


def test_upper_bounds_and_stand_ins_are_known(recipe):
    assert recipe().upper_bounds == ("supervised",)
    assert recipe().all_datasets == ("sival", "digit-bags")


def test_a_split_may_be_asked_for_by_its_parts(recipe):
    assert recipe().with_protocol("7:2:1").protocol["fractions"] == [0.7, 0.2, 0.1]
    with pytest.raises(ConfigError, match=r"split like 8:1:1; got 'leave_one_out'"):
        recipe().with_protocol("leave_one_out")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('like = "paper"', 'like = "papr"'), "did you mean 'paper'"),
        (("[dataset.digit-bags.paper]", "[dataset.digit-bags.papr]"), "did you mean 'paper'"),
        (("[dataset.digit-bags", "[dataset.digit-bag"), "did you mean 'digit-bags'"),
        (('method = "milr"', 'method = "mirl"'), "mirl"),
        (('scaling = ["standard", "l2"]', "scalin = 1"), "did you mean 'scaling'"),
        (("trials = 3", ""), "lacks the key 'trials'"),
        (('["sival"]\nstand', '["sivall"]\nstand'), "did you mean 'sivall'"),
    ],
)
def test_what_is_misspelt_is_named(recipe, change, words):
    with pytest.raises(ValueError, match=words):
        recipe(change)


def test_a_baseline_may_be_shown_the_truth_and_read_otherwise_on_one_data_set(tmp_path):
    path = tmp_path / "ages.toml"
    path.write_text(
        """
setting = "pll"
datasets = ["lost", "fg-net"]

[protocol]
fractions = [0.8, 0.1, 0.1]
trials = 1

[baseline.lr-truth]
method = "soft-lr"
supervised = true

[dataset.fg-net.lr-truth]
ordinal_smoothing = 4.0

[reading.lr-truth-unsmoothed]
of = "lr-truth"
ordinal_smoothing = 0.0
datasets = ["fg-net"]
""",
        encoding="utf-8",
    )
    recipe = read_recipe(path)
    assert recipe.upper_bounds == ("lr-truth",)
    assert recipe.method("lr-truth", "lost").readings == {}
    ages = recipe.method("lr-truth", "fg-net")
    assert ages.readings == {"lr-truth-unsmoothed": {"ordinal_smoothing": 0.0}}
    (settings,) = ages.settings()
    assert ages.make(**settings, random_state=0).ordinal_smoothing == 4.0
    path.write_text(path.read_text(encoding="utf-8").replace('["fg-net"]', '["fg"]'), "utf-8")
    with pytest.raises(ConfigError, match=r"reading.lr-truth-unsmoothed\] datasets.*'fg'"):
        read_recipe(path)
