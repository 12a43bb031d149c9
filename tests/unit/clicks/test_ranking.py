"""Ranks against a plain loop, and the draw of negatives against what it promises."""

import tracemalloc

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.clicks import rank_targets
from groupnoise.clicks.evaluation import ranking as _ranking
from groupnoise.clicks.evidence.model import GAIN_CUT, gains
from groupnoise.exceptions import DataError, ParameterError


class TableScorer:
    """Scores looked up in a table by the first item of a history; remembers what was asked."""

    def __init__(self, table):
        self.table = table
        self.candidates = []

    def scores(self, histories, items=None):
        rows = self.table[histories.objects[histories.offsets[:-1]]]
        if items is None:
            return rows
        self.candidates.append(items)
        return np.take_along_axis(rows, items, axis=1)


@pytest.fixture
def test_groups():
    generator = np.random.default_rng(1)
    lists = [generator.permutation(40)[: generator.integers(1, 6)] for _ in range(30)]
    return Groups.from_lists(lists, targets=generator.integers(0, 40, size=30))


@pytest.fixture
def scorer():
    # Few distinct values, so that ties are common.
    return TableScorer(np.random.default_rng(2).integers(0, 6, size=(40, 40)).astype(float))


def loop_ranks(table, groups, candidates_of):
    better, tied = [], []
    for row in range(len(groups)):
        scores, target = table[groups[row][0]], groups.targets[row]
        others = [item for item in candidates_of(row) if item != target]
        better.append(sum(scores[item] > scores[target] for item in others))
        tied.append(sum(scores[item] == scores[target] for item in others))
    return better, tied


@pytest.mark.parametrize("block", [1, 100, 1 << 20])
def test_full_ranks_agree_with_a_plain_loop_whatever_the_block(
    test_groups, scorer, block, monkeypatch
):
    monkeypatch.setattr(_ranking, "_BLOCK_ENTRIES", block)
    ranks = rank_targets(scorer, test_groups, 40, "full")
    assert comes_back(test_groups, 8)
    expected = loop_ranks(
        scorer.table,
        test_groups,
        lambda row: (
            range(40) if comes_back(test_groups, row) else set(range(40)) - set(test_groups[row])
        ),
    )
    assert (ranks.n_better.tolist(), ranks.n_tied.tolist()) == expected


def comes_back(groups, row):
    return groups.targets[row] in groups[row]


def test_full_ranks_leave_out_everything_seen(test_groups, scorer):
    seen = Groups.from_lists([[0, 1, 2, 2, 39]] * 30)
    ranks = rank_targets(scorer, test_groups, 40, "full", seen=seen)
    expected = loop_ranks(
        scorer.table,
        test_groups,
        lambda row: range(40) if comes_back(test_groups, row) else range(3, 39),
    )
    assert (ranks.n_better.tolist(), ranks.n_tied.tolist()) == expected


def test_having_been_seen_does_not_give_a_target_away():
    # Seen items score highest, so that among unseen ones alone the target would be first.
    table = np.zeros((6, 6))
    table[0, :4] = [1.0, 4.0, 3.0, 2.0]
    groups = Groups.from_lists([[0, 1, 2, 3]], targets=[3])
    assert rank_targets(TableScorer(table), groups, 6, "full").n_better.tolist() == [2]
    listed = _ranking.rank_and_list(TableScorer(table), groups, 6, top=2)
    assert listed.n_better.tolist() == [2]
    assert listed.lists.tolist() == [[4, 5]]


def test_sampled_ranks_agree_with_a_plain_loop_over_the_candidates_asked_for(test_groups, scorer):
    ranks = rank_targets(scorer, test_groups, 40, n_negatives=20)
    queries = np.concatenate(scorer.candidates)
    assert (queries[:, 0] == test_groups.targets).all()
    expected = loop_ranks(scorer.table, test_groups, lambda row: queries[row])
    assert (ranks.n_better.tolist(), ranks.n_tied.tolist()) == expected


def test_negatives_are_distinct_unseen_and_never_the_target(test_groups, scorer):
    seen = Groups.from_lists([[0, 5, 39]] * 30)
    rank_targets(scorer, test_groups, 40, n_negatives=35, seen=seen)
    for row, queries in enumerate(np.concatenate(scorer.candidates)):
        negatives = set(queries[1:].tolist())
        assert len(negatives) == 35
        assert negatives <= set(range(40)) - {0, 5, 39, int(test_groups.targets[row])}


