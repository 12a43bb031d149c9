"""What a recommender is worth: lists, misses, buckets and rows against plain loops."""

from dataclasses import replace

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.clicks import make_shop, rank_targets
from groupnoise.clicks.baselines import EASERecommender, ItemCFRecommender, PopularityRecommender
from groupnoise.clicks.evaluation.evaluate import (
    evaluate_histories,
    evaluate_queries,
    paired_differences,
)
from groupnoise.clicks.evaluation.history_split import last_queries, split_histories
from groupnoise.clicks.evaluation.judged import judge_targets
from groupnoise.clicks.evaluation.ranking import rank_and_list, rank_by_popularity
from groupnoise.core.metrics import hit_per_row
from groupnoise.exceptions import DataError


@pytest.fixture(scope="module")
def shop():
    return make_shop(150, 80, random_state=0)


@pytest.fixture(scope="module")
def split(shop):
    return split_histories(shop, "leave_one_out")


@pytest.fixture(scope="module")
def fitted(split):
    return ItemCFRecommender().fit(split.train.histories, item_ids=split.train.item_ids)


def test_lists_hold_the_best_unseen_items_of_a_loop_and_ranks_are_the_same(split, fitted):
    groups = split.test.groups
    found = rank_and_list(fitted, groups, 80, top=7)
    ranks = rank_targets(fitted, groups, 80, "full")
    assert found.n_better.tolist() == ranks.n_better.tolist()
    assert found.n_tied.tolist() == ranks.n_tied.tolist()
    scores = fitted.scores(groups)
    for row, history in enumerate(groups):
        order = sorted(set(range(80)) - set(history.tolist()), key=lambda i: (-scores[row, i], i))
        assert found.lists[row].tolist() == order[:7]


def test_lists_of_tied_scores_take_the_lower_index_and_stay_short_in_small_catalogues():
    class Level:
        def scores(self, histories, items=None):
            return np.broadcast_to(np.zeros(4), (len(histories), 4))

    groups = Groups.from_lists([[0, 1], [3]], targets=[2, 0])
    assert rank_and_list(Level(), groups, 4, top=2).lists.tolist() == [[2, 3], [0, 1]]
    assert rank_and_list(Level(), groups, 4, top=6).lists[1].tolist() == [0, 1, 2, -1, -1, -1]


def test_popularity_is_ranked_as_a_scorer_of_it_is(shop, split):
    model = PopularityRecommender().fit(split.train.histories, item_ids=split.train.item_ids)
    seen = shop.histories.subset(split.test.users)
    for groups_seen in (None, seen):
        quick = rank_by_popularity(model.popularity_, split.test.groups, groups_seen)
        slow = rank_targets(model, split.test.groups, 80, "full", seen=groups_seen)
        assert quick.n_better.tolist() == slow.n_better.tolist()
        assert quick.n_tied.tolist() == slow.n_tied.tolist()


def test_unknown_targets_and_unknown_histories_are_misses_at_any_length(shop, split):
    kept = [[i for i in history if i < 40] for history in shop.histories]
    model = ItemCFRecommender().fit([history for history in kept if history])
    judged = judge_targets(model, shop, split.test)
    known = np.isin(shop.item_ids[split.test.groups.targets], model.items_)
    assert judged.counts["unknown_targets"] == (~known).sum() > 0
    assert (judged.rows("HIT", 1000)[~known] == 0).all()
    assert judged.rows("HIT", 1000)[known].mean() > 0.9
    assert judged.figures([1000])["full HIT@1000"] <= known.mean()


def test_buckets_and_rows_add_up_to_the_figures(shop, split, fitted):
    result = evaluate_queries(fitted, shop, split.test, at=(5, 10))

    def kind(name):
        return "user" if name.endswith("the user") else name.partition(" ")[0] == "target"

    for wanted in ("user", True, False):
        rows = [found for name, found in result.per_class.items() if kind(name) == wanted]
        total = sum(found["targets"] for found in rows)
        mean = sum(found["targets"] * found["HIT@5"] for found in rows) / total
        assert total == len(split.test)
        assert mean == pytest.approx(result.metrics["full HIT@5"])
    assert np.mean(result.rows["NDCG@10"]) == pytest.approx(result.metrics["full NDCG@10"])
    low, high = result.intervals["full NDCG@10"]
    assert low < result.metrics["full NDCG@10"] < high
    assert result.metrics["full Recall@50"] >= result.metrics["full HIT@10"]
    assert set(result.rows) >= {"user", "item", "n_better", "clicks_before", "MRR@5"}


