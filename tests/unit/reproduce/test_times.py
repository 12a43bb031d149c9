"""Estimates of time: from records, from neighbours, and corrected by what was seen."""

import pytest

from groupnoise.reproduce.jobs import Job
from groupnoise.reproduce.recipes import DatasetView, Recipe, Row
from groupnoise.reproduce.running import TimeLeft, TimeTable, fit_seconds

RECIPE = Recipe(
    "small",
    "pll",
    ("lost",),
    {"fractions": [0.8, 0.1, 0.1], "trials": 2},
    {name: Row("pl-knn", {"n_neighbors": [5, 10]}) for name in ("known", "unknown")},
)
TABLE = TimeTable({"small": {"lost": {"known": 3.0}}})


def job(row, seed=0):
    return Job(RECIPE, DatasetView("lost"), seed, row)


def test_a_recorded_fit_counts_as_often_as_it_is_made():
    assert TABLE.seconds(job("known")) == 6.0


def test_an_unrecorded_fit_is_taken_to_be_like_its_neighbours():
    assert TABLE.seconds(job("unknown")) == 6.0
    elsewhere = TimeTable({"small": {"lost": {"known": 3.0}, "msrcv2": {"unknown": 1.0}}})
    assert elsewhere.seconds(job("unknown")) == 2.0
    assert TimeTable().seconds(job("unknown")) > 0


def test_what_is_left_follows_the_pace_of_what_is_done():
    jobs = [job("known", seed) for seed in range(3)]
    left = TimeLeft(TABLE, jobs, n_jobs=2)
    assert left.seconds == 9.0
    left.finish(jobs[0].key, 12.0)  # twice as slow as recorded
    assert left.seconds == pytest.approx(12.0)
    left.finish(jobs[1].key, None)  # resumed: nothing is learned
    assert left.seconds == pytest.approx(6.0)


def test_a_missing_record_is_an_empty_one(tmp_path):
    assert TimeTable.read(tmp_path / "times.json").recorded == {}


def test_records_are_means_over_trials_and_views(make_result):
    results = [
        make_result("ours", 0, 0.5, dataset="lost epsilon=0.1 tau=3"),
        make_result("ours", 1, 0.5, dataset="lost epsilon=0.5 tau=3"),
    ]
    assert fit_seconds(results) == {"lost": {"ours": 1.0}}
