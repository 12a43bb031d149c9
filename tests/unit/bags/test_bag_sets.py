"""Sets of labels of bags and instances hold what they say, by held-out bags alone."""

from __future__ import annotations

import numpy as np
import pytest

from groupnoise import MaxMatchingMILClassifier, load_model
from groupnoise.exceptions import ParameterError


def drawn(n_bags, generator):
    """Bags of five points, some near a corner of their label, the others near the middle."""
    corners = 1.2 * np.array([[1.0, 0.0], [-1.0, 0.6], [0.0, -1.0]])
    labels = generator.integers(3, size=n_bags)
    truth = np.where(generator.random((n_bags, 5)) < 0.7, labels[:, None], -1)
    truth[:, 0] = labels
    centres = np.vstack([corners, [[0.0, 0.0]]])[truth]
    return centres + generator.normal(size=(n_bags, 5, 2)), labels, truth


def test_sets_of_bags_and_instances_hold_the_truth_as_often_as_they_say(tmp_path):
    generator = np.random.default_rng(0)
    bags, labels, _ = drawn(150, generator)
    model = MaxMatchingMILClassifier.fixed(max_epochs=15, random_state=0).fit(list(bags), labels)
    with pytest.raises(ParameterError, match="calibrate_sets"):
        model.predict_bag_set(list(bags))
    held, held_labels, _ = drawn(400, generator)
    model.calibrate_sets(list(held), held_labels)
    new, new_labels, truth = drawn(600, generator)
    inside = model.predict_bag_set(list(new), 0.1)
    assert abs(inside[np.arange(600), new_labels].mean() - 0.9) < 0.04
    flat, own = new.reshape(-1, 2), truth.reshape(-1)
    known = own >= 0
    sets = model.predict_set(flat[known], 0.1)
    assert sets.any(axis=1).all()
    assert sets[np.arange(known.sum()), own[known]].mean() > 0.86
    assert sets.sum(axis=1).mean() < 2.9
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_set(flat[known], 0.1), sets)
    np.testing.assert_array_equal(loaded.predict_bag_set(list(new), 0.1), inside)
    wrong = model.predict_bags(list(new)) != new_labels
    silent = model.abstain_bags(list(new), risk=0.1)
    np.testing.assert_array_equal(loaded.abstain_bags(list(new), risk=0.1), silent)
    assert 0.05 < silent.mean() < 0.9
    assert wrong.mean() > 0.12  # answering all of them would be wrong too often
    assert wrong[~silent].mean() < 0.13
    loaded.set_params(max_epochs=1).fit(list(bags), labels)  # what was held out is of another model
    with pytest.raises(ParameterError, match="calibrate_sets"):
        loaded.predict_bag_set(list(new))


def test_true_labels_of_instances_make_their_sets_exact():
    generator = np.random.default_rng(1)
    bags, labels, _ = drawn(120, generator)
    model = MaxMatchingMILClassifier.fixed(max_epochs=15, random_state=0).fit(list(bags), labels)
    held, _, truth = drawn(400, generator)
    own = truth.reshape(-1)
    kept = np.flatnonzero(own >= 0)
    single = [held.reshape(-1, 2)[[row]] for row in kept]
    model.calibrate_sets(single, own[kept], truth=own[kept])
    new, _, truth = drawn(600, generator)
    flat, own = new.reshape(-1, 2), truth.reshape(-1)
    known = own >= 0
    held_share = model.predict_set(flat[known], 0.2)[np.arange(known.sum()), own[known]].mean()
    assert abs(held_share - 0.8) < 0.03


def test_a_plain_fit_knows_the_sets_of_bags_and_instances(tmp_path):
    generator = np.random.default_rng(2)
    bags, labels, _ = drawn(200, generator)
    # One member, not chosen among many: bags are held out of its training all the same.
    one = [(1.0, {"weight_decay": 0.03, "background": True})]
    model = MaxMatchingMILClassifier(ensemble=one, random_state=0).fit(list(bags), labels)
    new, new_labels, truth = drawn(800, generator)
    inside = model.predict_bag_set(list(new), 0.1)
    assert abs(inside[np.arange(800), new_labels].mean() - 0.9) < 0.04
    wrong = model.predict_bags(list(new)) != new_labels
    assert wrong[~model.abstain_bags(list(new), risk=0.1)].mean() < 0.13
    flat, own = new.reshape(-1, 2), truth.reshape(-1)
    known = own >= 0
    sets = model.predict_set(flat[known], 0.1)
    assert 0.87 < sets[np.arange(known.sum()), own[known]].mean() < 0.97
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_set(flat[known], 0.1), sets)
    np.testing.assert_array_equal(loaded.predict_bag_set(list(new), 0.1), inside)
    # A few bags leave nothing to hold out, and a set says how to come by what it needs.
    few = MaxMatchingMILClassifier(random_state=0)
    with pytest.warns(UserWarning, match="too few to hold any out"):
        few.fit(list(bags[:6]), labels[:6])
    with pytest.raises(ParameterError, match="calibrate_sets"):
        few.predict_bag_set(list(new))
