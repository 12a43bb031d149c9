"""Without parameters: what is decided, on what grounds, and that it is right on the shop."""

import functools
import warnings

import numpy as np
import pytest

from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.clicks import make_shop, rank_targets
from groupnoise.clicks.baselines import (
    ALSRecommender,
    EASERecommender,
    ItemCFRecommender,
    PopularityRecommender,
)
from groupnoise.clicks.evidence import decide as automatic
from groupnoise.clicks.evidence.averages import averages_to_try, larger_average
from groupnoise.clicks.evidence.decide import choose_affordable
from groupnoise.clicks.evidence.model import add_queries, gains, hold_out_last, popularity_warning
from groupnoise.clicks.evidence.options import DEEP, click_options
from groupnoise.core import ndcg_at_k
from groupnoise.decisions.portfolio import Option
from groupnoise.decisions.record import Trial
from groupnoise.exceptions import ParameterError


def shop_log(*, shuffled):
    """Return training histories and what came next, of a shop with or without order."""
    shop = make_shop(400, 120, random_state=3)
    rng = np.random.default_rng(0)
    histories = [rng.permutation(h) if shuffled else np.asarray(h) for h in shop.histories]
    training = Groups.from_lists([history[:-1] for history in histories])
    return Groups(training.objects, training.offsets), Groups(
        training.objects, training.offsets, np.array([history[-1] for history in histories])
    )


@functools.cache
def plain_fit(*, shuffled):
    """Return a fit without parameters, which takes ten seconds."""
    model = MaxMatchingRecommender(random_state=0)
    return model.fit(shop_log(shuffled=shuffled)[0], item_ids=np.arange(120))


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [True, False], ids=["shuffled", "in order"])
def test_a_plain_fit_is_ahead_of_what_is_simple(shuffled):
    training, queries = shop_log(shuffled=shuffled)

    def ndcg(model):
        return ndcg_at_k(*rank_targets(model, queries, 120, "full"))

    ours = ndcg(plain_fit(shuffled=shuffled))
    simple = {
        type(model).__name__: ndcg(model.fit(training, item_ids=np.arange(120)))
        for model in (
            PopularityRecommender(),
            ItemCFRecommender(),
            EASERecommender(),
            ALSRecommender(random_state=0),
        )
    }
    assert ours > max(simple.values()), (ours, simple)


@pytest.mark.slow
def test_what_was_decided_is_told_and_can_be_repeated():
    training, queries = shop_log(shuffled=False)
    model = plain_fit(shuffled=False)
    decisions = model.decisions_
    assert {trial.option for trial in decisions.trials} >= {"two tables", "one table"}
    assert decisions.facts["histories"] == 400
    assert 0 < decisions.baselines["popularity"] < 1
    ((weight, parameters),) = decisions.members
    assert weight == 1.0
    assert parameters["normalization"] == "history"
    again = MaxMatchingRecommender(**parameters, random_state=0)
    again.fit(training, item_ids=np.arange(120))
    assert not again.decisions_.trials
    np.testing.assert_allclose(again.scores(queries), model.scores(queries), rtol=1e-5, atol=1e-5)


def test_explicit_values_are_respected_and_the_rest_is_decided():
    training, _ = shop_log(shuffled=False)
    model = MaxMatchingRecommender(dim=12, shared=True, linear=None, random_state=0)
    model.fit(training[:60])
    ((_, parameters),) = model.decisions_.members
    assert (parameters["dim"], parameters["shared"]) == (12, True)
    assert model.item_vectors().query.shape[1] == 12


def test_batches_that_are_normalized_in_halves_are_told_of():
    rng = np.random.default_rng(0)
    histories = [rng.choice(900, size=5, replace=False) for _ in range(400)]
    told = {}
    for batch_size in (512, 1024):
        model = MaxMatchingRecommender(
            encoder="recurrence", batch_size=batch_size, n_negatives=64, dim=128, max_epochs=1,
            linear=None, random_state=0,
        )  # fmt: skip
        reasons = model.fit(histories, item_ids=np.arange(900)).decisions_.reasons
        told[batch_size] = [each for each in reasons if each.startswith("Halves of each batch")]
    assert told[512] == []
    assert "1024 targets were normalized over their own targets" in told[1024][0]


