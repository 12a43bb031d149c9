"""Tables and the geometry on the page."""

import numpy as np
import pytest

from groupnoise.pages import Scale, curve_chart, grey_cells, round_values
from groupnoise.reproduce.report.tables import compare, result_table


def test_the_best_figure_is_never_that_of_an_upper_bound(make_result):
    results = [
        make_result("ours", 0, 0.5),
        make_result("baseline", 0, 0.4),
        make_result("bound", 0, 0.9),
    ]
    table = result_table(results, ["bound"])
    assert [row.figures[0].is_best for row in table.rows] == [True, False, False]


def test_a_comparison_counts_trial_by_trial(make_result):
    results = [make_result("ours", 0, 0.5), make_result("ours", 1, 0.4)]
    results += [make_result("baseline", 1, 0.5), make_result("baseline", 0, 0.1)]
    (comparison,) = compare(results, "ours", ["baseline"], "accuracy")
    assert comparison.lead == pytest.approx((0.4 - 0.1) / 2)
    assert (comparison.n_ahead, comparison.n_trials) == (1, 2)


def test_a_trial_that_one_of_both_lacks_is_not_compared(make_result):
    results = [make_result("ours", 0, 0.5), make_result("ours", 2, 0.4)]
    results += [
        make_result("baseline", 1, 0.9),
        make_result("baseline", 2, 0.5),
        make_result("late", 3, 0.5),
    ]
    (comparison,) = compare(results, "ours", ["baseline", "late"], "accuracy")
    assert comparison.baseline == "baseline"
    assert comparison.lead == pytest.approx(-0.1)
    assert (comparison.n_ahead, comparison.n_trials) == (0, 1)


def test_deviations_are_those_of_a_sample(make_result):
    table = result_table([make_result("ours", 0, 0.2), make_result("ours", 1, 0.4)])
    assert table.rows[0].figures[0].deviation == pytest.approx(np.std([0.2, 0.4], ddof=1))


def test_names_at_the_ends_of_curves_keep_their_distance():
    chart = curve_chart({str(place): [[0.1, 0.5 + place / 1000]] for place in range(6)})
    places = sorted(curve.label_position for curve in chart.curves)
    assert np.diff(places).min() >= 14.9
    assert max(places) <= chart.bottom + 0.01


def test_a_trial_that_stopped_early_shortens_its_curve():
    chart = curve_chart({"ours": [[0.1, 0.2, 0.3], [0.1, 0.2]]})
    assert len(chart.curves[0].line.split()) == 2


def test_nothing_watched_gives_no_chart():
    assert curve_chart({"ours": [[]]}) is None


def test_a_scale_without_width_maps_to_the_middle():
    assert Scale(0.5, 0.5, 0, 10)(0.5) == 5


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.41, 0.97), (0.9, 0.95), (0.123, 0.125)])
def test_ticks_are_few_and_inside(low, high):
    ticks = round_values(low, high)
    assert 3 <= len(ticks) <= 9
    assert low - 1e-9 <= min(ticks)
    assert max(ticks) <= high + 1e-9


def test_a_picture_has_one_cell_for_each_dark_place():
    image = np.array([[0.0, 1.0], [0.5, 1.0]])
    assert grey_cells(image) == [(0.5, "M0 1h1v1h-1z"), (1.0, "M1 0h1v1h-1zM1 1h1v1h-1z")]
