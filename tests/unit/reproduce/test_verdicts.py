"""What tables say: ranks, the gap to the truth, and who is ahead."""

import pytest

from groupnoise.reproduce.report.tables import gap_closed, mean_ranks, rank_tests, verdict


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
    assert words.startswith(
        "ours is ahead of cc by 0.090 in accuracy, 95 % interval +0.065 to +0.1"
    )
    assert "(paired t-test over 3 trials: p = 0.004)" in words
    corrected = verdict(results, ["supervised"], test_to_train=1 / 8)
    assert "(corrected resampled t-test over 3 trials: p = 0.006)" in corrected


def test_baselines_are_tested_over_the_sets_where_there_are_enough(make_result):
    results = [
        make_result(method, 0, value + number / 1000, dataset=f"set {number}")
        for number in range(8)
        for method, value in (("ours", 0.8), ("cc", 0.7), ("ahead", 0.81), ("supervised", 0.9))
    ]
    found = rank_tests(results, ["supervised"])
    assert list(found) == ["cc", "ahead"]
    assert all(p == pytest.approx(2 * 2 / 2**8) for p in found.values())
    few = [r for r in results if r.dataset in ("set 0", "set 1")]
    assert rank_tests(few) == {}


def test_methods_without_a_trial_in_common_are_not_judged(make_result):
    assert verdict([make_result("ours", 0, 0.8), make_result("cc", 1, 0.7)]) == ""
