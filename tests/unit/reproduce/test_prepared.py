"""Baselines on scaled features, alone and as a committee."""

from functools import partial

import numpy as np
import pytest

from groupnoise import load_model
from groupnoise.bags import load_digit_bags
from groupnoise.bags.baselines import MILRClassifier
from groupnoise.candidates import load_digit_candidates
from groupnoise.candidates.baselines import CCClassifier, PLKNNClassifier
from groupnoise.core.groups import Groups
from groupnoise.core.scaling import Scaler
from groupnoise.reproduce.run import Committee, Method, SmoothedClassifier, run_method
from groupnoise.reproduce.trials import CandidateTrial


@pytest.fixture(scope="module")
def digits():
    data = load_digit_candidates(part="validation", random_state=0)
    return data.features, data.candidates.astype(int)


def make_cc(random_state, scaling="standard"):
    return CCClassifier(max_epochs=2, random_state=random_state, scaling=scaling)


def test_it_is_the_classifier_on_scaled_features(digits):
    features, candidates = digits
    deviation = features.std(axis=0)
    scaled = (features - features.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    alone = PLKNNClassifier().fit(scaled.astype(np.float32), candidates)
    prepared = PLKNNClassifier(scaling="standard").fit(features, candidates)
    expected = alone.predict(scaled.astype(np.float32))
    assert np.array_equal(prepared.predict(features), expected)


def test_members_differ_and_their_probabilities_are_averaged(digits):
    features, candidates = digits
    members = [make_cc(seed, "l2").fit(features, candidates) for seed in range(3)]
    each = [member.predict_proba(features) for member in members]
    assert not np.allclose(each[0], each[1])
    committee = Committee(members)
    np.testing.assert_allclose(committee.predict_proba(features), np.mean(each, axis=0))
    assert np.array_equal(committee.predict(features), np.mean(each, axis=0).argmax(axis=1))


def test_a_method_without_members_of_its_own_becomes_a_committee(digits):
    draw = partial(load_digit_candidates, random_state=0)
    parts = [draw(part=part) for part in ("train", "validation", "test")]
    trial = CandidateTrial("digits", 0, *parts)
    results, best = run_method(
        trial, Method("cc", make_cc, {"scaling": ["l2"], "n_members": [3]}, is_committee=True)
    )
    assert len(best.members) == results[0].n_fits == 3
    assert results[0].chosen_settings == {"scaling": "l2", "n_members": 3}


def test_validation_is_asked_after_every_epoch_with_scaled_answers(digits):
    features, candidates = digits
    asked = []

    def validate(estimator):
        asked.append(estimator.predict(features))
        return 0.0

    make_cc(0).fit(features, candidates, validate=validate)
    assert len(asked) == 2


def test_bags_are_scaled_too():
    data = load_digit_bags(40, random_state=0)
    prepared = MILRClassifier(n_starts=1, scaling="standard", random_state=0)
    prepared.fit(data.bags, data.labels.astype(int))
    rows = Scaler("standard").fit(data.bags.objects)(data.bags.objects)
    alone = MILRClassifier(n_starts=1, random_state=0)
    alone.fit(Groups(rows, data.bags.offsets), data.labels.astype(int))
    np.testing.assert_allclose(
        prepared.bag_scores(data.bags), alone.bag_scores(Groups(rows, data.bags.offsets))
    )


@pytest.mark.parametrize("scaling", ["standard", "power"])
def test_a_saved_baseline_scales_as_it_did(digits, tmp_path, scaling):
    features, candidates = digits
    for number, model in enumerate([make_cc(0, scaling), PLKNNClassifier(scaling=scaling)]):
        model.fit(features, candidates).save(tmp_path / str(number))
        loaded = load_model(tmp_path / str(number))
        np.testing.assert_array_equal(loaded.predict_proba(features), model.predict_proba(features))


def test_a_row_is_resolved_among_its_own_candidates(digits):
    features, candidates = digits
    prepared = make_cc(0).fit(features, candidates)
    for classifier in (prepared, Committee([prepared])):
        resolved = classifier.disambiguate(features, candidates)
        assert candidates[np.arange(len(resolved)), resolved].all()


def test_answers_are_averaged_over_neighbouring_labels_as_ours_are(digits):
    features, candidates = digits
    plain = SmoothedClassifier(make_cc(0)).fit(features, candidates)
    before = plain.predict_proba(features)
    committee = Committee([plain])
    committee.ordinal_smoothing = 1.5
    position = np.arange(before.shape[1])
    weights = np.exp(-0.5 * ((position[:, None] - position) / 1.5) ** 2)
    expected = before @ (weights / weights.sum(axis=0))
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(plain.predict_proba(features), expected, rtol=1e-4)
    assert np.array_equal(plain.predict(features), expected.argmax(axis=1))
    committee.ordinal_smoothing = 0.0
    np.testing.assert_allclose(committee.predict_proba(features), before)
