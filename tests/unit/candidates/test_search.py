"""A plain `fit` decides: better than what is simple, repeatable, explained, saved and resumed."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression

import reference
from groupnoise import MaxMatchingPartialLabelClassifier, load_model
from groupnoise.candidates import add_candidates, averaging
from groupnoise.candidates.averaging import averaged_options
from groupnoise.candidates.baselines import CCClassifier, PRODENClassifier
from groupnoise.candidates.model import CandidateModel
from groupnoise.candidates.portfolio import candidate_options, facts_of_rows
from groupnoise.candidates.search import _Average
from groupnoise.candidates.trials import (
    FACTORS,
    TEMPERATURES,
    HeldOutTrials,
    best_information,
    common_factor,
    information,
)
from groupnoise.core.scaling import Scaler
from groupnoise.decisions import Decisions
from groupnoise.decisions.halving import Search
from groupnoise.decisions.portfolio import Option, narrow
from groupnoise.decisions.record import Trial
from groupnoise.exceptions import DataError, ParameterError, TrainingStopped
from groupnoise.io import PartialLabelDataset
from groupnoise.io.setting import find_setting
from groupnoise.training import Checkpoints

QUICK = {"max_epochs": 8, "random_state": 0}


def wine(seed=0):
    rows, truth = load_wine(return_X_y=True)
    candidates, _ = add_candidates(truth, 3, epsilon=0.9, tau=2, random_state=seed)
    return rows, candidates, truth


@pytest.fixture(scope="module")
def decided():
    rows, candidates, truth = wine()
    return MaxMatchingPartialLabelClassifier(**QUICK).fit(rows, candidates), rows, candidates, truth


def soft_labels(rows, candidates, new):
    """What a person tries first: every candidate counts in equal parts."""
    row, label = np.nonzero(candidates)
    model = LogisticRegression(max_iter=500)
    weights = 1.0 / candidates.sum(axis=1)[row]
    return model.fit(rows[row], label, sample_weight=weights).predict(new)


@pytest.mark.slow
def test_without_a_parameter_it_is_level_with_or_ahead_of_what_a_person_tries_first():
    rows, truth = load_digits(return_X_y=True)
    candidates, _ = add_candidates(truth, 10, epsilon=0.9, tau=5, random_state=0)
    order = np.random.default_rng(0).permutation(len(rows))  # neighbours in the file share a hand
    learned, held = order[:400], order[400:1200]
    scaler = Scaler("standard").fit(rows[learned])
    scaled, new = scaler(rows[learned]), scaler(rows[held])
    simple = {
        "soft": (soft_labels(scaled, candidates[learned], new) == truth[held]).mean(),
        "cc": CCClassifier(random_state=0).fit(scaled, candidates[learned]).score(new, truth[held]),
        "proden": PRODENClassifier(random_state=0)
        .fit(scaled, candidates[learned])
        .score(new, truth[held]),
    }
    model = MaxMatchingPartialLabelClassifier(max_epochs=24, random_state=0)
    model.fit(rows[learned], candidates[learned])
    accuracy = model.score(rows[held], truth[held])
    assert accuracy > 0.93
    assert accuracy >= max(simple.values()) - 0.01
    assert (model.disambiguate(rows[learned], candidates[learned]) == truth[learned]).mean() > 0.95


def test_decisions_tell_what_was_tried_taken_and_why(decided):
    model, *_ = decided
    decisions = model.decisions_
    assert decisions.facts["rows"] == 178
    assert {trial.option for trial in decisions.trials} == {each.name for each in decisions.options}
    assert 1 <= len(decisions.taken) <= 5
    assert sum(weight for _, weight in decisions.taken) == pytest.approx(1.0)
    assert "Chosen: " in decisions.summary()
    assert not decisions.warnings


def test_answers_are_the_weighted_average_of_the_settings(decided):
    model, rows, *_ = decided
    expected = sum(weight * each.predict_proba(rows) for weight, each in model.settings_)
    np.testing.assert_allclose(model.predict_proba(rows), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.slow
def test_one_seed_gives_one_result_and_the_snippet_repeats_it_without_a_search(decided):
    model, rows, candidates, _ = decided
    again = MaxMatchingPartialLabelClassifier(**QUICK).fit(rows, candidates)
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    names: dict = {}
    exec(model.decisions_.snippet("MaxMatchingPartialLabelClassifier", random_state=0), names)
    repeated = names["model"].fit(rows, candidates)
    assert not repeated.decisions_.trials
    np.testing.assert_array_equal(repeated.predict_proba(rows), model.predict_proba(rows))
    copied = model.decided().fit(rows, candidates)
    np.testing.assert_array_equal(copied.predict_proba(rows), model.predict_proba(rows))


def test_what_was_saved_answers_the_same_and_knows_its_decisions(decided, tmp_path):
    model, rows, candidates, _ = decided
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))
    np.testing.assert_array_equal(
        loaded.disambiguate(rows, candidates), model.disambiguate(rows, candidates)
    )
    np.testing.assert_array_equal(
        loaded.select(rows, candidates).chosen, model.select(rows, candidates).chosen
    )
    assert loaded.decisions_ == model.decisions_
    assert Decisions.from_json(model.decisions_.to_json()) == model.decisions_
    loaded.save(tmp_path / "again")
    np.testing.assert_array_equal(
        load_model(tmp_path / "again").predict_proba(rows), model.predict_proba(rows)
    )


def test_the_chosen_candidate_is_one_of_the_row(decided):
    model, rows, candidates, _ = decided
    selected = model.select(rows, candidates)
    assert (selected.chosen < candidates.sum(axis=1)).all()
    shares = np.add.reduceat(selected.responsibility, selected.offsets[:-1])
    np.testing.assert_allclose(shares, 1.0, atol=1e-5)
    best = [
        np.flatnonzero(row)[place] for row, place in zip(candidates, selected.chosen, strict=True)
    ]
    assert (np.array(best) == model.disambiguate(rows, candidates)).mean() > 0.9


def test_a_calibrated_average_is_saved_with_its_temperature(decided, tmp_path):
    _, rows, candidates, _ = decided
    model = decided[0].decided().fit(rows[:100], candidates[:100])
    model.calibrate(rows[100:], candidates[100:])
    assert model.calibration_temperature_ != 1.0
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        load_model(tmp_path / "model").predict_proba(rows), model.predict_proba(rows)
    )


def test_explicit_values_are_respected_by_every_setting_taken():
    rows, candidates, _ = wine()
    model = MaxMatchingPartialLabelClassifier(scaling="power", dim=8, n_members=1, **QUICK)
    model.fit(rows, candidates)
    for _, setting in model.settings_:
        assert (setting.scaling, setting.dim, setting.n_members) == ("power", 8, 1)
        assert setting.max_epochs == 8


def test_the_portfolio_is_narrowed_never_emptied():
    rows, candidates, _ = wine()
    options = candidate_options(facts_of_rows(rows, candidates, np.arange(3)))
    assert len(options) == len({option.name for option in options}) >= 6
    assert {each.parameters["encoder"] for each in narrow(options, {"encoder": "linear"})} == {
        "linear"
    }
    foreign = narrow(options, {"scaling": "none", "weight_decay": 7.0})
    assert foreign
    assert all(each.parameters["scaling"] == "none" for each in foreign)


def test_a_wrong_value_is_refused_in_its_own_words():
    rows, candidates, _ = wine()
    with pytest.raises(ParameterError, match="scaling must be one of"):
        MaxMatchingPartialLabelClassifier(scaling="loud", **QUICK).fit(rows, candidates)
    with pytest.raises(ParameterError, match="budget must be"):
        MaxMatchingPartialLabelClassifier(budget=0, **QUICK).fit(rows, candidates)
    with pytest.raises(ParameterError, match="ensemble must be a list"):
        MaxMatchingPartialLabelClassifier(ensemble=[(1.0, {"speed": 3})]).fit(rows, candidates)
    with pytest.raises(ParameterError, match="one setting or more"):
        MaxMatchingPartialLabelClassifier(ensemble=[]).fit(rows, candidates)


@pytest.mark.parametrize("name", ["batch_size", "learning_rate", "hidden", "n_members", "schedule"])
def test_a_wrong_value_is_refused_before_anything_is_tried(name):
    rows, candidates, _ = wine()
    tried: list[dict[str, object]] = []
    model = MaxMatchingPartialLabelClassifier(on_epoch=tried.append, **{name: -1})
    with pytest.raises(ParameterError, match=f"{name} must"):
        model.fit(rows, candidates)
    assert not tried


def test_a_small_budget_takes_what_was_tried_and_says_so():
    rows, candidates, _ = wine()
    model = MaxMatchingPartialLabelClassifier(budget=1e-6, **QUICK).fit(rows, candidates)
    assert len(model.decisions_.trials) == 1
    assert "ended the search" in model.decisions_.summary()


def test_too_few_rows_fall_back_to_plain_settings_with_a_warning():
    rows, candidates, _ = wine()
    few = np.arange(0, 178, 6)
    model = MaxMatchingPartialLabelClassifier(**QUICK)
    with pytest.warns(UserWarning, match="too few to hold any out"):
        model.fit(rows[few], candidates[few])
    assert model.decisions_.members[0][1]["scaling"] == "standard"
    assert len(model.predict(rows)) == len(rows)


@pytest.mark.slow
def test_features_that_say_nothing_are_told():
    rows, candidates, _ = wine()
    noise = np.random.default_rng(0).normal(size=rows.shape)
    with pytest.warns(UserWarning, match="no better than by label frequencies alone"):
        MaxMatchingPartialLabelClassifier(**QUICK).fit(noise, candidates)


def test_candidates_that_are_all_labels_everywhere_are_warned_of():
    rows, candidates, _ = wine()
    with pytest.warns(UserWarning, match="no better than by label frequencies alone"):
        MaxMatchingPartialLabelClassifier(**QUICK).fit(rows, np.ones_like(candidates))


def test_a_fit_that_is_refused_leaves_the_model_as_it_was():
    rows, candidates, _ = wine()
    model = MaxMatchingPartialLabelClassifier(**QUICK, budget=0.01).fit(rows, candidates)
    before = model.predict(rows)
    with pytest.raises(DataError, match="every row is empty"):
        model.fit(rows, np.zeros_like(candidates))
    np.testing.assert_array_equal(model.predict(rows), before)


def test_a_label_that_stands_almost_everywhere_is_pointed_out():
    rows, _, truth = wine()
    candidates = np.eye(3, dtype=bool)[truth]
    candidates[:, 2] |= np.random.default_rng(0).random(len(rows)) < 0.98
    noise = rows + 1.5 * rows.std(axis=0) * np.random.default_rng(1).normal(size=rows.shape)
    with pytest.warns(UserWarning, match="'2' is a candidate of .*--method proden"):
        MaxMatchingPartialLabelClassifier(label_offsets=None, **QUICK).fit(noise, candidates)


@pytest.mark.slow
def test_data_frames_keep_their_columns(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows, candidates, _ = wine()
    frame = pandas.DataFrame(rows, columns=[f"f{number}" for number in range(rows.shape[1])])
    labels = pandas.DataFrame(candidates.astype(int), columns=["red", "white", "rose"])
    model = MaxMatchingPartialLabelClassifier(**QUICK).fit(frame, labels)
    assert model.classes_.tolist() == ["red", "white", "rose"]
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert set(loaded.predict(frame)) <= {"red", "white", "rose"}
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[frame.columns[::-1]])


@pytest.mark.slow
def test_candidate_weights_reach_the_trials_and_the_training():
    rows, candidates, truth = wine()
    trust = np.where(np.arange(3) == truth[:, None], 50.0, 1.0)
    model = MaxMatchingPartialLabelClassifier(**QUICK)
    model.fit(rows, candidates, candidate_weights=trust)
    assert (model.disambiguate(rows, candidates) == truth).mean() > 0.95


@pytest.mark.slow
def test_an_interrupted_search_resumes_with_what_it_had_tried(decided, tmp_path):
    whole, rows, candidates, _ = decided
    checkpoint = Checkpoints(tmp_path / "saves")
    seen = []

    def stop_at_the_third(record):
        seen.append(record)
        if len(seen) == 3:
            checkpoint.stop()

    model = MaxMatchingPartialLabelClassifier(on_epoch=stop_at_the_third, **QUICK)
    with pytest.raises(TrainingStopped, match="the search stopped before"):
        model.fit(rows, candidates, checkpoint=checkpoint)
    resumed = MaxMatchingPartialLabelClassifier(on_epoch=seen.append, **QUICK)
    resumed.fit(rows, candidates, checkpoint=Checkpoints(tmp_path / "saves", resume=True))
    np.testing.assert_array_equal(resumed.predict_proba(rows), whole.predict_proba(rows))
    assert not (tmp_path / "saves" / "decisions.json").exists()


def test_information_is_nothing_for_answers_that_ignore_the_row():
    _, candidates, truth = wine()
    same = np.tile([0.2, 0.5, 0.3], (len(truth), 1))
    np.testing.assert_allclose(information(same, candidates), 0.0, atol=1e-12)
    assert information(np.eye(3)[truth], candidates).mean() > 0.3


def test_information_is_the_plain_formula():
    generator = np.random.default_rng(0)
    proba = generator.dirichlet(np.ones(4), size=6)
    candidates = generator.random((6, 4)) < 0.5
    candidates[:, 0] = True
    expected = reference.candidate_information(proba, candidates, doubt=0.02)
    np.testing.assert_allclose(information(proba, candidates), expected)


def test_how_sure_answers_sound_does_not_count():
    generator = np.random.default_rng(0)
    proba = generator.dirichlet(np.full(4, 0.5), size=400)
    truth = (proba.cumsum(axis=1) > generator.random((400, 1))).argmax(axis=1)
    candidates = (generator.random((400, 4)) < 0.2) | (truth[:, None] == np.arange(4))
    timid = np.sqrt(proba) / np.sqrt(proba).sum(axis=1, keepdims=True)  # temperature two
    assert best_information(timid, candidates).mean() == pytest.approx(
        best_information(proba, candidates).mean(), rel=0.01
    )
    assert information(timid, candidates).mean() < 0.9 * information(proba, candidates).mean()


def test_settings_sound_as_sure_as_held_out_rows_say_they_may(decided, tmp_path):
    model, rows, _, _ = decided
    found = [parameters["answer_temperature"] for _, parameters in model.decisions_.members]
    possible = {round(t * f, 4) for t in TEMPERATURES for f in FACTORS}
    assert set(found) <= possible
    weighted = [
        weight * tempered_by_loops(one, rows, parameters["answer_temperature"])
        for (weight, parameters), (_, one) in zip(
            model.decisions_.members, model.settings_, strict=True
        )
    ]
    np.testing.assert_allclose(model.predict_proba(rows), np.sum(weighted, axis=0), rtol=1e-4)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


def settings_that_differ():
    """What three settings say of rows, each as sure as it is right, and the candidates."""
    generator = np.random.default_rng(0)
    truth = generator.integers(4, size=120)
    candidates = (generator.random((120, 4)) < 0.2) | (truth[:, None] == np.arange(4))
    predictions = []
    for _ in range(3):
        logits = 3.0 * (truth[:, None] == np.arange(4)) + 1.5 * generator.normal(size=(120, 4))
        predictions.append(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    return predictions, [0.5, 0.3, 0.2], candidates


def test_settings_are_as_sure_together_as_held_out_rows_say_they_may():
    predictions, weights, candidates = settings_that_differ()
    told = {
        each: reference.information_of_average(predictions, weights, each, candidates, 0.02)
        for each in FACTORS
    }
    factor = common_factor(predictions, weights, candidates)
    assert factor == max(told, key=told.get) < 1.0

    decided = {"answer_temperature": 2.0, "label_offsets": None}
    options = [Option(name, decided) for name in "ab"]
    options.append(Option("c", {**decided, "label_offsets": (0.1, 0.2, 0.3, 0.4)}))
    known = dict(zip("abc", predictions, strict=True))
    trials = SimpleNamespace(
        explicit={},
        held_candidates=candidates,
        predict=lambda option, share: known[option.name],
    )
    average = _Average(trials, options, weights, 0.5)
    average._scale_temperatures()
    together = average.options
    expected = [pytest.approx(2.0 * factor)] * 3
    assert [each.parameters["answer_temperature"] for each in together] == expected
    # The answer of a setting stays the same: its offsets are scaled too.
    scaled = np.array([0.1, 0.2, 0.3, 0.4]) / factor
    np.testing.assert_allclose(together[2].parameters["label_offsets"], scaled, atol=1e-4)


def tempered_by_loops(one, rows, temperature):
    """Return the mean over members of probabilities whose logits are divided."""
    plain = CandidateModel._log_pair(one, rows, 1.0 / temperature)
    members = []
    for member in plain:
        logits = member.double().numpy() / temperature
        members.append([np.exp(row) / np.exp(row).sum() for row in logits])
    return np.mean(members, axis=0)


def test_a_temperature_that_was_given_is_kept():
    rows, candidates, _ = wine()
    model = MaxMatchingPartialLabelClassifier(answer_temperature=2.0, encoder="linear", **QUICK)
    model.fit(rows, candidates)
    assert {each["answer_temperature"] for _, each in model.decisions_.members} == {2.0}


def test_a_setting_far_behind_is_not_averaged():
    generator = np.random.default_rng(0)
    best = generator.normal(1.0, 0.1, size=200)
    options = narrow(candidate_options({"rows": 200, "fraction of zeros": 0.0}), {})[:4]
    scores = {
        options[0].name: best,
        options[1].name: best - 0.01 + 0.1 * generator.normal(size=200),
    }
    scores |= {each.name: best - 0.9 for each in options[2:]}
    trials = [
        Trial(
            each.name,
            0,
            0.5,
            float(scores[each.name].mean()),
            0.1,
            0.0,
            None,
            tuple(scores[each.name]),
        )
        for each in options
    ]
    taken = averaged_options(Search(options, trials, False, 0.0))
    assert [option for option, _ in taken] == options[:2]


def found(scores, **kinds):
    """A search that ranks options by name, each with a score and an encoder and normalization."""
    options = [
        Option(name, {"encoder": encoder, "normalize": normalize})
        for name, (encoder, normalize) in kinds.items()
    ]
    noise = np.random.default_rng(0).normal(size=(len(options), 50)) / 100
    trials = [
        Trial(each.name, 0, 0.5, score, 0.1, 0.0, None, tuple(score + more - more.mean()))
        for each, score, more in zip(options, scores, noise, strict=True)
    ]
    return Search(options, trials, False, 0.0)


def names_of(search):
    return [option.name for option, _ in averaged_options(search)]


def test_networks_and_kernels_near_the_best_count_alike_and_forests_a_third_at_most():
    kinds = dict.fromkeys("abc", ("mlp", "both")) | {"d": ("trees", "objects")}
    for scores, share in (((1.0, 0.999, 0.5, 1.2), 1 / 3), ((1.0, 0.999, 0.5, 0.9), None)):
        weights = {o.name: w for o, w in averaged_options(found(scores, **kinds))}
        expected = share or reference.share_of_forests(1.0, 0.9, 1 / 3, averaging.FOREST_SCALE)
        assert weights["d"] == pytest.approx(expected)
        assert weights["a"] == weights["b"] == pytest.approx((1 - expected) / 2)
        assert "c" not in weights  # far behind


def test_forests_that_tell_little_beside_the_best_are_not_asked():
    kinds = {"a": ("mlp", "both"), "c": ("trees", "objects")}
    assert names_of(found((1.0, 0.5), **kinds)) == ["a"]
    assert names_of(found((0.2, 0.02), **kinds)) == ["a"]
    assert names_of(found((0.2, 0.1), **kinds)) == ["a", "c"]
    # Alone they answer whatever they tell.
    assert names_of(found((0.02,), c=("trees", "objects"))) == ["c"]


def test_texts_of_many_words_have_kernels_of_their_own():
    facts = {"rows": 1500, "fraction of zeros": 0.99}
    names = {option.name for option in candidate_options(facts)}
    assert {"kernel, l2, wide", "kernel, l2, linear"} <= names
    assert not any("power" in name for name in names)


def test_folds_hold_out_every_row_once_at_most_and_never_train_on_it():
    rows, candidates, _ = wine()
    trials = HeldOutTrials(rows, candidates, np.arange(3), None, {}, seed=0)
    assert len(trials.held) == len(set(trials.held))
    for kept, held in trials.folds:
        assert not set(kept) & set(held)


def test_ages_are_known_to_be_in_an_order_and_names_are_not():
    generator = np.random.default_rng(0)
    truth = generator.integers(3, 27, size=300)
    near = np.abs(truth[:, None] - np.arange(30)) <= 2
    rows = generator.normal(size=(300, 2))
    assert facts_of_rows(rows, near, np.arange(30))["ordered labels"]
    mixed = near[:, generator.permutation(30)]
    assert not facts_of_rows(rows, mixed, np.arange(30))["ordered labels"]
    assert not facts_of_rows(rows, near, np.array([f"c{k:02}" for k in range(30)]))[
        "ordered labels"
    ]
    as_text = np.arange(30).astype(str)
    sorted_as_text = np.argsort(as_text)  # "10" before "2"
    facts = facts_of_rows(rows, near[:, sorted_as_text], as_text[sorted_as_text])
    assert facts["ordered labels"]


def test_the_fixed_preset_searches_for_nothing():
    rows, candidates, _ = wine()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MaxMatchingPartialLabelClassifier.fixed(**QUICK).fit(rows[:20], candidates[:20])
    assert not model.settings_
    assert model.decisions_.reasons == ("All parameters were given.",)


@pytest.mark.slow
def test_the_command_line_shows_the_decisions(tmp_path):
    from typer.testing import CliRunner

    from groupnoise.cli.app import app

    folder = str(tmp_path / "model")
    words = [
        "fit",
        "digit-candidates",
        "-o",
        folder,
        "-p",
        "max_epochs=1",
        "-p",
        "n_members=1",
        "-q",
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(app, ["info", folder]).output
    assert "decided by fit, which tried " in shown
    assert "kernel" in shown
    assert "log lift on held-out rows" in " ".join(shown.split())


def test_copies_of_a_row_are_held_out_together():
    generator = np.random.default_rng(0)
    copied = np.repeat(np.arange(60), 3)
    rows = generator.normal(size=(60, 4))[copied]
    candidates = np.ones((len(rows), 3), dtype=bool)
    trials = HeldOutTrials(rows, candidates, np.arange(3), None, {}, seed=0)
    for kept, held in trials.folds:
        assert not set(copied[kept]) & set(copied[held])
    names = [str(label) for label in range(3)]
    data = PartialLabelDataset("copied", rows, candidates, names, None)
    held_out = find_setting("pll").hold_out(data, 0.2, 0)
    assert np.bincount(copied[held_out], minlength=60).tolist() == [
        3 * (n in copied[held_out]) for n in range(60)
    ]
    few = HeldOutTrials(rows.round(), candidates, np.arange(3), None, {}, seed=0)
    assert few.copies is None or len(np.unique(few.copies)) >= 40


def test_features_that_say_nothing_are_warned_of_where_rows_are_copied():
    generator = np.random.default_rng(0)
    truth = generator.integers(0, 5, 100)
    drawn, _ = add_candidates(truth, 5, epsilon=1.0, tau=2, random_state=0)
    rows = np.repeat(generator.normal(size=(100, 10)), 3, axis=0)
    model = MaxMatchingPartialLabelClassifier(encoder="kernel", random_state=0)
    with pytest.warns(UserWarning, match="no better than by label frequencies"):
        model.fit(rows, np.repeat(np.asarray(drawn), 3, axis=0).astype(int))
    assert "200 rows with the features of an earlier row" in model.decisions_.summary()
