"""The stand-in for SIVAL."""

import numpy as np
import pytest

from groupnoise.bags.sival import make_sival_like
from groupnoise.exceptions import ParameterError
from groupnoise.io import single_label


@pytest.fixture(scope="module")
def sival():
    return make_sival_like(20, random_state=0)


def test_it_has_the_shape_of_sival():
    dataset = make_sival_like(random_state=0)
    assert dataset.labels.shape == (1500, 25)
    assert dataset.labels.sum(axis=0).tolist() == [60] * 25
    assert dataset.bags.objects.shape[1] == 30
    assert set(dataset.bags.sizes) == {31, 32}


def test_every_bag_shows_its_object_in_three_to_eight_segments_and_no_other(sival):
    bag_class = single_label(sival.labels)[sival.bags.group_of_object]
    on_object = sival.instance_labels >= 0
    assert (sival.instance_labels[on_object] == bag_class[on_object]).all()
    assert set(np.add.reduceat(on_object, sival.bags.offsets[:-1])) <= set(range(3, 9))


def test_objects_can_be_told_apart_but_not_without_effort(sival):
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    on_object = sival.instance_labels >= 0
    features = StandardScaler().fit_transform(sival.bags.objects[on_object])
    labels = sival.instance_labels[on_object]
    is_train = np.arange(len(labels)) < 0.7 * len(labels)  # whole bags: rows are in bag order
    model = LogisticRegression(max_iter=200).fit(features[is_train], labels[is_train])
    assert 0.3 < model.score(features[~is_train], labels[~is_train]) < 0.95


def test_the_background_says_more_about_the_scene_than_about_the_class(sival):
    background = sival.instance_labels < 0
    bag = sival.bags.group_of_object[background]
    values = sival.bags.objects[background][:, :6]
    centres = np.stack([values[bag == row].mean(axis=0) for row in range(len(sival.bags))])
    classes = single_label(sival.labels)
    distances = ((centres[:, None] - centres) ** 2).sum(axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest_shares_class = (classes[distances.argmin(axis=1)] == classes).mean()
    assert nearest_shares_class < 0.12  # chance is 0.04


def test_the_same_seed_makes_the_same_bags():
    one, other = (make_sival_like(2, n_classes=3, random_state=5) for _ in range(2))
    np.testing.assert_array_equal(one.bags.objects, other.bags.objects)


def test_a_single_class_is_refused():
    with pytest.raises(ParameterError, match="n_classes must be a whole number of at least 2"):
        make_sival_like(n_classes=1)
