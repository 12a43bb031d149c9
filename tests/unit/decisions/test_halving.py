"""Successive halving: who is kept, what a tie is, when time ends, what a resumed search repeats."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from groupnoise.decisions.halving import explain_not_best, successive_halving
from groupnoise.decisions.portfolio import Option, Stopwatch
from groupnoise.exceptions import CheckpointError, DataError, ParameterError, TrainingStopped

QUALITY = {"a": 0.1, "b": 0.5, "c": 0.9, "d": 0.3}
OPTIONS = [Option(name, {"strength": value}) for name, value in QUALITY.items()]


def constant(option, resource):
    return [QUALITY[option.name]] * 3


def names(options):
    return [option.name for option in options]


def test_the_better_half_goes_on_to_the_next_rung():
    search = successive_halving(OPTIONS, constant, rungs=(1, 2, 4))
    reached = {rung: {t.option for t in search.trials if t.rung == rung} for rung in range(3)}
    assert reached == {0: {"a", "b", "c", "d"}, 1: {"b", "c"}, 2: {"c"}}
    assert names(search.ranking) == ["c", "b", "d", "a"]
    assert not search.out_of_time


def test_each_rung_passes_its_resource():
    seen = []
    successive_halving(OPTIONS[:1], lambda option, r: seen.append(r) or [1.0], rungs=(5, 20))
    assert seen == [5, 20]


def test_a_later_rung_may_overturn_an_earlier_one():
    def late_bloomer(option, resource):
        return [{"b": 0.5, "c": 0.9}[option.name] if resource == 1 else option.name == "b"]

    search = successive_halving(OPTIONS[1:3], late_bloomer, rungs=(1, 2), keep=1.0)
    assert names(search.ranking) == ["b", "c"]


def test_within_one_standard_error_the_simpler_option_wins():
    noise = np.random.default_rng(0).normal(size=40)
    scores = {"deep": 0.01 + noise, "plain": np.zeros(40), "bad": np.full(40, -9.0)}
    options = [Option("deep", {}, complexity=5), Option("plain"), Option("bad")]
    search = successive_halving(options, lambda option, _: scores[option.name])
    assert names(search.ranking) == ["plain", "deep", "bad"]


def test_a_higher_score_that_was_passed_over_is_explained():
    noise = np.random.default_rng(0).normal(size=40)
    scores = {"deep": 0.01 + noise - noise.mean(), "plain": np.zeros(40)}
    options = [Option("deep", {}, complexity=5), Option("plain")]
    search = successive_halving(options, lambda option, _: scores[option.name])
    assert names(search.ranking) == ["plain", "deep"]
    (said,) = explain_not_best(search.trials, "plain")
    assert said.startswith("'deep' scored higher (0.0100, against 0.0000 of 'plain'), but not")
    assert said.endswith("of settings that are level the simpler one is taken.")
    assert explain_not_best(search.trials, "deep") == []


def test_a_gain_on_every_group_is_no_tie_however_much_groups_differ():
    hard = np.random.default_rng(0).normal(size=40)  # some groups are harder for all
    scores = {"deep": hard + 0.01, "plain": hard}
    options = [Option("plain"), Option("deep", complexity=5)]
    search = successive_halving(options, lambda option, _: scores[option.name])
    assert names(search.ranking) == ["deep", "plain"]


def test_an_option_that_fails_is_recorded_and_the_others_go_on():
    def fails(option, resource):
        if option.name == "c":
            raise DataError("too few rows.")
        return [np.nan] if option.name == "b" else constant(option, resource)

    search = successive_halving(OPTIONS, fails)
    notes = {trial.option: trial.failed for trial in search.trials}
    assert notes == {
        "a": None,
        "b": "its score is not a finite number",
        "c": "too few rows.",
        "d": None,
    }
    assert names(search.ranking) == ["d", "a"]


def test_where_every_option_fails_the_first_error_is_raised():
    def fails(option, resource):
        raise DataError(f"{option.name} failed.")

    with pytest.raises(DataError, match=r"a failed\."):
        successive_halving(OPTIONS, fails)


def test_a_training_asked_to_stop_stops_the_search():
    def stopped(option, resource):
        raise TrainingStopped("after epoch 3")

    with pytest.raises(TrainingStopped):
        successive_halving(OPTIONS, stopped)


def test_a_spent_budget_ends_the_search_after_the_first_option():
    search = successive_halving(OPTIONS, constant, rungs=(1, 2), budget=1e-9)
    assert search.out_of_time
    assert names(search.ranking) == ["a"]


def work(seconds):
    """Keep the processor busy, whatever else the machine does."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_waiting_for_others_counts_less_than_work():
    watch = Stopwatch()
    time.sleep(0.4)
    assert watch.seconds() < 0.3
    work(0.2)
    assert watch.seconds() >= 0.2


