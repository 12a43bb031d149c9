"""Rivals on scaled features, alone and as a committee."""

import numpy as np
import pytest

from groupnoise.baselines.mil import MILRClassifier
from groupnoise.baselines.partial_label import CCClassifier, PLKNNClassifier
from groupnoise.datasets import load_digit_bags, load_digit_candidates
from groupnoise.experiments import PreparedClassifier


@pytest.fixture(scope="module")
def digits():
    data = load_digit_candidates(part="validation", random_state=0)
    return data.features, data.candidates.astype(int)


def make_cc(random_state):
    return CCClassifier(max_epochs=2, random_state=random_state)


def test_one_member_is_the_classifier_on_scaled_features(digits):
    features, candidates = digits
    scaled = (features - features.mean(axis=0)) / np.where(
        features.std(axis=0) > 0, features.std(axis=0), 1
    )
    alone = PLKNNClassifier().fit(scaled.astype(np.float32), candidates)
    prepared = PreparedClassifier(lambda random_state: PLKNNClassifier()).fit(features, candidates)
    expected = alone.predict(scaled.astype(np.float32))
    assert np.array_equal(prepared.predict(features), expected)
    assert prepared.keep == "last"


def test_members_differ_and_their_probabilities_are_averaged(digits):
    features, candidates = digits
    prepared = PreparedClassifier(make_cc, scaling="l2", n_members=3).fit(features, candidates)
    rows = prepared.scaler_(features)
    each = [member.predict_proba(rows) for member in prepared.members_]
    assert not np.allclose(each[0], each[1])
    np.testing.assert_allclose(prepared.predict_proba(features), np.mean(each, axis=0))
    assert prepared.keep == "best"


def test_validation_asks_all_members_so_far(digits):
    features, candidates = digits
    asked = []

    def validate(estimator):
        asked.append(len(estimator.members_))
        return 0.0

    PreparedClassifier(make_cc, n_members=2).fit(features, candidates, validate=validate)
    assert asked == [1, 1, 2, 2]


def test_bags_are_scaled_too():
    data = load_digit_bags(40, random_state=0)
    prepared = PreparedClassifier(lambda random_state: MILRClassifier(n_starts=1, random_state=0))
    prepared.fit(data.bags, data.labels.astype(int))
    assert prepared.predict(data.bags.objects).shape == (len(data.bags.objects),)


def test_a_row_is_resolved_among_its_own_candidates(digits):
    features, candidates = digits
    prepared = PreparedClassifier(make_cc).fit(features, candidates)
    resolved = prepared.disambiguate(features, candidates)
    assert candidates[np.arange(len(resolved)), resolved].all()
