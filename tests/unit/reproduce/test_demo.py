"""The demonstration: fair by construction, repeatable, and complete."""

import pytest

from groupnoise.exceptions import ParameterError
from groupnoise.reproduce.demo import demo_tasks, run_demo
from groupnoise.reproduce.run import summarise

METHODS = {
    *("pairwise", "matching", "maximizing", "max_matching", "max_matching_paper", "supervised"),
}


@pytest.mark.parametrize("task", demo_tasks(), ids=lambda task: task.setting)
def test_methods_differ_in_their_objective_alone(task):
    estimators = [method.make().get_params() for method in task.methods()]
    varying = {name for name in estimators[0] if len({str(each[name]) for each in estimators}) > 1}
    assert varying == {"selection", "weighting_strength"}
    assert len({str(method.grid) for method in task.methods()}) == 1


def test_only_the_upper_bound_is_shown_the_truth():
    for task in demo_tasks():
        assert [m.name for m in task.methods() if m.supervised] == ["supervised"]


def test_every_method_has_every_metric_of_its_setting(quick_demo):
    metrics = {}
    for row in summarise(quick_demo.results):
        assert row["trials"] == 2
        metrics.setdefault((row["setting"], row["metric"]), set()).add(row["method"])
    assert set(metrics) == {
        *(("mil", "accuracy"), ("mil", "chosen right")),
        *(("pll", "accuracy"), ("pll", "chosen right")),
        *(("rs", "HIT@10"), ("rs", "NDCG@10"), ("rs", "chosen right")),
    }
    assert all(methods == METHODS for methods in metrics.values())


def test_one_seed_gives_one_result(quick_demo):
    again = run_demo(demo_tasks(["mil"], quick=True), [1], n_jobs=1)
    before = [r for r in quick_demo.results if r.setting == "mil" and r.seed == 1]
    assert [(r.method, r.metrics, r.curve) for r in again.results] == [
        (r.method, r.metrics, r.curve) for r in before
    ]


def test_an_unknown_setting_is_refused_with_those_there_are():
    with pytest.raises(ParameterError, match="'mil', 'pll', 'rs'; got 'bags'"):
        demo_tasks(["bags"])