def test_two_models_are_compared_target_by_target(shop, split, fitted):
    ease = EASERecommender(ridge=10.0).fit(split.train.histories, item_ids=split.train.item_ids)
    first, second = (evaluate_queries(each, shop, split.test) for each in (fitted, ease))
    gap = paired_differences(first, second)["NDCG@10"]
    assert gap.mean == pytest.approx(first.metrics["full NDCG@10"] - second.metrics["full NDCG@10"])
    apart = np.hypot(*(np.diff(each.intervals["full NDCG@10"])[0] for each in (first, second)))
    assert gap.high - gap.low < apart  # pairing takes out what makes users differ
    level = paired_differences(first, first)["HIT@10"]
    assert level == (0.0, 0.0, 0.0)
    other = evaluate_queries(fitted, shop, split.validation)
    with pytest.raises(DataError, match="same targets"):
        paired_differences(first, other)


def test_new_targets_are_judged_apart_from_what_was_clicked_before(shop, fitted):
    doubled = Groups.from_lists([np.repeat(history, 2) for history in shop.histories][:75])
    others = list(shop.histories)[75:]
    rows = [*doubled, *others]
    log = replace(shop, histories=Groups.from_lists(rows), timestamps=None, is_stray=None)
    found = evaluate_histories(fitted, log)
    again = [row[-1] in row[:-1] for row in rows]
    assert found.counts["targets_clicked_before"] == sum(again)
    assert found.rows["clicked_before"].tolist() == again
    ranks = rank_targets(fitted, last_queries(log.histories).groups, 80, "full")
    new = np.flatnonzero(~np.array(again))
    hits = [hit_per_row(ranks.n_better[[row]], ranks.n_tied[[row]], 10)[0] for row in new]
    assert found.metrics["new-item HIT@10"] == pytest.approx(np.mean(hits))
    assert found.baseline["new-item HIT@10"] < found.metrics["new-item HIT@10"]
    low, high = found.intervals["new-item HIT@10"]
    assert low < found.metrics["new-item HIT@10"] < high
    assert f"{sum(again)} of {len(rows)} targets clicked before" in found.notes[0]
    assert found.per_class["new to the user"]["targets"] == len(new)


def test_a_log_of_doubled_clicks_says_that_nothing_in_it_is_new(shop, fitted):
    doubled = Groups.from_lists([np.repeat(history, 2) for history in shop.histories])
    log = replace(shop, histories=doubled, timestamps=None, is_stray=None)
    found = evaluate_histories(fitted, log)
    assert not [name for name in found.metrics if name.startswith("new-item")]
    assert "no target is new to its user" in " ".join(found.notes)


def test_figures_among_samples_are_missed_with_a_reason(shop, split, fitted):
    found = evaluate_queries(fitted, shop, split.test)
    assert not [name for name in found.metrics if name.startswith("sampled")]
    assert "no figures among 100 sampled items: of the catalogue of 80 items" in found.notes[-1]
    # A long history of few items leaves as many as a short one does.
    wide = make_shop(60, 200, random_state=0)
    often = Groups.from_lists([np.tile(history, 60) for history in wide.histories])
    log = replace(wide, histories=often, timestamps=None, is_stray=None)
    model = ItemCFRecommender().fit(often, item_ids=wide.item_ids)
    assert "sampled HIT@10" in evaluate_histories(model, log).metrics


def test_a_model_behind_what_is_popular_is_said_to_be(shop, split, fitted):
    class Unpopular(PopularityRecommender):
        def _score_block(self, indexed, wanted):
            return -super()._score_block(indexed, wanted)

    queries = split.test
    train = (split.train.histories,)
    worst = Unpopular().fit(*train, item_ids=split.train.item_ids)
    said = " ".join(evaluate_queries(worst, shop, queries).notes)
    assert "behind what is popular (full NDCG@10 0.0" in said
    for better in (fitted, PopularityRecommender().fit(*train, item_ids=split.train.item_ids)):
        assert "behind" not in " ".join(evaluate_queries(better, shop, queries).notes)
