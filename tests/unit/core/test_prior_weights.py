import numpy as np
import pytest

from groupnoise import (
    MaxMatchingMILClassifier,
    MaxMatchingMIPLClassifier,
    MaxMatchingPartialLabelClassifier,
)
from groupnoise.core.prior_weights import group_weights, log_candidate_weights
from groupnoise.exceptions import DataError, ParameterError

NAMES = np.array(["ash", "birch"])
RARE = np.eye(2, dtype=bool)[[0, 0, 0, 1]]


def test_balanced_classes_weigh_alike_in_sum():
    weights = group_weights("balanced", RARE, NAMES).numpy()
    np.testing.assert_allclose(weights, [2 / 3, 2 / 3, 2 / 3, 2.0], rtol=1e-6)


def test_a_group_of_several_classes_weighs_their_mean():
    indicator = np.array([[True, True], [True, False]])
    weights = group_weights({"ash": 3.0}, indicator, NAMES).numpy()
    np.testing.assert_allclose(weights, [2.0, 3.0])


def test_no_class_weight_leaves_all_groups_alike():
    assert group_weights(None, RARE, NAMES) is None


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ("even", "class_weight must be 'balanced'"),
        ({"oak": 1.0}, "class_weight holds 'oak'"),
        ({"ash": -1.0}, "class_weight must be a number zero or more"),
    ],
)
def test_a_bad_class_weight_is_refused(class_weight, message):
    with pytest.raises(ParameterError, match=message):
        group_weights(class_weight, RARE, NAMES)


def test_candidate_weights_must_be_positive_where_there_is_a_candidate():
    with pytest.raises(DataError, match="positive at every candidate; row 3"):
        log_candidate_weights([[1.0, 0.0]] * 4, RARE)
    with pytest.raises(DataError, match="one weight per row and class"):
        log_candidate_weights([[1.0, 1.0]], RARE)


@pytest.mark.parametrize(
    "make",
    [MaxMatchingMILClassifier, MaxMatchingMIPLClassifier, MaxMatchingPartialLabelClassifier],
)
def test_a_weighted_class_is_predicted_more_often(make):
    generator = np.random.default_rng(0)
    labels = (generator.random(200) < 0.15).astype(int)
    rows = generator.normal(size=(200, 2)) + labels[:, None]
    settings = {"encoder": "linear", "max_epochs": 15, "random_state": 0}
    make = getattr(make, "fixed", make)  # a search is another test's
    plain = make(**settings).fit(rows, labels).predict(rows).mean()
    balanced = make(class_weight="balanced", **settings).fit(rows, labels).predict(rows).mean()
    assert balanced > plain + 0.1


def test_trusted_candidates_decide_between_labels_that_always_come_together():
    rows = np.repeat(np.eye(2), 20, axis=0)
    trust = np.repeat([[9.0, 1.0], [1.0, 9.0]], 20, axis=0)
    model = MaxMatchingPartialLabelClassifier.fixed(encoder="linear", max_epochs=20, random_state=0)
    model.fit(rows, [{"ash", "birch"}] * 40, candidate_weights=trust)
    assert model.predict(np.eye(2)).tolist() == ["ash", "birch"]
