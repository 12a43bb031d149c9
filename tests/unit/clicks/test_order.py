"""What the order and number of clicks do to a recommender: recency and the smallest window."""

import numpy as np
import pytest

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.exceptions import DataError, ParameterError

WINDOWS = Groups.from_lists([[0], [1, 2], [3, 4], [2]], targets=[1, 3, 0, 4])


def fitted(groups=WINDOWS, **settings):
    defaults = {"dim": 4, "max_epochs": 3, "candidates": "full", "learning_rate": 0.05}
    return MaxMatchingRecommender(
        **{"normalization": "click", **defaults, "random_state": 0, **settings}
    ).fit(groups)


def test_strong_recency_answers_from_the_last_click_alone():
    model = fitted(recency=80.0)
    np.testing.assert_allclose(
        model.scores(Groups.from_lists([[0, 3, 1]])),
        model.scores(Groups.from_lists([[1]])) + model_weight(model, [0, 3, 1]),
        rtol=1e-5,
    )


def model_weight(model, clicks):
    """The group weight of the last click, which recency leaves as it is."""
    group = Groups.from_lists([clicks], targets=[0])
    return model.weighting_strength * model.select(group).log_weight[-1]


def test_the_order_of_clicks_counts_only_with_recency():
    forth, back = Groups.from_lists([[0, 3, 1]]), Groups.from_lists([[1, 3, 0]])
    indifferent, by_recency = fitted(recency=0.0), fitted(recency=0.5)
    np.testing.assert_allclose(indifferent.scores(forth), indifferent.scores(back), atol=1e-5)
    assert np.abs(by_recency.scores(forth) - by_recency.scores(back)).max() > 1e-3


def test_with_recency_scores_of_some_items_equal_those_among_all():
    model = fitted(recency=0.5)
    asked = Groups.from_lists([[0, 3, 1], [2]])
    some = model.scores(asked, [[4, 0], [1, 1]])
    everything = model.scores(asked)
    np.testing.assert_allclose(some, everything[[[0], [1]], [[4, 0], [1, 1]]], rtol=1e-5)


def test_negative_recency_is_refused():
    with pytest.raises(ParameterError, match="recency"):
        fitted(recency=-0.1)


def test_windows_below_the_smallest_size_do_not_train():
    without = WINDOWS.subset(np.array([1, 2]))
    kept, given = fitted(min_window=2), fitted(without, min_window=2)
    for ours, theirs in zip(kept.item_vectors(), given.item_vectors(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_windows_that_are_all_too_small_are_refused():
    with pytest.raises(DataError, match="lower min_window"):
        fitted(min_window=3)
