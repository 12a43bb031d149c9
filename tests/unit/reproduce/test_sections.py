"""The parts of a reproduction's report."""

from dataclasses import replace

import pytest

from groupnoise.reproduce.recipes import DatasetView, Reading, Recipe, Row
from groupnoise.reproduce.report.pages import make_sections
from groupnoise.reproduce.report.reproduction import (
    rank_pictures,
    reproduction_rows,
    signed_ranks,
)
from groupnoise.reproduce.running import Plan, Reproduction

ROWS = {"ours": Row("max-matching", {"learning_rate": [0.1, 0.01]}), "cc": Row("cc")}


def outcome(recipe, views, results):
    return Reproduction(Plan(recipe, (0, 1), recipe.row_names, tuple(views), {}, ()), results)


@pytest.fixture
def recipe():
    protocol = {"fractions": [0.8, 0.1, 0.1], "trials": 2}
    return Recipe("small", "pll", ("lost",), protocol, ROWS)


def test_levels_of_noise_are_the_columns_and_the_axes(recipe, make_result):
    levels = [(0.1, 3), (0.5, 3), (0.9, 3), (0.5, 2)]
    views = [DatasetView("lost", noise=level) for level in levels]
    results = [
        replace(
            make_result(method, seed, 0.9 - view.noise[0] / 2, dataset=view.label),
            criterion="oracle",
        )
        for view in views
        for method in ROWS
        for seed in (0, 1)
    ]
    (section,) = make_sections(outcome(replace(recipe, noise={"any": 1}), views, results))
    assert section.table.metrics == [
        "epsilon=0.1 tau=3",
        "epsilon=0.5 tau=3",
        "epsilon=0.9 tau=3",
        "epsilon=0.5 tau=2",
    ]
    titles = [titled.title for titled in section.charts]
    assert titles == [
        "Test accuracy over epsilon, tau = 3",
        "Test accuracy over tau, epsilon = 0.5",
    ]
    assert [tick.text for tick in section.charts[0].chart.x_ticks] == ["0.1", "0.5", "0.9"]
    assert section.charts[0].chart.x_title == "epsilon"


def test_a_method_without_epochs_has_a_level_line(recipe, make_result):
    view = DatasetView("bags", pair=0)
    results = [
        replace(
            make_result("ours", 0, 0.8, dataset=view.label),
            test_curve=[0.5, 0.7, 0.8],
            criterion="oracle",
        ),
        replace(make_result("cc", 0, 0.6, dataset=view.label), criterion="oracle"),
    ]
    pairs = replace(recipe, pair_step=1)
    (section,) = make_sections(outcome(pairs, [view], results))
    level = section.charts[0].chart.curves[1]
    assert len({point.split(",")[1] for point in level.line.split()}) == 1


def test_values_of_a_grid_are_counted_and_criteria_kept_apart(recipe, make_result):
    both = replace(recipe, protocol={**recipe.protocol, "criteria": ["oracle", "covering_rate"]})
    results = [
        replace(make_result("ours", seed, value, dataset="lost"), criterion=criterion)
        for seed in (0, 1)
        for criterion, value in (("oracle", 0.8), ("covering_rate", 0.6))
    ]
    (section,) = make_sections(outcome(both, [DatasetView("lost")], results))
    assert section.facts[0].chosen == "learning_rate: 0.1 (2)"
    assert section.table.rows[0].figures[0].mean == 0.8
    assert section.other_tables["covering_rate"].rows[0].figures[0].mean == 0.6


def test_rows_add_ranks_over_the_sets_without_further_readings(recipe, make_result):
    recipe = replace(recipe, readings={"ours-mm": Reading("ours", {})})
    results = [
        replace(make_result(method, seed, value, dataset=dataset), criterion="oracle")
        for dataset in ("a", "b")
        for method, value in (("ours", 0.9), ("ours-mm", 0.95), ("cc", 0.5))
        for seed in (0, 1)
    ]
    rows = reproduction_rows(outcome(recipe, [DatasetView("a"), DatasetView("b")], results))
    ranks = {row["method"]: row["mean"] for row in rows if row["metric"] == "mean rank"}
    assert ranks == {"ours": 1.0, "cc": 2.0}


def test_levels_of_noise_of_one_set_are_no_sets_to_test_over(recipe, make_result):
    recipe = replace(recipe, rows={**ROWS, "proden": Row("proden")})
    levels = [DatasetView("lost", noise=(number / 10, 3)) for number in range(1, 9)]
    sets = [DatasetView(f"set {number}") for number in range(8)]

    def under(views):
        results = [
            replace(make_result(method, 0, value, dataset=view.label), criterion="oracle")
            for view in views
            for method, value in (("ours", 0.9), ("cc", 0.5), ("proden", 0.4))
        ]
        return outcome(recipe, views, results)

    assert signed_ranks(under(sets))["oracle"]["cc"] < 0.05
    assert "oracle" in rank_pictures(under(sets))
    assert signed_ranks(under(levels)) == {}
    assert rank_pictures(under(levels)) == {}
