"""A few true labels of instances beside the labels of bags, and which to ask for."""

import numpy as np
import pytest

from groupnoise import Groups, MaxMatchingMILClassifier
from groupnoise.bags.reading.inputs import add_known_instances
from groupnoise.exceptions import DataError


def pairs(seed=0, n_bags=60):
    """Bags of two instances whose labels always come in the same pairs: nothing tells whose."""
    generator = np.random.default_rng(seed)
    truth = np.array([(0, 1) if bag % 2 else (2, 3) for bag in range(n_bags)])
    bags = 2 * np.eye(4)[truth] + 0.3 * generator.normal(size=(n_bags, 2, 4))
    names = np.array(list("abcd"))
    return bags, [set(names[row]) for row in truth], names[truth].ravel()


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [{"encoder": "identity"}, {"max_epochs": 40}])
def test_a_few_known_instances_tell_apart_what_bags_never_do(parameters):
    bags, labels, truth = pairs()
    rows = bags.reshape(-1, 4)
    model = MaxMatchingMILClassifier(**parameters, random_state=0, budget="3s")
    known = [label if number < 24 else None for number, label in enumerate(truth)]
    without = (model.fit(bags, labels).predict(rows) == truth)[24:].mean()
    taught = (model.fit(bags, labels, truth=known).predict(rows) == truth)[24:].mean()
    assert taught > 0.9 > without


def test_truth_of_flat_rows_is_in_the_order_of_the_rows():
    bags, labels, truth = pairs()
    rows, groups = bags.reshape(-1, 4), np.repeat(np.arange(60), 2)
    order = np.random.default_rng(1).permutation(120)
    seen = groups[order][np.sort(np.unique(groups[order], return_index=True)[1])]
    model = MaxMatchingMILClassifier(max_epochs=40, random_state=0)
    model.fit(rows[order], [labels[bag] for bag in seen], groups=groups[order], truth=truth[order])
    assert (model.predict(rows) == truth).mean() > 0.95
    asked = model.query(
        rows[order],
        [labels[bag] for bag in seen],
        120,
        groups=groups[order],
        truth=[label if label in "ab" else None for label in truth[order]],
    )
    assert set(truth[order][asked]) <= {"c", "d"}


def test_a_known_instance_is_a_bag_of_its_own_and_leaves_a_bag_it_has_no_label_of():
    bags = Groups.from_lists([[[1.0], [2.0]], [[3.0]]])
    labels = np.array([[True, False], [True, False]])
    found, theirs = add_known_instances(bags, labels, np.array([1, 0, 1]))
    assert [bag.ravel().tolist() for bag in found] == [[2.0], [3.0], [1.0], [2.0], [3.0]]
    assert theirs.argmax(axis=1).tolist() == [0, 0, 1, 0, 1]


def test_a_label_that_no_bag_has_is_refused():
    bags, labels, _ = pairs()
    with pytest.raises(DataError, match="truth says 'x' of number 0 of the instances"):
        MaxMatchingMILClassifier().fit(bags, labels, truth=["x"] + [None] * 119)


@pytest.mark.parametrize("strategy", ["change", "margin", "random"])
def test_questions_are_about_instances_in_doubt(strategy):
    bags, labels, truth = pairs()
    model = MaxMatchingMILClassifier(max_epochs=40, random_state=0).fit(bags, labels)
    asked = model.query(bags, labels, 8, strategy=strategy)
    assert len(set(asked.tolist())) == 8
    known = [truth[number] if number in asked else None for number in range(120)]
    again = model.query(bags, labels, 8, strategy=strategy, truth=known)
    assert not set(asked.tolist()) & set(again.tolist())
