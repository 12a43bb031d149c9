"""Sets that hold the truth as often as they say, answers withheld at a stated risk, questions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import reference
from groupnoise import MaxMatchingPartialLabelClassifier, load_model
from groupnoise.candidates import add_candidates
from groupnoise.core.selective import (
    SetCalibration,
    belief_in_candidates,
    belief_with_errors,
    hidden_errors,
    n_predictable_candidates,
    risk_coverage,
)
from groupnoise.exceptions import DataError, ParameterError
from groupnoise.training.calibration import (
    fit_set_calibration,
    select_queries,
    unreliable_sets_warning,
)


def simulated(n_rows, generator, n_classes=5, noise=0.2, spread=0.4):
    """Honest probabilities, labels drawn by them, and candidates that do not depend on both."""
    proba = generator.dirichlet(np.full(n_classes, spread), size=n_rows)
    truth = (proba.cumsum(axis=1) > generator.random((n_rows, 1))).argmax(axis=1)
    extra = generator.random(proba.shape) < noise
    return proba, extra | (truth[:, None] == np.arange(n_classes)), truth


@pytest.fixture(scope="module")
def digits():
    rows, truth = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(rows))
    rows, truth = rows[order], truth[order]
    candidates, _ = add_candidates(truth, 10, epsilon=0.9, tau=3, random_state=0)
    model = MaxMatchingPartialLabelClassifier(encoder="kernel", scaling="standard", random_state=0)
    model.fit(rows[:500], candidates[:500])
    return model, rows, candidates, truth


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_sets_calibrated_by_candidates_hold_the_truth_as_often_as_they_say(alpha):
    generator = np.random.default_rng(0)
    calibration = fit_set_calibration(*simulated(2000, generator)[:2])
    proba, _, truth = simulated(4000, generator)
    inside = calibration.sets(proba, alpha)
    held = inside[np.arange(4000), truth].mean()
    assert abs(held - (1 - alpha)) < 0.02
    assert inside.any(axis=1).all()


def test_a_model_that_sounds_too_sure_is_not_believed():
    generator = np.random.default_rng(1)
    proba, candidates, _ = simulated(2000, generator)
    loud = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    calibration = fit_set_calibration(loud, candidates)
    proba, _, truth = simulated(4000, generator)
    loud = proba**2 / (proba**2).sum(axis=1, keepdims=True)
    held = calibration.sets(loud, 0.1)[np.arange(4000), truth].mean()
    assert abs(held - 0.9) < 0.02


def test_every_class_can_be_held_to_the_level_by_itself():
    generator = np.random.default_rng(2)

    def rare(n):
        proba, candidates, truth = simulated(n, generator)
        proba[:, 0] *= 0.2  # a class that is always thought less likely than it is
        return proba / proba.sum(axis=1, keepdims=True), candidates, truth

    proba, candidates, truth = rare(3000)
    calibration = fit_set_calibration(proba, candidates, truth)
    proba, _, truth = rare(6000)
    rows = np.flatnonzero(truth == 0)
    alike = calibration.sets(proba, 0.1)[rows, 0].mean()
    own = calibration.sets(proba, 0.1, by_class=True)[rows, 0].mean()
    assert alike < 0.85
    assert abs(own - 0.9) < 0.03


def test_a_class_of_few_rows_is_held_by_these_and_by_what_all_classes_are():
    generator = np.random.default_rng(2)
    held = []
    for _ in range(30):
        proba, candidates, truth = simulated(800, generator)
        proba[:, 0] *= 0.2
        proba /= proba.sum(axis=1, keepdims=True)
        few = np.sort(np.r_[np.flatnonzero(truth != 0)[:300], np.flatnonzero(truth == 0)[:10]])
        calibration = fit_set_calibration(proba[few], candidates[few], truth[few])
        rows = np.setdiff1d(np.flatnonzero(truth == 0), few)
        ways = (False, True)
        held.append([calibration.sets(proba[rows], 0.1, by_class=way)[:, 0].mean() for way in ways])
    alike, own = np.mean(held, axis=0)
    assert alike < 0.8
    assert own > 0.88
    # A class that nobody has seen is held like one of which a few rows are known: never left out.
    nobody = SetCalibration(proba[:, :2] * 0 + 0.5, np.tile([1.0, 0.0], (len(proba), 1)))
    assert np.isfinite(nobody.thresholds(0.1, by_class=True)).all()


def test_a_threshold_is_the_plain_quantile_where_the_truth_is_known():
    generator = np.random.default_rng(3)
    proba, candidates, truth = simulated(99, generator)
    found = SetCalibration(proba, belief_in_candidates(proba, candidates, truth)).thresholds(0.1)
    own = np.sort(proba[np.arange(99), truth])[::-1]
    np.testing.assert_allclose(found, own[90 - 1])  # 90 of 99 and one to come


def test_too_few_rows_give_sets_of_all_labels():
    proba = np.full((5, 3), 1 / 3)
    calibration = fit_set_calibration(proba, np.ones((5, 3), dtype=bool))
    assert calibration.sets(proba, 0.05).all()


def test_answers_given_at_a_risk_are_wrong_no_more_often():
    generator = np.random.default_rng(4)
    calibration = fit_set_calibration(*simulated(3000, generator, spread=0.1)[:2])
    proba, _, truth = simulated(6000, generator, spread=0.1)
    for risk in (0.03, 0.1):
        answered = ~calibration.abstains(proba, risk)
        assert 0.2 < answered.mean() < 0.95
        wrong = (proba.argmax(axis=1) != truth)[answered].mean()
        assert abs(wrong - risk) < 0.02
    assert calibration.abstains(proba, 1e-9).all()


def test_the_risk_coverage_curve_is_the_plain_count():
    generator = np.random.default_rng(5)
    confidence = generator.random(30)
    right = generator.random(30) < 0.7
    curve = risk_coverage(confidence, right)
    order = np.argsort(-confidence)
    for k in range(1, 31):
        assert curve.risk[k - 1] == pytest.approx(1 - right[order[:k]].mean())
    assert curve.area == pytest.approx(curve.risk.mean())
    ties = risk_coverage(np.ones(4), [True, False, True, False])
    np.testing.assert_allclose(ties.risk, 0.5)
    with pytest.raises(DataError, match="one value per row"):
        risk_coverage([0.5], [True, False])


def test_a_plain_fit_knows_its_sets_and_keeps_them(digits, tmp_path):
    model, rows, _, truth = digits
    inside = model.predict_set(rows[500:], alpha=0.1)
    held = inside[np.arange(len(inside)), truth[500:]].mean()
    assert held >= 0.88
    assert inside.sum(axis=1).mean() < 2.5
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_set(rows[500:], alpha=0.1), inside)
    np.testing.assert_array_equal(loaded.abstain(rows[500:]), model.abstain(rows[500:]))


def test_true_labels_of_some_rows_count_as_what_they_are(digits):
    model, rows, candidates, truth = digits
    some = [int(label) if number % 2 else None for number, label in enumerate(truth[500:900])]
    model = model.decided().fit(rows[:500], candidates[:500])
    with pytest.raises(ParameterError, match="calibrate_sets"):
        model.predict_set(rows)
    model.calibrate_sets(rows[500:900], candidates[500:900], truth=some)
    inside = model.predict_set(rows[900:], alpha=0.1)
    held = inside[np.arange(len(inside)), truth[900:]].mean()
    assert 0.86 <= held <= 0.98
    with pytest.raises(DataError, match="give one per row"):
        model.calibrate_sets(rows[500:900], candidates[500:900], truth=some[:3])


def test_questions_are_open_distinct_and_not_all_of_one_kind(digits):
    model, rows, candidates, _ = digits
    asked = model.query(rows[:500], candidates[:500], 20)
    assert len(set(asked.tolist())) == 20
    assert (candidates[:500][asked].sum(axis=1) > 1).all()
    nearest = [np.sort(np.linalg.norm(rows[asked] - rows[row], axis=1))[1] for row in asked]
    by_margin = model.query(rows[:500], candidates[:500], 20, strategy="margin")
    assert len(by_margin) == 20
    assert min(nearest) > 0
    with pytest.raises(ParameterError, match="strategy"):
        model.query(rows[:500], candidates[:500], 20, strategy="loud")


def test_copies_of_a_row_are_asked_about_once():
    belief = np.array([[0.5, 0.5, 0.0]] * 6 + [[0.6, 0.0, 0.4]])
    rows = np.array([[0.0, 0.0]] * 6 + [[5.0, 5.0]])
    asked = select_queries(belief, rows, 2)
    assert asked[0] < 6
    assert asked[1] == 6


def test_nothing_is_asked_where_all_is_known():
    belief = np.eye(3)
    assert len(select_queries(belief, np.eye(3), 2)) == 0


def test_few_points_of_a_curve_end_at_all_rows():
    curve = risk_coverage(np.arange(7)[::-1], [True] * 5 + [False] * 2)
    points = curve.points(3)
    assert points["coverage"] == [round(3 / 7, 6), round(5 / 7, 6), 1.0]
    assert points["risk"] == [0.0, 0.0, round(2 / 7, 6)]
    assert curve.points()["risk"] == np.round(curve.risk, 6).tolist()


def test_errors_among_the_candidates_are_counted_from_those_outside():
    generator = np.random.default_rng(0)
    proba = generator.dirichlet(np.ones(4), size=60)
    candidates = generator.random((60, 4)) < 0.5
    candidates[np.arange(60), generator.integers(4, size=60)] = True
    seen = both = doubts = hideable = 0.0
    belief = belief_in_candidates(proba**4, candidates)
    for row, named, believed in zip(proba, candidates, belief, strict=True):
        first, second = sorted(range(4), key=lambda label: -row[label])[:2]
        if not named[first]:
            seen += 1
            continue
        weight = (1 - row[first]) * (1 - believed[second])
        doubts += weight
        both += weight * named[second]
        hideable += named.sum() > 1
    expected = min(hideable, seen * (both / doubts) / (1 - both / doubts))
    found = hidden_errors(proba, belief, candidates)
    assert found == pytest.approx(expected)
    found = 12.0  # more than is believed, less than equal chances give
    doubted = belief_with_errors(belief, proba, candidates, found)
    best = proba.argmax(axis=1)
    covered = candidates[np.arange(60), best]
    wrong = (1 - doubted[np.arange(60), best])[covered].sum()
    assert wrong == pytest.approx(max(found, (1 - belief[np.arange(60), best])[covered].sum()))
    assert np.allclose(doubted.sum(axis=1), 1.0)
    assert not doubted[~candidates].any()


def test_sets_hold_the_truth_where_wrong_labels_that_are_likely_are_candidates():
    generator = np.random.default_rng(1)
    n_rows = 4000
    truth = generator.integers(10, size=n_rows)
    twin = truth ^ 1  # what the model takes it for in three of ten rows
    said = np.where(generator.random(n_rows) < 0.3, twin, truth)
    proba = np.full((n_rows, 10), 0.005)
    proba[np.arange(n_rows), said ^ 1] = 0.04 + 0.05 * generator.random(n_rows)
    proba[np.arange(n_rows), said] = 0.96 - proba[np.arange(n_rows), said ^ 1]
    candidates = generator.random((n_rows, 10)) < 0.1
    candidates[np.arange(n_rows), truth] = True
    candidates[np.arange(n_rows), twin] |= generator.random(n_rows) < 0.5
    inside = fit_set_calibration(proba, candidates).sets(proba, 0.1)
    assert inside[np.arange(n_rows), truth].mean() > 0.88
    plain = SetCalibration(proba, belief_in_candidates(proba, candidates)).sets(proba, 0.1)
    assert plain[np.arange(n_rows), truth].mean() < 0.85


def ages(n_rows, generator, n_classes=40):
    """Guessed ages around what a face looks like; the true age is one more of them."""
    looks = generator.integers(8, n_classes - 8, size=n_rows)
    distance = np.abs(np.arange(n_classes) - looks[:, None])
    proba = np.exp(-distance / 1.5) + 1e-4
    proba /= proba.sum(axis=1, keepdims=True)
    guesses = looks[:, None] + generator.normal(0, 3, size=(n_rows, 6)).round().astype(int)
    truth = looks + generator.normal(0, 3, size=n_rows).round().astype(int)
    candidates = np.zeros((n_rows, n_classes), dtype=bool)
    for each in (*guesses.T, truth):
        candidates[np.arange(n_rows), np.clip(each, 0, n_classes - 1)] = True
    return proba, candidates, np.clip(truth, 0, n_classes - 1)


def test_sets_are_wide_and_a_warning_tells_where_candidates_depend_on_what_is_seen():
    generator = np.random.default_rng(0)
    proba, candidates, truth = ages(3000, generator)
    rows = np.arange(3000)
    assert "the features predict" in unreliable_sets_warning(proba, candidates)
    plain = SetCalibration(proba, belief_in_candidates(proba, candidates))
    assert plain.sets(proba, 0.1)[rows, truth].mean() < 0.8
    calibration = fit_set_calibration(proba, candidates)
    assert abs(calibration.sets(proba, 0.1)[rows, truth].mean() - 0.9) < 0.02
    known = np.where(rows < 200, truth, -1)
    few = fit_set_calibration(proba, candidates, known).sets(proba, 0.1)
    assert abs(few[rows, truth].mean() - 0.9) < 0.05
    proba, candidates, _ = simulated(3000, generator, n_classes=12)
    assert unreliable_sets_warning(proba, candidates) is None


@pytest.mark.parametrize("n_classes", [2, 3, 12])
def test_candidates_that_features_foretell_are_those_of_a_plain_count(n_classes):
    generator = np.random.default_rng(0)
    proba, candidates, _ = simulated(2000, generator, n_classes=n_classes)
    found = n_predictable_candidates(proba, candidates)
    assert found == pytest.approx(reference.foretold_candidates_loop(proba, candidates))
    if n_classes == 12:
        assert abs(found - 1.0) < 0.2  # the truth stands in the lower half now and then
    by_label = reference.foretold_candidates_by_label(proba, candidates, 5.0)
    assert n_predictable_candidates(proba, candidates, by_label=True) == pytest.approx(by_label)
    assert n_predictable_candidates(proba, np.ones_like(candidates)) == 1.0


def test_labels_that_often_are_candidates_do_not_pass_for_foretold():
    generator = np.random.default_rng(0)
    frequency = np.array([0.3, 0.2, *[0.05] * 10])
    rows, truth = np.arange(4000), generator.choice(12, size=4000, p=frequency)
    candidates = generator.random((4000, 12)) < 2.0 * frequency  # whatever the row is
    candidates[rows, truth] = True
    proba = 0.2 * np.eye(12)[truth] + 0.1 * frequency + 0.1 * generator.random((4000, 12))
    assert n_predictable_candidates(proba, candidates) > 1.2
    assert abs(n_predictable_candidates(proba, candidates, by_label=True) - 1.0) < 0.1


def test_what_is_guaranteed_needs_no_assumption_about_the_candidates():
    generator = np.random.default_rng(2)
    proba, _, truth = simulated(2000, generator, n_classes=8)
    order = np.argsort(-proba, axis=1)
    candidates = truth[:, None] == np.arange(8)
    candidates[np.arange(2000), order[:, 0]] = True  # the answer is always a candidate
    rows = np.arange(2000)
    calibration = fit_set_calibration(proba[:1000], candidates[:1000])
    assumed = calibration.sets(proba[1000:], 0.1)[rows[:1000], truth[1000:]].mean()
    sure = calibration.sets(proba[1000:], 0.1, guaranteed=True)[rows[:1000], truth[1000:]].mean()
    assert assumed < 0.85
    assert sure > 0.88
    with pytest.raises(ParameterError, match="leave out by_class"):
        calibration.sets(proba, 0.1, guaranteed=True, by_class=True)


def test_a_fit_warns_where_its_sets_are_not_to_be_trusted():
    generator = np.random.default_rng(3)
    _, candidates, truth = ages(400, generator)
    seen = candidates @ np.eye(40) + 0.3 * generator.normal(size=(400, 40))
    model = MaxMatchingPartialLabelClassifier(encoder="kernel", scaling="standard", random_state=0)
    with pytest.warns(UserWarning, match="the features predict"):
        model.fit(seen[:300], candidates[:300])
    assert any("calibrate_sets" in sentence for sentence in model.decisions_.warnings)
    with pytest.warns(UserWarning, match="the features predict"):
        model.calibrate_sets(seen[300:], candidates[300:])
    model.calibrate_sets(seen[300:], candidates[300:], truth=truth[300:])  # says nothing