def test_a_trial_that_would_end_late_is_not_begun():
    def slow(option, resource):
        work(0.2)
        return constant(option, resource)

    search = successive_halving(OPTIONS, slow, budget=0.3)
    assert search.out_of_time
    assert len(search.trials) == 1


def test_when_time_ends_inside_a_rung_the_rest_keeps_its_earlier_order():
    clock = iter([0.0, 0.0, 0.0, 0.0, 0.3])

    def slow_at_last(option, resource):
        work(next(clock))
        return constant(option, resource)

    search = successive_halving(OPTIONS, slow_at_last, rungs=(1, 2), keep=0.75, budget=0.25)
    assert search.out_of_time
    assert [t.option for t in search.trials if t.rung == 1] == ["c"]
    assert names(search.ranking) == ["c", "b", "d", "a"]


def test_a_resumed_search_repeats_no_finished_trial_and_ends_the_same(tmp_path):
    whole = successive_halving(OPTIONS, constant, rungs=(1, 2))
    calls = []

    def interrupted(option, resource):
        calls.append((option.name, resource))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return constant(option, resource)

    folder = {"resume_folder": tmp_path, "fingerprint": "rows 7"}
    with pytest.raises(KeyboardInterrupt):
        successive_halving(OPTIONS, interrupted, rungs=(1, 2), **folder)
    resumed = successive_halving(OPTIONS, interrupted, rungs=(1, 2), **folder)
    assert len(calls) == len(whole.trials) + 1  # the one that was interrupted
    assert names(resumed.ranking) == names(whole.ranking)
    assert [t.score for t in resumed.trials] == [t.score for t in whole.trials]


def test_saved_trials_of_other_data_are_refused(tmp_path):
    successive_halving(OPTIONS, constant, resume_folder=tmp_path, fingerprint="one")
    with pytest.raises(CheckpointError, match="belongs to other data"):
        successive_halving(OPTIONS, constant, resume_folder=tmp_path, fingerprint="two")


@pytest.mark.parametrize("text", ["{", "[]", json.dumps({"fingerprint": "", "trials": {"0": {}}})])
def test_a_damaged_file_of_trials_is_refused_in_one_sentence(tmp_path, text):
    (tmp_path / "decisions.json").write_text(text)
    with pytest.raises(CheckpointError, match="holds no saved trials"):
        successive_halving(OPTIONS, constant, resume_folder=tmp_path)


def test_progress_is_told_before_and_after_each_trial():
    records = []
    successive_halving(OPTIONS[:2], constant, on_progress=records.append)
    assert [(r["event"], r["option"]) for r in records] == [
        ("trial", "a"), ("tried", "a"), ("trial", "b"), ("tried", "b"),
    ]  # fmt: skip
    assert records[-1]["score"] == 0.5


def test_two_searches_agree():
    first, second = (successive_halving(OPTIONS, constant, rungs=(1, 2)) for _ in range(2))
    assert first.ranking == second.ranking


def test_bad_searches_are_refused():
    with pytest.raises(ParameterError, match="at least one"):
        successive_halving([], constant)
    with pytest.raises(ParameterError, match="different names"):
        successive_halving([OPTIONS[0], OPTIONS[0]], constant)
    with pytest.raises(ParameterError, match="keep"):
        successive_halving(OPTIONS, constant, keep=0.0)
