"""Baselines are measured on bags of several labels as ours is: by their likeliest label."""

import numpy as np
import pytest

from groupnoise import Groups
from groupnoise.bags.baselines import (
    AttentionMILClassifier,
    InstanceLRClassifier,
    MILRClassifier,
    MiNetClassifier,
)
from groupnoise.io.datasets import BagDataset
from groupnoise.io.setting import setting_of


def several_labels(n_bags=24):
    """Bags of one or two kinds of instances, each far from the others, and two of no kind."""
    generator = np.random.default_rng(0)
    labels = np.zeros((n_bags, 3), dtype=bool)
    rows, truth = [], []
    for bag in range(n_bags):
        kinds = generator.choice(3, size=1 + bag % 2, replace=False)
        labels[bag, kinds] = True
        kinds = [*kinds, 3, 3]
        truth += kinds
        rows.append(4.0 * np.eye(4)[kinds] + 0.3 * generator.normal(size=(len(kinds), 4)))
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in rows])])
    known = np.where(np.array(truth) < 3, truth, -1)
    return BagDataset(
        "several", Groups(np.concatenate(rows), offsets), labels, ["a", "b", "c"], known
    )


@pytest.mark.parametrize(
    "baseline",
    [
        AttentionMILClassifier(learning_rate=0.01, random_state=0),
        InstanceLRClassifier(),
        MILRClassifier(random_state=0),
        MiNetClassifier(learning_rate=0.01, random_state=0),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_baseline_is_evaluated_on_bags_of_several_labels(baseline):
    data = several_labels()
    setting = setting_of(data)
    fitted = setting.fit(baseline, data)
    figures = setting.evaluate(fitted, data).metrics
    best = fitted.bag_scores(data.bags).argmax(axis=1)
    expected = data.labels[np.arange(len(best)), best].mean()
    assert figures["bag accuracy"] == pytest.approx(expected)
    assert figures["bag AUROC"] > 0.8
    assert 0.0 <= figures["instance accuracy"] <= 1.0
