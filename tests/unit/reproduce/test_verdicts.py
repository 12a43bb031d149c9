"""What tables say: ranks, the gap to the truth, and who is ahead."""

import pytest

from groupnoise.reproduce.report.tables import gap_closed, mean_ranks, verdict


def test_ranks_are_averaged_over_the_sets_and_ties_are_shared(make_result):
    results = [
        make_result("ours", 0, 0.9, dataset="a"),
        make_result("cc", 0, 0.9, dataset="a"),
        make_result("supervised", 0, 1.0, dataset="a"),
        make_result("ours", 0, 0.7, dataset="b"),
        make_result("cc", 0, 0.8, dataset="b"),
        make_result("only here", 0, 0.9, dataset="b"),
    ]
    assert mean_ranks(results, ["supervised"]) == {"cc": [1.5, 1.0], "ours": [1.5, 2.0]}


def test_one_set_alone_gives_no_mean_rank(make_result):
    assert mean_ranks([make_result("ours", 0, 0.9)]) == {}


def test_the_gap_is_measured_from_pairwise_to_the_truth(make_result):
    values = {"pairwise": 0.4, "ours": 0.7, "supervised": 0.8}
    results = [make_result(method, 0, value) for method, value in values.items()]
    assert gap_closed(results) == {"pairwise": pytest.approx(0.75)}
    assert gap_closed(results[:2]) == gap_closed([]) == {}


def test_the_best_rival_is_named_and_upper_bounds_are_none(make_result):
    results = [
        make_result(method, seed, value + seed / 100 * step)
        for method, value, step in [("ours", 0.8, 1), ("cc", 0.7, 2), ("supervised", 0.9, 1)]
        for seed in range(3)
    ]
    words = verdict(results, ["supervised"])
    assert words.startswith("ours is ahead of cc by 0.090 in accuracy (paired t-test over 3 trials")


def test_methods_without_a_trial_in_common_are_not_judged(make_result):
    assert verdict([make_result("ours", 0, 0.8), make_result("cc", 1, 0.7)]) == ""