@pytest.mark.parametrize(
    "asking", [{"selection": "max"}, {"recency": 0.0}, {"n_members": 1}, {"weighting": None}]
)
def test_parameters_of_groups_ask_for_groups(asking):
    training, _ = shop_log(shuffled=False)
    model = MaxMatchingRecommender(dim=4, max_epochs=1, random_state=0, **asking)
    model.fit(training[:50], item_ids=np.arange(120))
    assert model.scoring_rule().normalization == "click"
    assert model.decisions_.taken == (("explicit", 1.0),)
    with pytest.raises(ParameterError, match=f"{next(iter(asking))}=.* belongs to"):
        model.set_params(normalization="history").fit(training[:50], item_ids=np.arange(120))


def test_too_few_histories_take_stated_defaults_with_a_warning():
    with pytest.warns(UserWarning, match="too few to try settings on"):
        model = MaxMatchingRecommender(random_state=0).fit([["a", "b", "c"], ["b", "c", "a"]] * 3)
    assert model.decisions_.taken == (("two tables", 1.0),)


def test_clicks_that_follow_from_nothing_are_told():
    said = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        histories = [rng.integers(100, size=12).tolist() for _ in range(200)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            MaxMatchingRecommender(random_state=0, max_epochs=1).fit(histories)
        said += [str(warning.message) for warning in caught]
    # By a standard error one draw in six looks better than it is.
    assert sum("on items new to their user are predicted" in sentence for sentence in said) >= 2


def test_known_items_put_first_are_no_gain_over_popularity():
    rng = np.random.default_rng(0)
    popular, is_again = rng.random(300) / 10, np.arange(300) < 60
    gain = np.where(is_again, 0.9, popular)
    (said,) = popularity_warning(gain, popular, is_again)
    assert "on items new to their user are predicted no better" in said
    assert popularity_warning(gain + 0.1, popular, is_again) == []
    (said,) = popularity_warning(popular + rng.normal(0.001, 0.1, 300), popular, ~is_again & False)
    assert said.startswith("held-out clicks are predicted ")
    few_are_new = np.arange(300) >= 5
    gain = np.where(few_are_new, popular + 0.5, popular)
    assert popularity_warning(gain, popular, few_are_new) == []  # five new items tell nothing
    (said,) = popularity_warning(popular, popular, is_again | True)
    assert said.startswith("held-out clicks are predicted no better")


def test_a_budget_that_is_spent_tries_the_first_option_alone():
    training, _ = shop_log(shuffled=False)
    model = MaxMatchingRecommender(budget=1e-6, linear=None, random_state=0).fit(training[:100])
    assert [trial.option for trial in model.decisions_.trials] == ["two tables"]
    assert (
        "one table, in order, both, deep, two in order, all three not tried"
        in model.decisions_.summary()
    )


def test_a_last_training_that_would_take_hours_is_left_for_one_member_and_then_shortened():
    options = click_options(Groups.from_lists([[1, 2, 3, 4]] * 30), 9)
    both, alone = options[3], options[2]
    trials = [
        Trial("two tables", 0, 1 / 3, 0.5, 0.1, seconds=1.0),  # two of six epochs
        Trial("in order", 0, 1 / 3, 0.5, 0.1, seconds=9.0),
        Trial("both", 1, 1.0, 0.5, 0.1, seconds=0.1),  # its members were there
    ]
    ranking = [both, alone, options[0]]
    assert choose_affordable(ranking, trials, 10.0, 100.0) == (both, 300.0)
    assert choose_affordable(ranking, trials, 1000.0, None) == (both, 30_000.0)
    assert choose_affordable(ranking, trials, 15.0, 105.0) == (alone, 405.0)
    assert choose_affordable(ranking, trials, 60.0, 1.0) == (
        alone,
        1620.0,
    )  # half an hour is no surprise
    shorter, seconds = choose_affordable(ranking, trials, 1000.0, 4500.0)
    assert (shorter.name, shorter.parameters["max_epochs"], seconds) == ("in order", 4, 18_000.0)
    assert choose_affordable(ranking, trials, 1000.0, 1.0, may_shorten=False) == (alone, 27_000.0)


def test_a_long_last_training_is_announced_and_shortened(monkeypatch):
    monkeypatch.setattr(automatic, "MIN_SHORTENED_SECONDS", 0.0)
    training, _ = shop_log(shuffled=False)
    records = []
    model = MaxMatchingRecommender(budget=1e-6, linear=None, random_state=0)
    model.set_params(on_epoch=records.append).fit(training[:100])
    begun = next(record for record in records if record["epoch"] == 0)
    assert begun["option"] == "two tables"
    assert begun["expected_seconds"] > 0
    assert model.decisions_.members[0][1]["max_epochs"] == 1
    assert "would have taken about" in model.decisions_.summary()
    records.clear()
    explicit = MaxMatchingRecommender(max_epochs=3, budget=1e-6, linear=None, random_state=0)
    explicit.set_params(on_epoch=records.append).fit(training[:100])
    assert max(record["epoch"] for record in records if "trial" not in record) == 3


def test_the_last_clicks_of_some_histories_are_held_out():
    histories = Groups.from_lists([[1, 2, 3, 4], [5, 6]] * 200)
    held = hold_out_last(histories, np.random.default_rng(0), max_users=25)
    assert len(held.queries) == 25
    assert set(held.queries.targets) == {4}
    assert held.training.n_objects == histories.n_objects - 25
    assert all(group.tolist() == [1, 2, 3] for group in held.queries)
    assert hold_out_last(Groups.from_lists([[1, 2]] * 50), np.random.default_rng(0)) is None


def test_of_a_log_of_pairs_a_fifth_is_asked_about():
    histories = Groups.from_lists([[1, 2]] * 200 + [[3, 4, 5]] * 10)
    held = hold_out_last(histories, np.random.default_rng(0))
    assert sorted(np.asarray(held.queries.targets).tolist()) == [2] * 40 + [5] * 10
    assert held.training.n_objects == histories.n_objects - 50


def test_histories_that_no_option_learns_from_are_asked_for_their_last_clicks():
    rng = np.random.default_rng(0)
    held = hold_out_last(Groups.from_lists([[1, 2, 3]] * 30), rng)
    others = Groups.from_lists([[4, 5, 6, 7]] * 25 + [[8, 9]])
    queries = add_queries(held, others, 10, rng).queries
    assert [part.tolist() for part in queries] == [[1, 2]] * 30 + [[4, 5, 6]] * 25
    assert np.asarray(queries.targets).tolist() == [3] * 30 + [7] * 25
    few = add_queries(held, others, (1 << 27) // 32, rng).queries
    assert len(few) == 32
    assert add_queries(held, None, 10, rng) is held


def test_gains_leave_out_what_was_seen_and_halve_ties():
    queries = Groups.from_lists([[0, 1], [2]], targets=[2, 2])
    scores = np.array([[9.0, 8.0, 5.0, 7.0], [1.0, 1.0, 1.0, 0.0]])
    np.testing.assert_allclose(gains(scores, queries), [1 / np.log2(3), 1 / np.log2(3)])


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_epochs", 0), ("dim", 0), ("batch_size", 0), ("n_negatives", 0), ("window_size", 0),
     ("learning_rate", 0.0), ("weight_decay", -1.0), ("init", "warm"), ("budget", 0),
     ("normalization", "both"), ("encoder", "attention"), ("encoder", ())],
)  # fmt: skip
def test_a_bad_parameter_is_named(name, value):
    model = MaxMatchingRecommender(**{"random_state": 0, "linear": None, name: value})
    with pytest.raises(ParameterError, match=name):
        model.fit([[0, 1, 2, 3], [2, 3, 0]] * 15)


