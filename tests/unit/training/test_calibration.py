"""One temperature from held-out groups: right where it is known, and kept with the model."""

import math
import warnings
from copy import deepcopy
from dataclasses import replace

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
from groupnoise.bags.search.bag_probability import fit_scale
from groupnoise.candidates import load_digit_candidates
from groupnoise.core import expected_calibration_error
from groupnoise.core.class_metrics import calibration_metrics
from groupnoise.exceptions import DataError
from groupnoise.training.calibration import MIN_KNOWN
from groupnoise.training.temperature import (
    WRONG_SHARE,
    candidate_likelihood,
    cross_validate_temperature,
    evaluate_calibration,
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


@pytest.mark.parametrize(("sharpened", "is_worth_it"), [(1.0, False), (3.0, True)])
def test_a_temperature_is_tried_on_rows_of_other_folds(sharpened, is_worth_it):
    log_proba, labels = honest_rows(300, 4, seed=0)
    likelihood = candidate_likelihood(np.eye(4, dtype=bool)[labels])
    trial = cross_validate_temperature("rows", [log_proba * sharpened], likelihood)
    assert trial.is_taken == is_worth_it
    assert (trial.after < trial.before - 0.1) == is_worth_it
    assert ("stay as they are" in str(trial)) != is_worth_it
    known = likelihood((log_proba * sharpened).log_softmax(-1))
    assert trial.before == pytest.approx(-float(known.mean()))


def test_honest_log_odds_are_left_alone_or_hardly_moved():
    """In expectation nothing is lost: of 60 honest bags each, few are moved, and these by little"""
    generator = np.random.default_rng(0)
    taken, cost = 0, []
    grid = np.linspace(-6, 6, 201)
    weight = np.exp(-(grid**2) / 8)
    truth = 1 / (1 + np.exp(-grid))
    for _ in range(60):
        log_odds = 2.0 * generator.normal(size=60)
        labels = generator.random(60) < 1 / (1 + np.exp(-log_odds))

        def loss(scale, shift, rows, log_odds=log_odds, labels=labels):
            signs = np.where(labels[rows], -1.0, 1.0)
            return np.logaddexp(0.0, signs * (scale * log_odds[rows] + shift))

        found = fit_scale(loss, 60, has_shift=True)
        if not evaluate_calibration("bags", *found.losses).is_taken:
            continue
        taken += 1
        moved = found.scale * grid + found.shift
        lost = truth * (np.logaddexp(0, -moved) - np.logaddexp(0, -grid))
        lost += (1 - truth) * (np.logaddexp(0, moved) - np.logaddexp(0, grid))
        cost.append((weight * lost).sum() / weight.sum())
    assert taken < 15
    assert sum(cost) / 60 < 0.002  # nats; 60 labels alone say .5 or so each


def rare_bags(n_bags, seed):
    """One witness among a dozen in every other bag."""
    generator = np.random.default_rng(seed)
    bags = generator.normal(size=(n_bags, 12, 4))
    bags[1::2, 0, 0] += 2.5
    truth = np.zeros((n_bags, 12), dtype=int)
    truth[1::2, 0] = 1
    return bags, np.arange(n_bags) % 2, truth.ravel()


def log_loss(labels, proba):
    return -np.log(proba[np.arange(len(labels)), labels]).mean()


def test_bags_that_sound_too_sure_are_calibrated_and_their_instances_follow(tmp_path):
    one = [(1.0, {"likelihood": "noisy_or", "weight_decay": 0.01})]
    model = MaxMatchingMILClassifier(ensemble=one, random_state=0)
    model.fit(*rare_bags(120, 0)[:2])
    honest = model.ensemble_
    sure = replace(honest, bag_scale=4 * honest.bag_scale, bag_shift=4 * honest.bag_shift + 2)
    model._set_ensemble(sure)
    held_out, y, _ = rare_bags(200, 1)
    new, new_y, truth = rare_bags(400, 2)
    before = [log_loss(new_y, model.bag_proba(new)), log_loss(truth, model.predict_proba(new))]
    model.calibrate(held_out, y)
    (trial,) = model.calibration_trials_
    assert trial.of == "bags"
    assert trial.is_taken
    proba, of_bags = model.predict_proba(new), model.bag_proba(new)
    assert log_loss(new_y, of_bags) < before[0] - 0.1
    assert log_loss(truth, proba) <= before[1] + 0.005
    assert (proba[:, 1].reshape(-1, 12).max(axis=1) <= of_bags[:, 1] + 1e-6).all()
    # What sets of bags are drawn by is on the new scale: they hold the label as often as before.
    inside = model.predict_bag_set(new)[np.arange(400), new_y]
    assert inside.mean() == pytest.approx(0.9, abs=0.06)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_allclose(loaded.bag_proba(new), of_bags, atol=1e-6)
    np.testing.assert_allclose(loaded.predict_proba(new), proba, atol=1e-6)
    assert loaded.calibration_groups_ == 200
    taken = load_model(tmp_path / "model")
    taken._set_ensemble(sure)
    taken._copy_calibration(model)
    np.testing.assert_allclose(taken.bag_proba(new), of_bags, atol=1e-6)


def test_known_instances_calibrate_those_of_rare_positives_and_keep_most_labels():
    one = [(1.0, {"likelihood": "noisy_or", "weight_decay": 0.01})]
    model = MaxMatchingMILClassifier(ensemble=one, random_state=0)
    model.fit(*rare_bags(120, 0)[:2])
    honest = model.ensemble_
    model._set_ensemble(replace(honest, shift=honest.shift - 2.0))  # far too many seem positive
    held_out, y, known = rare_bags(100, 1)
    new, _, truth = rare_bags(400, 2)
    before = model.predict_proba(new)
    alone = model.predict(new.reshape(-1, 4))
    model.calibrate(held_out, y, truth=known)
    assert [trial.of for trial in model.calibration_trials_] == ["bags", "instances"]
    assert model.calibration_trials_[1].is_taken
    assert log_loss(truth, model.predict_proba(new)) < log_loss(truth, before) - 0.03
    # By themselves all keep their labels: the point that decides moved along.
    np.testing.assert_array_equal(model.predict(new.reshape(-1, 4)), alone)


def test_true_labels_of_rows_calibrate_where_candidates_would_not(fitted_rows, rows):
    held_out = rows[1]
    everything = np.ones_like(held_out.candidates)  # says nothing
    fitted_rows.calibrate(held_out.features, everything)
    assert fitted_rows.calibration_temperature_ == 1.0
    truth = fitted_rows.classes_[held_out.truth]
    fitted_rows.calibrate(held_out.features, everything, truth=truth)
    assert fitted_rows.calibration_trials_[0].is_taken
    assert fitted_rows.calibration_temperature_ != 1.0


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
    model.calibrate(held_out, labels[90:], only_if_better=False)
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


@pytest.fixture(scope="module")
def several_labels():
    """A model of bags of several labels whose other instances are background, and new bags."""

    def drawn(n_bags, seed):
        generator = np.random.default_rng(seed)
        labels = generator.random((n_bags, 3)) < 0.3
        bags, truth = [], []
        for own in labels:
            carried = [*np.flatnonzero(own).tolist(), None, None]
            rows = generator.normal(size=(len(carried), 3))
            for row, label in zip(rows, carried, strict=True):
                row += 0.0 if label is None else 3.0 * np.eye(3)[label]
            bags.append(rows)
            truth += carried
        return bags, labels.astype(int), truth

    one = [(1.0, {"likelihood": "noisy_or", "weight_decay": 0.01})]
    model = MaxMatchingMILClassifier(ensemble=one, random_state=0)
    return model.fit(*drawn(150, 0)[:2]), drawn(40, 1)


def test_few_known_instances_are_said_not_to_be_used(several_labels):
    fitted, (bags, labels, truth) = several_labels
    model, first = deepcopy(fitted), truth.index(0)
    some = [label if number == first else None for number, label in enumerate(truth)]
    with pytest.warns(UserWarning, match="^1 known label of instances to calibrate by: too few"):
        model.calibrate(bags, labels, truth=some)
    assert "log loss of all labels of a bag" in str(model.calibration_trials_[1])


def test_instances_of_no_label_count_as_known_where_every_label_has_an_instance(several_labels):
    fitted, (bags, labels, truth) = several_labels
    model = deepcopy(fitted)
    assert sum(label is not None for label in truth) < MIN_KNOWN < len(truth)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.calibrate(bags, labels, truth=truth, only_if_better=False)
    trial = model.calibration_trials_[1]
    outside = [3 if label is None else label for label in truth]
    alone = fitted.predict_proba(np.concatenate(bags), background=True)
    assert trial.before == pytest.approx(log_loss(outside, alone), rel=0.1)


def test_the_log_loss_of_bags_is_that_of_each_label_as_evaluate_tells_it(several_labels):
    fitted, (bags, labels, _) = several_labels
    model = deepcopy(fitted)
    told = calibration_metrics(labels > 0, model.bag_proba(bags))[0]["log loss"]
    model.calibrate(bags, labels)
    assert model.calibration_trials_[0].before == pytest.approx(told, rel=0.02)
