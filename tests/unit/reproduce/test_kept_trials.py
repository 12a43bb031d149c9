"""A trial that was kept on a line of a result file is read as it was written."""

import json
from pathlib import Path

import pytest

from groupnoise.reproduce.files import read_recipe, read_trial_line, trial_line
from groupnoise.reproduce.run import TrialResult
from groupnoise.reproduce.running import plan_reproduction

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def keeping(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import keep_reproduction

    return keep_reproduction


def trial(**changes):
    known = {
        "setting": "rs",
        "dataset": "toys epsilon=0.1",
        "method": "ours-mm",
        "seed": 21,
        "metrics": {"HIT@10": 0.5, "full HIT@10": 0.015625, "chosen right": -0.25},
        "validation": 0.25,
        "chosen_settings": {"hidden": [300], "temperature": [1.0, 0.3]},
        "curve": [],
        "seconds": 2.5,
        "processor_seconds": 2.5,
        "criterion": "validation",
        "n_fits": 4,
        "n_epochs": 240,
        "provenance": {"code": "0123456789ab", "ended": "2026-11-17T01:00:00+00:00"},
    }
    return TrialResult(**{**known, **changes})


FULL_ORIGIN = {
    "code": "0123456789ab",
    "commit": None,
    "dirty": False,
    "processor": "AMD EPYC",
    "cores": 2,
    "threads": 1,
    "load": 0.5,
    "ended": "2026-11-17T01:00:00+00:00",
}


@pytest.mark.parametrize(
    "changes", [{}, {"n_epochs": 0}, {"provenance": {}}, {"provenance": FULL_ORIGIN}]
)
def test_a_line_says_all_that_is_needed_to_read_the_trial_again(changes):
    kept = trial(**changes)
    assert read_trial_line("rs", trial_line(kept)) == kept


def test_lines_of_before_epochs_and_code_were_kept_are_read_too():
    line = (
        "lost | cc | oracle | seed 20 | accuracy=0.7500 chosen right=0.9000 | validation=0.6786 "
        "| {'scaling': 'l2'} | 16 fits, 39.1 s"
    )
    newer = read_trial_line("pll", f"{line} | code 0123456789ab, 2026-11-17T01:00:00+00:00")
    assert newer.provenance == {"code": "0123456789ab", "ended": "2026-11-17T01:00:00+00:00"}
    read = read_trial_line("pll", line)
    assert read.metrics == {"accuracy": 0.75, "chosen right": 0.9}
    assert (read.n_fits, read.n_epochs, read.processor_seconds) == (16, 0, 39.1)
    assert read.provenance == {}


RECIPE = """
setting = "mil"
datasets = ["digit-bags"]

[protocol]
fractions = [0.8, 0.1, 0.1]
trials = 2

[ours]
learning_rate = 0.1

[baseline.milr]
regularization = 1e-3

[baseline.mi-net]
learning_rate = 0.1
"""


def bag_trial(method, seed, learned):
    return trial(setting="mil", dataset="digit-bags", method=method, seed=seed, metrics=learned)


def test_methods_that_were_not_run_again_stay_and_changed_settings_are_told(keeping, tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE, encoding="utf-8")
    before = [
        bag_trial(method, seed, {"accuracy": 0.5})
        for seed in (0, 1)
        for method in ("ours", "milr", "mi-net")
    ]
    kept = {"recipe": RECIPE.splitlines(), "trials": [trial_line(each) for each in before]}
    results = tmp_path / "reproduce_small.json"
    results.write_text(json.dumps(kept), encoding="utf-8")
    changed = RECIPE.replace("1e-3", "[1e-3, 1e-2]").replace(
        "[baseline.mi-net]\nlearning_rate = 0.1", "[baseline.mi-net]\nlearning_rate = 0.2"
    )
    path.write_text(changed, encoding="utf-8")
    plan = plan_reproduction(read_recipe(path), [0, 1])
    fresh = [bag_trial("ours", 0, {"accuracy": 0.9}), bag_trial("mi-net", 0, {"accuracy": 0.7})]
    earlier, outdated = keeping.earlier_trials(plan, fresh, results)
    # Of ours the other seed stays; of milr both, marked; of mi-net nothing: its settings changed.
    assert [(each.method, each.seed) for each in earlier] == [("milr", 0), ("ours", 1), ("milr", 1)]
    assert outdated == ["digit-bags | milr"]
    merged = keeping.in_order(plan, [*earlier, *fresh])
    assert [each.method for each in merged] == ["ours", "milr", "mi-net", "ours", "milr"]