@pytest.mark.filterwarnings("ignore:held-out clicks")  # and rightly
def test_the_same_seed_gives_the_same_answers_bit_by_bit(tmp_path):
    histories = [[row % 7, (row + 1) % 7, (row + 2) % 7, row % 3] for row in range(40)]
    first, second, other = (
        MaxMatchingRecommender(random_state=seed).fit(histories).scores([[1, 2], [3]])
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def test_every_epoch_is_reported_and_the_best_one_kept():
    histories = [[row % 7, (row + 1) % 7, (row + 2) % 7] for row in range(40)]
    seen, values = [], iter([3.0, 9.0, 1.0])
    model = MaxMatchingRecommender(max_epochs=3, encoder=None, random_state=0, on_epoch=seen.append)
    kept = {}

    def validate(fitted):
        value = next(values)
        kept[value] = fitted.model_.target_encoder.weight.detach().clone()
        return value

    model.fit(histories, validate=validate)
    assert any("trial" in record for record in seen)
    assert [record["validation"] for record in model.history_] == [3.0, 9.0, 1.0]
    assert model.history_.best_epoch == 2
    width = kept[9.0].shape[1]
    assert np.array_equal(model.item_vectors().target[:, :width], kept[9.0].numpy())


def test_a_deep_recurrence_has_one_table_and_twice_the_epochs_beside_any_other():
    histories = [[row % 7, (row + 1) % 7, (row + 2) % 7] for row in range(40)]
    plain = {"max_epochs": 1, "shared": False, "weight_decay": 1.0, "linear": None, "dim": 5}
    encoder = ("deep recurrence", "recurrence")
    model = MaxMatchingRecommender(encoder=encoder, random_state=0, **plain).fit(histories)
    assert [(record["member"], record["epoch"]) for record in model.history_] == [
        (1, 1), (1, 2), (2, 1)]  # fmt: skip
    assert [each.n_layers for each in model.rule_.encoders] == [2, 1]
    vectors = model.item_vectors()
    # A table of its own differs from the other only by the scale of each block.
    ratio = vectors.query / vectors.target
    assert np.ptp(ratio[:, :5], axis=0).max() < 1e-4
    assert np.ptp(ratio[:, 5:], axis=0).max() > 1e-4


def test_members_with_and_without_an_encoder_are_trained_in_turn_and_averaged():
    histories = [[row % 7, (row + 1) % 7, (row + 2) % 7] for row in range(40)]
    plain = {"max_epochs": 2, "shared": False, "weight_decay": 1.0, "linear": None, "dim": 5}
    both, first, second = (
        MaxMatchingRecommender(encoder=encoder, random_state=0, **plain).fit(histories)
        for encoder in (("recurrence", None), "recurrence", None)
    )
    assert [(record["member"], record["epoch"]) for record in both.history_] == [
        (1, 1), (1, 2), (2, 1), (2, 2)]  # fmt: skip
    vectors = both.item_vectors()
    assert vectors.query.shape[1] == 10

    def logits(model):
        log_probability = model.scores([[1, 2], [3]])
        return log_probability - log_probability[:, :1]

    np.testing.assert_allclose(
        logits(both), (logits(first) + logits(second)) / 2, rtol=1e-3, atol=1e-4
    )


def test_two_members_with_the_same_encoder_differ():
    histories = [[row % 7, (row + 1) % 7, (row + 2) % 7] for row in range(40)]
    plain = {"max_epochs": 2, "shared": False, "weight_decay": 1.0, "linear": None, "dim": 5}
    model = MaxMatchingRecommender(encoder=(None, None), random_state=0, **plain).fit(histories)
    first, second = np.split(model.item_vectors().target, 2, axis=1)
    assert not np.allclose(first, second)


@pytest.mark.parametrize("asking", [{"selection": "max"}, {"normalization": "click"}])
def test_an_encoder_does_not_go_with_clicks_taken_by_themselves(asking):
    with pytest.raises(ParameterError, match="encoder='recurrence' is for whole histories"):
        MaxMatchingRecommender(encoder="recurrence", **asking).fit([["a", "b", "c"]] * 30)


@pytest.mark.filterwarnings("ignore:held-out clicks")  # and rightly
def test_linear_evidence_is_added_over_all_clicks_however_long_ago():
    rng = np.random.default_rng(0)
    histories = [rng.permutation(60)[: rng.integers(3, 55)].tolist() for _ in range(40)]
    linear = {"together": (5.0, 3.0, 0.0)}
    settings = {"window_size": 4, "shared": True, "weight_decay": 1.0, "max_epochs": 1}
    model = MaxMatchingRecommender(linear=linear, **settings, random_state=0).fit(histories)
    long = rng.permutation(60)[:50].tolist()
    first, other = model.scores([long, [*long[1:2], *long[1:]]])
    assert not np.allclose(first, other)
    assert model.scoring_rule().n_clicks > 50


def test_a_leader_that_falls_with_more_epochs_is_held_to_averages():
    deep, two, plain = (
        Option(name, {"encoder": encoder}, "")
        for name, encoder in (("deep", "d"), ("two", ("d", "r")), ("plain", "r"))
    )
    ranking = [deep, two, plain]

    def trial(name, rung, score):
        return Trial(name, rung, 1.0, score, 0.005, 1.0)

    first = [trial("deep", 0, 0.3), trial("two", 0, 0.29), trial("plain", 0, 0.2)]
    assert averages_to_try(ranking, first) == []
    assert averages_to_try(ranking, [*first, trial("deep", 1, 0.4)]) == []
    assert averages_to_try(ranking, [*first, trial("deep", 1, 0.25)]) == [two]
    assert averages_to_try(ranking, [*first, trial("deep", 1, 0.25), trial("two", 1, 0.2)]) == []


def test_an_average_within_the_error_of_its_leading_member_is_tried_as_long():
    encoders = {
        "deep": DEEP,
        "two": (DEEP, "recurrence"),
        "order": "recurrence",
        "both": ("recurrence", None),
        "three": (DEEP, "recurrence", None),
    }
    options = {name: Option(name, {"encoder": each}, "") for name, each in encoders.items()}

    def rivals(leader, scores, whole=0.5, error=0.02):
        trials = [Trial(name, 0, 1.0, score, error, 1.0) for name, score in scores.items()]
        trials.append(Trial(leader, 1, 1.0, whole, error, 1.0))
        ranking = sorted(options.values(), key=lambda option: -scores[option.name])
        return [option.name for option in averages_to_try(ranking, trials)]

    near = {"deep": 0.3, "two": 0.29, "order": 0.2, "both": 0.21, "three": 0.25}
    assert rivals("deep", near) == ["two"]
    assert rivals("deep", near, error=0.005) == []
    # Of an average that leads, one with a further member that is quick to train.
    assert rivals("two", {**near, "two": 0.31}) == ["three"]
    assert rivals("both", {**near, "both": 0.31}) == []
    # Of a leader that is quick to train no average is tried that takes several times as long.
    quick = {"order": 0.3, "two": 0.29, "both": 0.285, "deep": 0.28, "three": 0.2}
    assert rivals("order", quick) == ["both"]


def test_of_averages_that_are_level_the_one_of_more_members_is_taken():
    both, three, deep = (
        Option(name, {"encoder": encoder}, "")
        for name, encoder in (("both", ("r", None)), ("three", ("d", "r", None)), ("deep", "d"))
    )
    gain = np.tile([0.0, 0.5, 1.0], 100)
    noise = np.tile([0.3, -0.3], 150)
    behind = {"both": gain, "three": gain - 0.01 + noise, "deep": gain}
    assert larger_average([both, three, deep], behind) is three
    assert larger_average([both, three], {**behind, "three": gain - 0.01}) is None
    assert larger_average([both, three], {"both": gain}) is None
    assert larger_average([three, both], behind) is None
    assert larger_average([deep, three], behind) is None


def test_a_loss_that_levels_off_does_not_go_with_clicks_taken_by_themselves():
    training, _ = shop_log(shuffled=False)
    for asked in ({"recency": 0.1}, {"normalization": "click"}):
        model = MaxMatchingRecommender(levelling=0.2, max_epochs=1, **asked)
        with pytest.raises(ParameterError, match=r"levelling=0\.2 is for whole histories"):
            model.fit(training)
    with pytest.raises(ParameterError, match="levelling"):
        MaxMatchingRecommender(levelling=-1.0).fit(training)


def test_a_catalogue_too_large_to_score_all_held_out_clicks_at_once_is_fitted(monkeypatch):
    training, _ = shop_log(shuffled=False)
    monkeypatch.setattr("groupnoise.clicks.evidence.linear.MAX_SCORES", 120 * 30)
    model = MaxMatchingRecommender(
        encoder=None, shared=True, max_epochs=2, dim=16, learning_rate=0.02, random_state=0
    ).fit(training, item_ids=np.arange(120))
    decisions = model.decisions_
    assert decisions.held_out > decisions.baselines["popularity"] > 0
    assert decisions.baselines["low-rank EASE"] > 0
