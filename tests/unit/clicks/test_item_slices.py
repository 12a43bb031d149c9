"""Ranks counted by slices of items against the same ranks counted row by row."""

import numpy as np
import pytest

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.clicks import rank_targets
from groupnoise.clicks.evaluation import ranking, ranking_slices as _item_slices
from groupnoise.clicks.evaluation.ranking import rank_and_list

N_ITEMS = 40


class Slices:
    """Slices of a table of scores; the rows in `rounded` come out otherwise when asked alone."""

    def __init__(self, table, rounded=()):
        self.table, self.rounded = table, rounded

    def scores(self, items, rows=None):
        if rows is None:
            return self.table[:, items]
        return self.table[rows, items] + 1e-3 * np.isin(rows, self.rounded)[:, None]


class SlicedScorer:
    """A table of scores that can be had by slices; counts how many rows were asked for whole."""

    def __init__(self, table, rounded=()):
        self.table, self.rounded, self.n_whole = table, rounded, 0

    def scores(self, histories, items=None):
        self.n_whole += len(histories)
        return self.table[histories.objects[histories.offsets[:-1]]]

    def item_slices(self, histories):
        return Slices(self.table[histories.objects[histories.offsets[:-1]]], self.rounded)


class WholeScorer:
    def __init__(self, table):
        self.table = table

    def scores(self, histories, items=None):
        return self.table[histories.objects[histories.offsets[:-1]]]


@pytest.fixture
def table():
    # Few distinct values, so that ties are common.
    return np.random.default_rng(2).integers(0, 6, size=(N_ITEMS, N_ITEMS)).astype(np.float32)


@pytest.fixture
def rows():
    generator = np.random.default_rng(1)
    lists = [generator.permutation(N_ITEMS)[: generator.integers(1, 6)] for _ in range(30)]
    return Groups.from_lists(lists, targets=generator.integers(0, N_ITEMS, size=30))


@pytest.mark.parametrize("width", [1, 7, N_ITEMS, 248])
def test_slices_of_any_width_give_the_ranks_of_whole_rows(table, rows, width, monkeypatch):
    monkeypatch.setattr(_item_slices, "SLICE", width)
    scorer = SlicedScorer(table)
    ranks = rank_targets(scorer, rows, N_ITEMS, "full")
    expected = rank_targets(WholeScorer(table), rows, N_ITEMS, "full")
    np.testing.assert_array_equal(ranks, expected)
    assert scorer.n_whole == 0


def test_rows_whose_target_is_rounded_in_two_ways_are_ranked_whole(table, rows):
    scorer = SlicedScorer(table, rounded=[3, 11, 29])
    ranks = rank_targets(scorer, rows, N_ITEMS, "full")
    np.testing.assert_array_equal(ranks, rank_targets(WholeScorer(table), rows, N_ITEMS, "full"))
    assert scorer.n_whole == 3


def test_a_recommender_ranks_alike_both_ways():
    generator = np.random.default_rng(0)
    histories = Groups.from_lists([generator.integers(0, 300, size=8) for _ in range(200)])
    model = MaxMatchingRecommender(normalization="click", dim=16, max_epochs=2, random_state=0)
    model.fit(histories, item_ids=np.arange(300))
    tests = Groups(histories.objects, histories.offsets, generator.integers(0, 300, size=200))
    ranks = rank_targets(model, tests, 300, "full")

    class Whole:
        scores = staticmethod(model.scores)

    expected = rank_targets(Whole(), tests, 300, "full")
    # Scores on log scale are rounded once more, so neighbours may tie there.
    np.testing.assert_allclose(ranks.n_better, expected.n_better, atol=1)
    assert (ranks.n_better == expected.n_better).mean() > 0.95


def test_an_unknown_item_is_answered_as_before():
    histories = Groups.from_lists([[0, 1, 2], [1, 2, 0]] * 10)
    model = MaxMatchingRecommender(normalization="click", dim=4, max_epochs=1, random_state=0).fit(
        histories, item_ids=np.arange(3)
    )
    assert model.item_slices(Groups.from_lists([[0, 7]])) is None
    assert model.item_slices(Groups.from_lists([[0, 1]])) is not None


@pytest.mark.parametrize("at_once", [1000, 7])
@pytest.mark.parametrize("encoder", [None, "recurrence", "deep recurrence"])
def test_histories_that_are_read_once_are_ranked_and_listed_as_their_scores_say(
    encoder, at_once, monkeypatch
):
    monkeypatch.setattr(ranking, "_READ_AT_ONCE", at_once)
    generator = np.random.default_rng(0)
    lists = [generator.permutation(60)[: generator.integers(1, 9)] for _ in range(50)]
    model = MaxMatchingRecommender(
        normalization="history", encoder=encoder, linear=None, dim=8, max_epochs=1, random_state=0,
        window_size=5, shared=False, candidates="full", init="random", n_negatives=5,
        batch_size=50, learning_rate=0.05, weight_decay=0.0,
    ).fit(Groups.from_lists(lists), item_ids=np.arange(60))  # fmt: skip
    tests = Groups.from_lists(lists, targets=generator.integers(0, 60, size=50))
    assert model.item_slices(tests) is None
    assert model.history_logits(Groups.from_lists([[0, 77]])) is None

    class Whole:
        scores = staticmethod(model.scores)

    np.testing.assert_array_equal(
        rank_targets(model, tests, 60, "full"), rank_targets(Whole(), tests, 60, "full")
    )
    found, expected = (rank_and_list(each, tests, 60, top=5) for each in (model, Whole()))
    np.testing.assert_array_equal(found.lists, expected.lists)
    np.testing.assert_array_equal(found.n_better, expected.n_better)
