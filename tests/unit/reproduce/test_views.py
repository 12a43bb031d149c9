"""How an experiment looks at data: pairs of classes and drawn candidates."""

import numpy as np
import pytest

from groupnoise.bags.sival import make_sival_like
from groupnoise.exceptions import DataError
from groupnoise.reproduce.recipes import DatasetView, class_pair, noise_views, pair_views


def test_a_pair_keeps_bags_of_either_class_and_calls_the_rest_background():
    data = make_sival_like(6, n_classes=4, random_state=0)
    pair = class_pair(data, 1)
    assert pair.class_names == data.class_names[1:3]
    assert len(pair.bags) == 12
    assert (pair.labels.sum(axis=1) == 1).all()
    assert set(np.unique(pair.instance_labels)) == {-1, 0, 1}
    inside = np.isin(data.instance_labels, [1, 2])
    assert (pair.instance_labels >= 0).sum() == inside.sum()


def test_a_bag_with_both_classes_belongs_to_no_pair():
    data = make_sival_like(6, n_classes=3, random_state=0)
    data.labels[0, :2] = True
    assert len(class_pair(data, 0).bags) == (data.labels[:, :2].sum(axis=1) == 1).sum()


def test_each_quantity_varies_while_the_other_is_held():
    views = noise_views(
        "lost", {"epsilon": [0.1, 0.5], "tau": [2, 3], "fixed": {"epsilon": 0.5, "tau": 3}}
    )
    assert [view.noise for view in views] == [(0.1, 3), (0.5, 3), (0.5, 2)]
    assert views[0].label == "lost epsilon=0.1 tau=3"


def test_pairs_begin_at_every_step_and_have_names():
    labels = [view.label for view in pair_views("sival-like", 8)]
    assert labels == ["sival-like 1-2", "sival-like 9-10", "sival-like 17-18"]


def test_noise_is_drawn_by_the_seed_and_needs_candidates():
    view = DatasetView("digit-candidates", noise=(1.0, 4))
    first, again, other = view.load(0), view.load(0), view.load(1)
    assert np.array_equal(first.candidates, again.candidates)
    assert not np.array_equal(first.candidates, other.candidates)
    assert set(first.candidates.sum(axis=1)) == {2, 3, 4}
    with pytest.raises(DataError, match="no candidate labels"):
        DatasetView("digit-bags", noise=(1.0, 4)).load(0)
