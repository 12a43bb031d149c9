import numpy as np
import torch

from groupnoise import Groups
from groupnoise.bags.baselines.base import BagIndex, bag_max, bag_mean, bag_softmax, bag_sum

BAGS = Groups.from_lists([[[1.0], [2.0]], [[3.0]], [[4.0], [5.0], [6.0]]])
VALUES = torch.from_numpy(BAGS.objects)
BAG_OF = torch.from_numpy(BAGS.group_of_object)


def test_a_batch_finds_the_instances_of_its_bags_in_its_own_order():
    instances, bag_of = BagIndex(BAGS).gather(torch.tensor([2, 0]))
    assert instances.tolist() == [3, 4, 5, 0, 1]
    assert bag_of.tolist() == [0, 0, 0, 1, 1]


def test_sum_mean_and_maximum_stay_inside_a_bag():
    assert bag_sum(VALUES, BAG_OF, 3).ravel().tolist() == [3.0, 3.0, 15.0]
    assert bag_mean(VALUES, BAG_OF, 3).ravel().tolist() == [1.5, 3.0, 5.0]
    assert bag_max(VALUES, BAG_OF, 3).ravel().tolist() == [2.0, 3.0, 6.0]


def test_softmax_sums_to_one_in_each_bag_however_large_the_scores():
    weights = bag_softmax(1000 * VALUES, BAG_OF, 3)
    np.testing.assert_allclose(bag_sum(weights, BAG_OF, 3), np.ones((3, 1)))
    assert weights[1, 0] == 1.0


def test_softmax_of_one_bag_is_the_ordinary_one():
    expected = VALUES[3:].softmax(dim=0)
    np.testing.assert_allclose(bag_softmax(VALUES, BAG_OF, 3)[3:], expected)
