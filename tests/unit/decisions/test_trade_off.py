"""What "auto" chooses, by what, and that the choice is kept."""

import numpy as np
import pytest

from groupnoise import (
    Groups,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
    load_model,
)
from groupnoise.candidates import load_digit_candidates
from groupnoise.clicks import make_shop
from groupnoise.decisions.trade_off import (
    STRENGTHS,
    TEMPERATURES,
    GroupCriteria,
    TradeOffTrial,
    best_trial,
    candidate_criteria,
    history_criteria,
)
from groupnoise.exceptions import DataError, ParameterError


class SaidBefore:
    """A model whose answers are given."""

    def __init__(self, chances=None, scores=None):
        self.chances, self.logits = chances, scores

    def predict_proba(self, rows):
        return self.chances

    @property
    def n_items_(self):
        return self.logits.shape[1]

    def scores(self, windows):
        return self.logits[windows.objects]


def test_a_row_is_as_likely_as_all_of_its_candidates_together():
    model = SaidBefore(np.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]))
    candidates = np.array([[True, True, False], [True, False, False]])
    found = candidate_criteria(model, np.zeros((2, 1)), candidates)
    assert found.log_likelihood == pytest.approx(np.mean(np.log([0.8, 0.1])))
    assert found.covering_rate == 0.5
    assert found.approximated_accuracy == pytest.approx(0.5 * 0.5 / 0.8)


def test_a_window_is_as_likely_as_its_next_click():
    scores = np.log(np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]])) + 5.0
    windows = Groups(np.array([0, 1]), [0, 1, 2], np.array([0, 1]))
    found = history_criteria(SaidBefore(scores=scores), windows)
    assert found.log_likelihood == pytest.approx(np.mean(np.log([0.7, 0.3])))
    assert found.approximated_accuracy == pytest.approx((1 + 1 / np.log2(3)) / 2)


def test_windows_are_judged_alike_a_few_at_a_time(monkeypatch):
    generator = np.random.default_rng(0)
    model = SaidBefore(scores=generator.normal(size=(50, 30)).astype(np.float32))
    windows = Groups(np.arange(50), np.arange(51), generator.integers(30, size=50))
    together = history_criteria(model, windows)
    monkeypatch.setattr("groupnoise.decisions.trade_off.SCORES_AT_ONCE", 7 * 30)
    assert history_criteria(model, windows) == pytest.approx(together, rel=1e-12)


def test_windows_without_targets_cannot_judge():
    with pytest.raises(DataError, match="targets"):
        history_criteria(SaidBefore(), Groups(np.array([0]), [0, 1]))


def digit_candidates():
    data = load_digit_candidates(random_state=0)
    model = MaxMatchingPartialLabelClassifier.fixed(
        encoder="linear", dim=8, max_epochs=1, n_members=2, random_state=0
    )
    return model, (data.features[:200], data.candidates[:200])


def shop_clicks():
    shop = make_shop(n_users=80, n_items=60, random_state=0)
    model = MaxMatchingRecommender(normalization="click", dim=8, max_epochs=1, random_state=0)
    return model, ([shop.item_ids[clicks] for clicks in shop.histories],)


def test_a_stronger_weighting_has_to_earn_more_than_a_tie():
    def trial(strength, rate):
        return TradeOffTrial(strength, 1.0, GroupCriteria(0.0, rate, 0.0))

    tied = [trial(0.0, 0.5), trial(0.1, 0.501), trial(1.0, 0.502)]
    assert best_trial(tied).weighting_strength == 0.0
    assert best_trial([*tied, trial(3.0, 0.6)]).weighting_strength == 3.0


@pytest.mark.parametrize("setting", [digit_candidates, shop_clicks])
def test_auto_tries_every_strength_and_takes_the_best_covering_one(setting, tmp_path):
    model, data = setting()
    model.set_params(weighting_strength="auto").fit(*data)
    trials = model.trade_off_.trials
    assert [trial.weighting_strength for trial in trials] == list(STRENGTHS)
    assert model.weighting_strength_ == best_trial(trials).weighting_strength
    assert model.get_params()["weighting_strength"] == "auto"
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.weighting_strength_ == model.weighting_strength_
    assert again.trade_off_.trials[0].criteria == pytest.approx(trials[0].criteria)


def test_a_choice_beside_a_number_of_numpy_is_kept(tmp_path):
    model, data = digit_candidates()
    model.set_params(weighting_strength=np.float32(0.5), temperature="auto").fit(*data)
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model").trade_off_.weighting_strength == 0.5


def test_auto_gives_the_model_that_the_chosen_values_give():
    model, data = digit_candidates()
    chosen = model.set_params(weighting_strength="auto", temperature="auto").fit(*data)
    assert len(chosen.trade_off_.trials) == len(STRENGTHS) * len(TEMPERATURES)
    plain, _ = digit_candidates()
    plain.set_params(
        weighting_strength=chosen.weighting_strength_, temperature=chosen.temperature_
    ).fit(*data)
    np.testing.assert_array_equal(plain.predict_proba(data[0]), chosen.predict_proba(data[0]))


def test_labels_that_occur_once_are_never_held_out():
    model, (rows, candidates) = digit_candidates()
    rare = np.zeros((len(rows), 1), dtype=bool)
    rare[17] = True
    model.set_params(weighting_strength="auto").fit(rows, np.hstack([candidates, rare]))
    assert len(model.classes_) == 11


def test_weights_of_candidates_reach_the_trials():
    model, (rows, candidates) = digit_candidates()
    weights = np.random.default_rng(0).uniform(1.0, 9.0, candidates.shape)
    fitted = model.set_params(weighting_strength="auto").fit(
        rows, candidates, candidate_weights=weights
    )
    other, _ = digit_candidates()
    other.set_params(weighting_strength="auto").fit(rows, candidates)
    assert fitted.trade_off_.trials != other.trade_off_.trials


def test_an_automatic_temperature_needs_tempered_selection():
    model, data = shop_clicks()
    with pytest.raises(ParameterError, match="selection='tempered'"):
        model.set_params(temperature="auto").fit(*data)


def test_a_handful_of_groups_is_too_little_to_choose_by():
    model, _ = shop_clicks()
    with pytest.raises(DataError, match="needs 10 or more"):
        model.set_params(weighting_strength="auto").fit([["a", "b", "c", "d"]])


def test_what_is_chosen_in_fit_is_not_known_before():
    with pytest.raises(ParameterError, match="chosen in fit"):
        _ = MaxMatchingRecommender(weighting_strength="auto").weighting_strength_


def test_the_command_line_takes_auto_and_shows_what_was_decided(tmp_path):
    from typer.testing import CliRunner

    from groupnoise.cli.app import app

    folder = str(tmp_path / "model")
    options = ["-p", "weighting_strength=auto", "-p", "max_epochs=1", "-p", "encoder=linear", "-q"]
    fitted = CliRunner().invoke(app, ["fit", "digit-candidates", "-o", folder, *options])
    assert fitted.exit_code == 0, fitted.output
    shown = CliRunner().invoke(app, ["info", folder]).output
    assert "decided by fit, which tried " in shown
    assert "linear, standard: linear; standardized features" in shown


def test_a_fit_with_numbers_forgets_what_an_earlier_one_chose(tmp_path):
    model, data = shop_clicks()
    model.set_params(weighting_strength="auto").fit(*data)
    assert hasattr(model, "trade_off_")
    model.set_params(weighting_strength=1.0).fit(*data).save(tmp_path / "model")
    assert not hasattr(model, "trade_off_")
    assert not hasattr(load_model(tmp_path / "model"), "trade_off_")
