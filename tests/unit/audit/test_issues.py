"""Ranked lists, and tables in every form."""

import csv
import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from groupnoise.audit import GroupIssues
from groupnoise.audit.issues import ISSUE_KINDS
from groupnoise.audit.page import judged_summary
from groupnoise.exceptions import ParameterError
from groupnoise.io import answer_files as _tables


@pytest.fixture
def issues():
    groups = {
        "source": np.arange(4, dtype=np.int32),
        "target": np.array([0, 1, 0, 1], dtype=np.int32),
        "object": np.array([0, 2, 4, 6], dtype=np.int32),
        "suggested": np.array([1, 0, 1, -1], dtype=np.int32),
        "suspicion": np.array([0.9, 0.2, 0.95, 0.6], dtype=np.float32),
        "doubt": np.array([0.8, 0.1, 0.7, 0.6], dtype=np.float32),
    }
    objects = {
        "source": np.repeat(np.arange(4), 2).astype(np.int32),
        "object": np.arange(8, dtype=np.int32),
        "times_chosen": np.tile([1, 0], 4).astype(np.int32),
        "noise": np.linspace(0.1, 0.8, 8).astype(np.float32),
    }
    names = np.array(["fox", "owl"])
    return GroupIssues("mil", groups, objects, {"target": names, "suggested": names})


def test_a_list_holds_what_scores_above_its_threshold_worst_first(issues):
    assert issues.ranked("wrong_target").tolist() == [2, 0, 3]
    assert issues.ranked("wrong_target", 2).tolist() == [2, 0]
    assert issues.ranked("wrong_target", threshold=0.92).tolist() == [2]


def test_objects_never_chosen_are_listed_once_each(issues):
    listed = replace(issues, setting="pll").list_of("never_chosen")
    assert listed["object"].tolist() == [7, 5, 3, 1]
    assert listed["occurrences"].tolist() == [1, 1, 1, 1]


def test_the_summary_counts_every_list(issues):
    assert issues.summary() == {
        "groups": 4,
        "objects": 8,
        "wrong_target": 3,
        "no_credible_object": 3,
    }


def test_bags_are_counted_as_bags_and_pairs_as_pairs(issues):
    assert judged_summary(issues) == "4 bags and 8 instances were judged."
    issues.groups["source"][:] = [0, 0, 1, 2]
    issues.groups["target"][3] = -1
    assert judged_summary(issues) == (
        "3 bags (3 pairs of bag and label) and 8 instances were judged. 1 bag has no label: there "
        "the question was whether one is missing."
    )
    rows = replace(issues, setting="pll")
    assert judged_summary(rows) == "4 rows and 8 candidate labels were judged."


def test_frames_speak_of_names_and_leave_a_missing_suggestion_empty(issues):
    frame = issues.to_polars()
    assert frame["target"].to_list() == ["fox", "owl", "fox", "owl"]
    assert frame["suggested"].to_list() == ["owl", "fox", "owl", ""]
    assert issues.to_pandas()["suggested"].tolist() == ["owl", "fox", "owl", ""]


@pytest.mark.parametrize("block_rows", [3, 1 << 16])
def test_files_of_every_form_hold_the_same_rows(issues, tmp_path, monkeypatch, block_rows):
    monkeypatch.setattr(_tables, "BLOCK_ROWS", block_rows)
    for form in ("csv", "json", "parquet"):
        issues.write(tmp_path / f"groups.{form}")
    with (tmp_path / "groups.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    records = json.loads((tmp_path / "groups.json").read_text(encoding="utf-8"))
    frame = pl.read_parquet(tmp_path / "groups.parquet")
    assert [row["target"] for row in rows] == frame["target"].to_list()
    assert [float(row["doubt"]) for row in rows] == [record["doubt"] for record in records]
    assert frame["doubt"].to_list() == pytest.approx([0.8, 0.1, 0.7, 0.6])
    assert [path.name for path in tmp_path.iterdir() if ".tmp" in path.name] == []


def test_an_empty_list_is_still_a_file_that_can_be_read(issues, tmp_path):
    issues.groups["suspicion"][:] = 0
    for form in ("csv", "json", "parquet"):
        issues.write_list(tmp_path / f"none.{form}", "wrong_target")
    assert json.loads((tmp_path / "none.json").read_text(encoding="utf-8")) == []
    assert pl.read_parquet(tmp_path / "none.parquet").height == 0
    assert (tmp_path / "none.csv").read_text(encoding="utf-8").startswith("source,target")


def test_unknown_names_are_refused(issues, tmp_path):
    with pytest.raises(ParameterError, match="kind must be one of 'wrong_target'"):
        issues.ranked("stray_click")
    with pytest.raises(ParameterError, match="table must be one of"):
        issues.to_polars("rows")
    with pytest.raises(ParameterError, match=r"written as .csv, .parquet, .json"):
        issues.write(tmp_path / "groups.xlsx")


@pytest.mark.parametrize("setting", ISSUE_KINDS)
def test_every_list_has_a_name_of_its_own_and_a_sentence(setting):
    kinds = ISSUE_KINDS[setting]
    assert len({kind.name for kind in kinds}) == len(kinds)
    assert all(kind.meaning.endswith(".") for kind in kinds)
