"""Which linear evidence is added to what was learned, and what it is worth."""

import itertools

import numpy as np
import pytest

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.clicks.evidence.linear import (
    LAST_CLICK_RATE,
    MAX_NEXT_CATALOGUE,
    NEXT,
    choose_linear,
    fit_following,
    fit_next,
    linear_length,
)
from groupnoise.clicks.evidence.model import Evidence, evidence_scores, gains_by_block
from groupnoise.clicks.evidence.options import EvidenceLearner
from groupnoise.exceptions import ParameterError

N_ITEMS = 12


def walks(n_users, rng):
    """Return histories in which an item decides what comes next, but for a fifth of the clicks."""
    after = rng.integers(0, N_ITEMS, (N_ITEMS, 2))
    histories = []
    for _ in range(n_users):
        walk = [int(rng.integers(N_ITEMS))]
        for _ in range(int(rng.integers(4, 9))):
            stray = rng.random() < 0.2
            walk.append(int(rng.integers(N_ITEMS) if stray else rng.choice(after[walk[-1]])))
        histories.append(walk)
    return histories


def successor_counts(histories):
    counts = np.zeros((N_ITEMS, N_ITEMS))
    for history in histories:
        for one, other in itertools.pairwise(history):
            counts[one, other] += 1
    return counts


def nothing_learned():
    """Return learned evidence that tells all items alike, but for rounding."""
    vectors = np.random.default_rng(0).normal(scale=1e-3, size=(N_ITEMS, 4)).astype(np.float32)
    return Evidence(
        vectors, vectors, np.zeros(N_ITEMS, dtype=np.float32), (4,),
        np.ones((1, 20), dtype=np.float32), (0.0,),
    )  # fmt: skip


def test_the_regression_of_the_last_click_is_a_share_of_its_successors():
    histories = walks(60, np.random.default_rng(0))
    found = fit_next(Groups.from_lists(histories), N_ITEMS, np.random.default_rng(0))
    evidence = found.evidence(30.0, LAST_CLICK_RATE, 10)
    counts = successor_counts(histories)
    expected = counts / (counts.sum(axis=1, keepdims=True) + 30.0)
    scores = evidence_scores(evidence, Groups.from_lists([[5, 7, item] for item in range(N_ITEMS)]))
    np.testing.assert_allclose(scores, expected, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_plain_fit_of_a_small_log_is_no_worse_than_counting_successors(seed):
    histories = walks(120, np.random.default_rng(seed))
    training = Groups.from_lists([history[:-1] for history in histories])
    last = [history[-1] for history in histories]
    queries = Groups(training.objects, training.offsets, np.array(last))
    model = MaxMatchingRecommender(random_state=seed).fit(training, item_ids=np.arange(N_ITEMS))
    counts = successor_counts([history[:-1] for history in histories])
    ends = np.array([history[-2] for history in histories])
    rows = iter(counts[ends])

    def counted(part):
        return np.array([next(rows) for _ in range(len(part))])

    ours = gains_by_block(lambda part: np.array(model.scores(part)), queries, N_ITEMS).mean()
    assert ours > 0.97 * gains_by_block(counted, queries, N_ITEMS).mean()


def test_what_followed_the_last_click_is_added_only_where_held_out_clicks_gain():
    rng = np.random.default_rng(1)
    in_order = walks(200, rng)
    for histories, is_taken in ((in_order, True), ([sorted(each) for each in in_order], False)):
        if not is_taken:
            histories = [rng.permutation(each).tolist() for each in histories]
        training = Groups.from_lists([each[:-1] for each in histories])
        targets = np.array([each[-1] for each in histories])
        queries = Groups(training.objects, training.offsets, targets)
        regressions = EvidenceLearner(N_ITEMS, 0).linear(training)
        length = linear_length(training)
        linear, gain, alone = choose_linear(nothing_learned(), regressions, queries, length, 0)
        assert bool(linear.get(NEXT, (0.0,))[0]) is is_taken
        assert gain.mean() >= max(alone.values()) - 0.02


def test_a_large_catalogue_has_no_regression_of_the_last_click():
    histories = Groups.from_lists([[0, 1, 2], [MAX_NEXT_CATALOGUE, 3, 1]])
    assert NEXT not in EvidenceLearner(MAX_NEXT_CATALOGUE + 1, 0).linear(histories)


def test_where_one_click_is_all_that_is_asked_by_older_ones_count_for_less():
    rng = np.random.default_rng(0)
    training = Groups.from_lists(walks(80, rng))
    pairs = [each[:2] for each in walks(80, rng)]
    queries = Groups.from_lists([[one] for one, _ in pairs], targets=[other for _, other in pairs])
    regressions = {"following": fit_following(training, N_ITEMS, rng)}
    linear, _, _ = choose_linear(nothing_learned(), regressions, queries, 10, 0)
    assert linear["following"][2] == max(regressions["following"].rates)


def test_linear_evidence_of_another_name_is_refused():
    with pytest.raises(ParameterError, match="linear must be one of"):
        MaxMatchingRecommender(linear={"nxt": (1.0, 30.0, 0.0)}).fit([["a", "b", "c"]] * 30)