def test_every_unseen_item_is_drawn_equally_often():
    n_rows = 4000
    groups = Groups.from_lists([[0, 7]] * n_rows, targets=np.full(n_rows, 3))
    scorer = TableScorer(np.zeros((10, 10)))
    rank_targets(scorer, groups, 10, n_negatives=3)
    drawn = np.bincount(np.concatenate(scorer.candidates)[:, 1:].ravel(), minlength=10)
    assert drawn[[0, 3, 7]].sum() == 0
    expected = n_rows * 3 / 7
    assert np.abs(np.delete(drawn, [0, 3, 7]) - expected).max() < 5 * np.sqrt(expected)


def test_the_seed_decides_the_negatives(test_groups, scorer):
    first = rank_targets(scorer, test_groups, 40, n_negatives=10, random_state=3)
    again = rank_targets(scorer, test_groups, 40, n_negatives=10, random_state=3)
    other = rank_targets(scorer, test_groups, 40, n_negatives=10, random_state=4)
    assert (first.n_better == again.n_better).all()
    assert (first.n_better != other.n_better).any()


def test_a_constant_scorer_ties_with_every_candidate(test_groups):
    constant = TableScorer(np.zeros((40, 40)))
    ranks = rank_targets(constant, test_groups, 40, n_negatives=10)
    assert (ranks.n_better == 0).all()
    assert (ranks.n_tied == 10).all()


def test_memory_of_full_ranking_does_not_grow_with_the_rows(monkeypatch):
    monkeypatch.setattr(_ranking, "_BLOCK_ENTRIES", 1 << 16)
    n_rows, n_items = 4000, 2000
    vectors = np.random.default_rng(0).random((n_items, 4), dtype=np.float32)

    class Vectors:
        def scores(self, histories, items=None):
            return vectors[histories.objects] @ vectors.T

    groups = Groups.from_array(
        np.arange(n_rows)[:, None] % n_items, targets=np.arange(n_rows) % n_items
    )
    tracemalloc.start()
    rank_targets(Vectors(), groups, n_items, "full")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000  # one block and the counts; all scores at once would be 32 MB


def test_nan_scores_are_refused(test_groups):
    broken = TableScorer(np.full((40, 40), np.nan))
    with pytest.raises(DataError, match="NaN"):
        rank_targets(broken, test_groups, 40, "full")


def test_a_scorer_of_another_catalogue_is_refused(test_groups, scorer):
    with pytest.raises(DataError, match="same catalogue"):
        rank_targets(scorer, test_groups, 41, "full")


def test_too_few_items_to_draw_from_are_refused(test_groups, scorer):
    with pytest.raises(DataError, match="fewer negatives"):
        rank_targets(scorer, test_groups, 40)


def test_bad_rows_are_refused(test_groups, scorer):
    with pytest.raises(DataError, match="no targets"):
        rank_targets(scorer, Groups.from_lists([[1]]), 40)
    with pytest.raises(DataError, match="outside the catalogue"):
        rank_targets(scorer, test_groups, 5)
    with pytest.raises(DataError, match="seen items of 1 row"):
        rank_targets(scorer, test_groups, 40, seen=Groups.from_lists([[1]]))
    with pytest.raises(ParameterError, match="'sampled', 'full'"):
        rank_targets(scorer, test_groups, 40, "popular")


def test_the_gain_that_fit_decides_by_ranks_alike():
    generator = np.random.default_rng(3)
    queries = Groups.from_lists(
        [generator.integers(0, 30, size=8) for _ in range(40)],
        targets=generator.integers(0, 30, size=40),
    )
    scores = generator.integers(0, 9, size=(40, 30)).astype(float)

    class Rows:
        def scores(self, histories, items=None):
            return scores[: len(histories)]

    ranks = rank_targets(Rows(), queries, 30, "full")
    ahead = ranks.n_better + 0.5 * ranks.n_tied
    expected = np.where(ahead < GAIN_CUT, 1.0 / np.log2(ahead + 2.0), 0.0)
    np.testing.assert_allclose(gains(scores.copy(), queries), expected)
    assert any(comes_back(queries, row) for row in range(40))
