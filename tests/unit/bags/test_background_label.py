"""A label that any instance may have: negatives among the instances of positive bags."""

import numpy as np
import pytest

from groupnoise import MaxMatchingMILClassifier
from groupnoise.exceptions import ParameterError

SETTINGS = {"absent_strength": 1.0, "max_epochs": 30, "learning_rate": 0.1, "random_state": 0}


def positive_and_negative_bags(n_bags=40, seed=0):
    """Positive bags hold one instance near (2, 2); all others lie near the origin."""
    generator = np.random.default_rng(seed)
    bags = generator.normal(0.0, 0.3, size=(n_bags, 4, 2))
    bags[: n_bags // 2, 0] += 2.0
    return bags, ["positive"] * (n_bags // 2) + ["negative"] * (n_bags // 2)


def test_other_instances_of_positive_bags_stay_negative():
    bags, labels = positive_and_negative_bags()
    model = MaxMatchingMILClassifier(background_label="negative", **SETTINGS).fit(bags, labels)
    predicted = model.predict(bags[:20].reshape(-1, 2)).reshape(20, 4)
    assert (predicted[:, 0] == "positive").mean() >= 0.95
    assert (predicted[:, 1:] == "negative").mean() > 0.95


def test_a_background_label_that_no_bag_has_is_refused():
    bags, labels = positive_and_negative_bags()
    with pytest.raises(ParameterError, match="background_label 'neither' is none of the labels"):
        MaxMatchingMILClassifier(background_label="neither", **SETTINGS).fit(bags, labels)


def test_a_truth_value_of_numpy_survives_saving(tmp_path):
    bags, labels = positive_and_negative_bags()
    model = MaxMatchingMILClassifier(background=np.bool_(True), max_epochs=1, random_state=0)
    model.fit(bags, labels).save(tmp_path / "model")
    loaded = MaxMatchingMILClassifier.load(tmp_path / "model")
    assert loaded.background is True
    np.testing.assert_array_equal(loaded.background_proba(bags[0]), model.background_proba(bags[0]))
