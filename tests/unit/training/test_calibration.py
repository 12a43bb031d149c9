"""One temperature from held-out groups: right where it is known, and kept with the model."""

import math

import numpy as np
import pytest
import torch

from groupnoise import (
    MaxMatchingMILClassifier,
    MaxMatchingPartialLabelClassifier,
    load_model,
)
from groupnoise.bags import load_digit_bags
from groupnoise.bags.calibration import bag_likelihood
from groupnoise.candidates import load_digit_candidates
from groupnoise.core import expected_calibration_error
from groupnoise.exceptions import DataError
from groupnoise.training.calibration import (
    WRONG_SHARE,
    candidate_likelihood,
    fit_temperature,
)


def honest_rows(n_rows, n_classes, seed):
    """Log probabilities and labels drawn from exactly these probabilities."""
    generator = np.random.default_rng(seed)
    logits = 2.0 * generator.normal(size=(n_rows, n_classes))
    log_proba = torch.from_numpy(logits).log_softmax(-1)
    running = log_proba.exp().numpy().cumsum(axis=1)
    return log_proba, (running < generator.random((n_rows, 1))).sum(axis=1)


@pytest.mark.parametrize("sharpened", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_what_sharpened_honest_probabilities(sharpened):
    log_proba, labels = honest_rows(4000, 6, seed=0)
    generator = np.random.default_rng(1)
    candidates = generator.random((4000, 6)) < 0.3  # wrong labels that depend on nothing
    candidates[np.arange(4000), labels] = True
    found = fit_temperature([log_proba * sharpened], candidate_likelihood(candidates))
    assert found == pytest.approx(sharpened, rel=0.15)


def test_a_few_rows_that_are_all_right_make_nobody_certain():
    log_proba, _ = honest_rows(4000, 6, seed=0)
    answered = log_proba.argmax(-1).numpy()
    found = [
        fit_temperature([log_proba[:n]], candidate_likelihood(np.eye(6, dtype=bool)[answered[:n]]))
        for n in (6, 4000)
    ]
    assert 0.5 < found[0] < 1.0  # six rows are too few to say so
    assert found[1] < 0.1


def test_the_likelihood_of_candidates_is_their_summed_probability():
    proba = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)
    candidates = np.array([[True, True, False], [False, True, False]])
    expected = [
        math.log((1 - WRONG_SHARE) * 0.8 + WRONG_SHARE * 2 / 3),
        math.log((1 - WRONG_SHARE) * 0.1 + WRONG_SHARE * 1 / 3),
    ]
    assert candidate_likelihood(candidates)(proba.log()).tolist() == pytest.approx(expected)


def test_bags_with_one_label_are_asked_which_class_is_matched_most():
    proba = torch.tensor([[0.6, 0.4], [0.2, 0.8], [0.3, 0.7]], dtype=torch.float64)
    likelihood = bag_likelihood(np.array([0, 2, 3]), np.array([[True, False], [False, True]]))
    expected = [math.log((1 - WRONG_SHARE) * share + WRONG_SHARE / 2) for share in (0.8 / 2.0, 0.7)]
    assert likelihood(proba.log()).tolist() == pytest.approx(expected)


def test_bags_with_several_labels_are_asked_what_is_present_and_what_absent():
    proba = torch.tensor([[0.6, 0.3], [0.2, 0.5], [0.3, 0.6]], dtype=torch.float64)
    likelihood = bag_likelihood(np.array([0, 2, 3]), np.array([[True, True], [False, True]]))
    expected = [
        math.log(1 - 0.4 * 0.8) + math.log(1 - 0.7 * 0.5),
        math.log(0.7) + math.log(0.6),
    ]
    assert likelihood(proba.log()).tolist() == pytest.approx(expected)


def test_of_positive_and_negative_bags_only_the_positive_class_is_asked_for():
    proba = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], dtype=torch.float64)
    labels = np.array([[False, True], [True, False]])
    likelihood = bag_likelihood(np.array([0, 2, 3]), labels, negative=0)
    expected = [
        math.log((1 - WRONG_SHARE) * share + WRONG_SHARE / 2) for share in (1 - 0.9 * 0.2, 0.7)
    ]
    assert likelihood(proba.log()).tolist() == pytest.approx(expected)


def test_one_witness_among_many_negatives_does_not_flatten_probabilities():
    generator = np.random.default_rng(0)
    bags = [generator.normal(size=(10, 3)) for _ in range(60)]
    for bag in bags[::2]:
        bag[0, 0] += 6.0
    y = np.arange(60) % 2 == 0
    model = MaxMatchingMILClassifier(
        likelihood="noisy_or", encoder="identity", scaling="standard", random_state=0
    )
    model.fit(bags[:40], y[:40].astype(int))
    with pytest.warns(UserWarning, match="20 bags to calibrate by: too few"):
        model.calibrate(bags[40:], y[40:].astype(int))
    assert model.calibration_temperature_ < 3.0
    assert (model.predict_proba(np.array(bags[40])[:1])[:, 1] > 0.8).all()


