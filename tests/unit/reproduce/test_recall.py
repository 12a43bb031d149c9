"""`reproduce recall`: logs, protocols and published rows."""

import pytest

from groupnoise.clicks.evaluation.splits import ClickProtocol
from groupnoise.exceptions import ConfigError, DataError
from groupnoise.io.registry import find_dataset
from groupnoise.reproduce.files import read_kept_trials
from groupnoise.reproduce.provenance import code_fingerprint
from groupnoise.reproduce.recall import (
    PublishedRow,
    RecallSet,
    RecallTrial,
    read_recall_sets,
    recall_markdown,
    repeat_recall,
    run_recall,
)

SHOP = RecallSet("shop", "shop")


def test_every_log_is_known_and_every_published_row_says_where_it_stands():
    sets = read_recall_sets()
    assert {"beauty", "toys", "sports", "video", "movielens-1m", "full beauty"} <= {
        each.name for each in sets
    }
    for each in sets:
        if each.source != "shop-without-order":
            assert find_dataset(each.source).setting == "rs"
        for row in each.published:
            assert row.source
            assert row.chosen in ("validation", "test", "unknown")
            assert 0 < row.ndcg < row.hit < 1
            assert ClickProtocol.parse(row.protocol).word == row.protocol


def test_rows_are_run_once_and_found_again(tmp_path):
    log = tmp_path / "trials.jsonl"
    said = []
    words = {"protocols": ("leave_one_out", "time:0.8"), "methods": ("popularity", "item-cf")}
    results, missing = run_recall(
        [SHOP, RecallSet("sets", "shop-without-order")],
        [0, 1],
        **words,
        quick=True,
        n_jobs=1,
        log=log,
        on_result=said.append,
    )
    # Two methods, two seeds: both protocols on the shop, one on the log without times.
    assert len(results) == len(said) == 12
    assert list(missing) == ["sets under time:0.8"]
    assert all(each.failed is None for each in results)
    assert all(0 < each.validation["full NDCG@10"] < 1 for each in results)
    again, _ = run_recall([SHOP], [0, 1], **words, quick=True, n_jobs=1, log=log)
    assert len(again) == 8
    assert len(log.read_text().splitlines()) == 12


def test_rows_say_where_they_come_from_and_those_of_other_code_are_run_again(tmp_path):
    log = tmp_path / "trials.jsonl"
    words = {"methods": ("popularity",), "quick": True, "n_jobs": 1, "log": log}
    (row,), _ = run_recall([SHOP], [0], **words)
    assert row.provenance["code"] == code_fingerprint("rs")
    assert {"commit", "dirty", "processor", "versions", "load", "ended"} <= set(row.provenance)
    log.write_text(log.read_text().replace(row.provenance["code"], "0" * 12))
    (again,), _ = run_recall([SHOP], [0], **words)
    assert again.provenance["code"] == code_fingerprint("rs")
    assert len(log.read_text().splitlines()) == 2


def test_a_kept_row_is_repeated_and_a_figure_that_was_changed_is_told(tmp_path):
    log = tmp_path / "trials.jsonl"
    run_recall([SHOP], [3], methods=("popularity",), quick=True, n_jobs=1, log=log)
    (row,) = read_kept_trials(log)
    again = repeat_recall(row, data_dir=None, quick=True)
    assert len(again) == len(row["metrics"])
    assert all(each.agrees and each.same_code for each in again)
    assert str(again[0]).startswith("shop, leave_one_out, popularity, seed 3: ")
    row["metrics"]["full HIT@10"] += 0.1
    again = repeat_recall(row, data_dir=None, quick=True)
    assert [each.metric for each in again if not each.agrees] == ["full HIT@10"]


def test_a_file_without_trials_is_refused(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        read_kept_trials(tmp_path / "trials.jsonl")
    (tmp_path / "other.json").write_text('{"figures": []}')
    with pytest.raises(DataError, match="holds no trials"):
        read_kept_trials(tmp_path / "other.json")


def test_a_failure_is_a_row_with_a_reason():
    results, _ = run_recall(
        [SHOP], [0], protocols=("time:99999",), methods=("popularity",), quick=True, n_jobs=1
    )
    assert "nobody clicks after the cut" in results[0].failed
    assert "nobody clicks" in recall_markdown(results, [SHOP])


def test_the_report_has_the_best_first_and_marks_maxima_over_test_scores():
    def row(method, value):
        figures = {"full HIT@10": 2 * value, "full NDCG@10": value}
        counts = {"targets": 71}
        return RecallTrial("log", "leave_one_out", method, 0, metrics=figures, counts=counts)

    published = (
        PublishedRow("honest", 0.2, 0.1, "leave_one_out", "a paper", chosen="validation"),
        PublishedRow("lucky", 0.4, 0.3, "leave_one_out", "a grid", chosen="test"),
        PublishedRow("other", 0.9, 0.8, "time:0.9", "elsewhere"),
        PublishedRow("sampled", 0.9, 0.8, "leave_one_out", "elsewhere", among="100 negatives"),
    )
    text = recall_markdown([row("poor", 0.1), row("good", 0.2)], [RecallSet("log", "x", published)])
    assert "## log, leave_one_out (71 targets)" in text
    assert text.index("| good") < text.index("| poor") < text.index("*honest*")
    assert "*lucky* (a grid; **a maximum over test scores**)" in text
    assert "maximum" not in text.partition("*honest*")[2].partition("*lucky*")[0]
    assert "other" not in text
    assert "sampled" not in text


def test_a_file_of_logs_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "logs.toml"
    path.write_text('[[set]]\nname = "a"\nsource = "b"\n[[set.published]]\nfoo = 1\n')
    with pytest.raises(ConfigError, match="cannot be read"):
        read_recall_sets(path)
