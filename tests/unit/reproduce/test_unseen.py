"""Data nobody tunes for: the list of sets, what is drawn, and what the report says."""

from __future__ import annotations

import numpy as np
import pytest

from groupnoise.exceptions import ConfigError
from groupnoise.reproduce.unseen import (
    UnseenResult,
    run_unseen,
    summarise_unseen,
    unseen_markdown,
)
from groupnoise.reproduce.unseen_sets import UnseenSet, read_unseen_sets


def result(dataset, method, value, *, setting="pll", metric="accuracy"):
    return UnseenResult(dataset, "check", setting, method, 0, {metric: value}, 1.0, 1.0)


def test_thirty_sets_or_more_stand_in_both_parts_of_all_settings():
    sets = read_unseen_sets()
    assert len(sets) >= 30
    assert len({each.name for each in sets}) == len(sets)
    parts = {(each.setting, each.part) for each in sets}
    assert parts == {(s, p) for s in ("mil", "pll", "rs") for p in ("design", "check")}


def test_a_set_cannot_bring_parameters_of_its_own(tmp_path):
    path = tmp_path / "sets.toml"
    path.write_text('[[set]]\nname = "a"\npart = "check"\nsource = "shop"\nparameters = {}\n')
    with pytest.raises(ConfigError, match="nothing about methods"):
        read_unseen_sets(path)


@pytest.mark.parametrize("rate", [0.03, 0.6])
def test_bags_have_the_witnesses_that_are_asked_for(rate):
    bags = UnseenSet("digits", "check", "digit-witnesses", {"witness_rate": rate}).load(0)
    positives = np.add.reduceat(bags.instance_labels, bags.bags.offsets[:-1])
    is_positive = bags.labels[:, 1]
    assert (positives[~is_positive] == 0).all()
    sizes = bags.bags.sizes[is_positive]
    assert (positives[is_positive] == np.maximum(1, np.round(rate * sizes))).all()


@pytest.mark.parametrize("noise", ["uniform", "correlated", "instance"])
@pytest.mark.parametrize("table", ["iris", "wine", "cover-like", "text-like"])
def test_drawn_candidates_hold_the_truth_and_more(table, noise):
    draw = {"table": table, "noise": noise, "n_rows": 150}
    data = UnseenSet("a", "check", "table", draw).load(1)
    again = UnseenSet("a", "check", "table", draw).load(1)
    assert data.candidates[np.arange(len(data.truth)), data.truth].all()
    assert data.candidates.sum() > len(data.truth)
    assert (data.candidates == again.candidates).all()


def test_a_log_without_order_has_the_same_clicks():
    data = UnseenSet("shop", "check", "shop-without-order").load(0)
    from groupnoise.clicks import make_shop

    shop = make_shop(random_state=0)
    for ours, theirs in zip(list(data.histories)[:20], list(shop.histories)[:20], strict=True):
        assert sorted(ours) == sorted(theirs)


def test_ranks_wins_and_regret_come_from_the_means():
    summary = summarise_unseen(
        [
            result("a", "max-matching", 0.9),
            result("a", "soft", 0.8),
            result("b", "max-matching", 0.7),
            result("b", "soft", 0.75),
        ]
    )[0]
    assert summary.ranks == {"max-matching": 1.5, "soft": 1.5}
    assert summary.wins == {"max-matching": 1, "soft": 1}
    assert summary.regret == pytest.approx({"a": 0.0, "b": 0.05})
    assert "Behind the best method: b 0.050." in unseen_markdown([summary])


def test_regret_of_recommenders_is_relative():
    rows = [
        result("log", "max-matching", 0.09, setting="rs", metric="full NDCG@10"),
        result("log", "ease", 0.10, setting="rs", metric="full NDCG@10"),
    ]
    assert summarise_unseen(rows)[0].regret == pytest.approx({"log": 0.1})


def test_a_run_resumes_and_names_what_is_not_here(tmp_path, monkeypatch):
    monkeypatch.delenv("GROUPNOISE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    drawn = UnseenSet("iris", "check", "table", {"table": "iris", "noise": "uniform"})
    sets = [drawn, UnseenSet("lost", "check", "lost")]
    log, seen = tmp_path / "trials.jsonl", []
    options = {"methods": ["pl-knn", "clpl"], "n_jobs": 1, "log": log, "on_result": seen.append}
    first, missing = run_unseen(sets, [0], **options)
    assert list(missing) == ["lost"]
    log.write_text(log.read_text() + '{"cut short')
    second, _ = run_unseen(sets, [0], **options)
    assert len(seen) == 2
    assert {each.method: each.metrics for each in first} == {
        each.method: each.metrics for each in second
    }


def test_rows_that_were_trained_on_are_scored_among_their_candidates():
    sets = [each for each in read_unseen_sets() if each.name == "iris uniform"]
    (found,), _ = run_unseen(sets, [0], methods=["soft-lr"], n_jobs=1)
    figures = found.metrics
    assert figures["accuracy"] <= figures["best candidate accuracy"] <= 1.0
    assert 0.5 < figures["accuracy on training rows"] <= 1.0