def test_a_bag_of_background_alone_does_not_decide_the_temperature():
    log_proba, labels = honest_rows(400, 3, seed=0)
    outside = torch.full((400, 1), -700.0, dtype=torch.float64)
    log_all = torch.cat([3.0 * log_proba, outside], -1).log_softmax(-1)  # three times too sure
    indicator = np.eye(3, dtype=bool)[labels]
    usual = fit_temperature([log_all], bag_likelihood(np.arange(401), indicator))
    background = torch.tensor([[-800.0, -801.0, -802.0, 0.0]], dtype=torch.float64)
    with_background = fit_temperature(
        [torch.cat([log_all, background])],
        bag_likelihood(np.arange(402), np.vstack([indicator, [[True, False, False]]])),
    )
    assert with_background == pytest.approx(usual, rel=0.1)
    assert 1.5 < with_background < 6.0


@pytest.fixture(scope="module")
def rows():
    return [load_digit_candidates(part=part, random_state=0) for part in ("train", "validation")]


@pytest.fixture
def fitted_rows(rows):
    model = MaxMatchingPartialLabelClassifier.fixed(max_epochs=4, random_state=0)
    return model.fit(rows[0].features, rows[0].candidates)


def test_candidates_calibrate_labels_without_changing_any(fitted_rows, rows):
    held_out = rows[1]
    before = fitted_rows.predict_proba(held_out.features)
    predicted = fitted_rows.predict(held_out.features)
    assert fitted_rows.calibrate(held_out.features, held_out.candidates) is fitted_rows
    after = fitted_rows.predict_proba(held_out.features)
    assert fitted_rows.calibration_temperature_ != 1.0
    assert (fitted_rows.predict(held_out.features) == predicted).all()
    assert after.sum(axis=1) == pytest.approx(np.ones(len(after)), abs=1e-5)
    assert expected_calibration_error(held_out.truth, after) < expected_calibration_error(
        held_out.truth, before
    )


def test_a_model_file_keeps_the_temperature_and_a_new_fit_forgets_it(fitted_rows, rows, tmp_path):
    fitted_rows.calibrate(rows[1].features, rows[1].candidates)
    fitted_rows.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.calibration_temperature_ == fitted_rows.calibration_temperature_
    assert loaded.calibration_groups_ == len(rows[1].features)
    assert loaded.predict_proba(rows[1].features) == pytest.approx(
        fitted_rows.predict_proba(rows[1].features)
    )
    fitted_rows.set_params(max_epochs=1).fit(rows[0].features, rows[0].candidates)
    assert (fitted_rows.calibration_temperature_, fitted_rows.calibration_groups_) == (1.0, 0)


def test_bags_calibrate_instances_and_selection_follows(tmp_path):
    bags = load_digit_bags(120, random_state=0)
    train, held_out = bags.bags[:90], bags.bags[90:]
    labels = bags.labels.argmax(axis=1)
    model = MaxMatchingMILClassifier(max_epochs=10, background=True, random_state=0)
    model.fit(train, labels[:90])
    chosen = model.select(held_out, labels[90:]).chosen
    before = model.predict_proba(held_out.objects)
    model.calibrate(held_out, labels[90:])
    after = model.predict_proba(held_out.objects)
    assert (after.argmax(axis=1) == before.argmax(axis=1)).all()
    assert not np.allclose(after, before, atol=1e-3)
    assert (model.select(held_out, labels[90:]).chosen == chosen).mean() > 0.8
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").calibration_temperature_ == model.calibration_temperature_


def test_a_calibration_that_is_refused_changes_nothing(fitted_rows, rows):
    fitted_rows.calibration_temperature_ = 2.0
    with pytest.raises(DataError, match="features"):
        fitted_rows.calibrate(rows[1].features[:, :2], rows[1].candidates)
    assert fitted_rows.calibration_temperature_ == 2.0


@pytest.mark.parametrize("normalize", ["both", "objects", "targets"])
def test_scores_of_candidates_follow_the_temperature_without_a_jump(rows, normalize):
    X, candidates = rows[0].features, rows[0].candidates
    model = MaxMatchingPartialLabelClassifier.fixed(
        encoder="linear", normalize=normalize, max_epochs=1, random_state=0
    ).fit(X, candidates)
    before = model.select(X, candidates).scores
    model.calibration_temperature_ = 1.0001
    np.testing.assert_allclose(model.select(X, candidates).scores, before, rtol=0.01, atol=0.01)


def test_unequal_rows_are_refused(fitted_rows, rows):
    with pytest.raises(DataError, match="candidates were given for 5"):
        fitted_rows.calibrate(rows[1].features[:4], rows[1].candidates[:5])
