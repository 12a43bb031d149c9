"""The one rule by which histories are scored, held to plain loops and to the training objective."""

import json
import math

import numpy as np
import pytest
import torch

import reference
from groupnoise.clicks.mixture import log_sum_exp, popular_negatives, recent_clicks
from groupnoise.clicks.scoring import ScoringRule
from groupnoise.core.objective import GroupObjective, make_weighting
from groupnoise.exceptions import ParameterError
from processes import modules_after

TABLE = np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32)
HISTORIES = [[3], [7, 1, 7], [2, 29, 4, 4, 18, 9, 11], [5, 6]]
SIMILARITIES = {"dot": reference.dot_similarity, "neg_kl": reference.negative_kl}


def flat(histories):
    offsets = np.concatenate([[0], np.cumsum([len(history) for history in histories])])
    return np.concatenate(histories).astype(np.int64), offsets


def mixture_of(rule, histories=HISTORIES):
    return rule.mixture(lambda items: TABLE[items], *flat(histories))


def similarity_of(name, scale):
    return lambda left, right: SIMILARITIES[name](left, right, scale)


def plain_features(rule, item):
    """What the reference compares: vectors, or what they are the logarithms of."""
    vector = TABLE[item].astype(float)
    return (np.exp(vector) if rule.similarity == "neg_kl" else vector).tolist()


def weights_by_loops(rule, history):
    """The log weight of each click of a history that counts, a loop at a time."""
    clicks = history if rule.n_clicks is None else history[-rule.n_clicks :]
    features = [plain_features(rule, click) for click in clicks]
    similarity = similarity_of(rule.similarity, rule.similarity_scale)
    if rule.weighting == "sigmoid":
        weights = reference.log_group_weights(features, similarity)
    elif rule.weighting == "contrastive":
        negatives = [plain_features(rule, item) for item in rule.negatives]
        weights = reference.log_contrastive_weights(features, negatives, similarity)
    else:
        weights = [0.0] * len(clicks)
    return [
        rule.weighting_strength * weight - rule.recency * (len(clicks) - 1 - place)
        for place, weight in enumerate(weights)
    ]


@pytest.mark.parametrize("scope", ["group", "last"])
@pytest.mark.parametrize("window_size", [None, 3])
@pytest.mark.parametrize("weighting", ["sigmoid", "contrastive", None])
@pytest.mark.parametrize("similarity", ["dot", "neg_kl"])
def test_a_history_becomes_its_clicks_weighed_by_equation_five(
    scope, window_size, weighting, similarity
):
    rule = ScoringRule(
        scope=scope,
        window_size=window_size,
        weighting=weighting,
        weighting_strength=0.7,
        similarity=similarity,
        similarity_scale=0.5,
        recency=0.3,
        negatives=(0, 8, 8, 21),
    )
    mixture = mixture_of(rule)
    for row, history in enumerate(HISTORIES):
        terms = slice(mixture.offsets[row], mixture.offsets[row + 1])
        clicks = history if rule.n_clicks is None else history[-rule.n_clicks :]
        assert mixture.items[mixture.query_of[terms]].tolist() == clicks
        np.testing.assert_allclose(
            mixture.log_weight[terms], weights_by_loops(rule, history), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("form", ["sigmoid", "contrastive"])
@pytest.mark.parametrize("similarity", ["dot", "neg_kl"])
def test_an_answer_weighs_clicks_as_training_does(form, similarity):
    negatives = tuple(range(0, 30, 3))
    weighting = make_weighting(form, similarity=similarity, scale=0.5)
    if form == "contrastive":
        weighting = weighting.against(torch.from_numpy(TABLE[list(negatives)]))
    objective = GroupObjective(weighting=weighting, weighting_strength=0.7, recency=0.3)
    rule = ScoringRule(
        weighting=form,
        weighting_strength=0.7,
        similarity=similarity,
        similarity_scale=0.5,
        recency=0.3,
        negatives=negatives,
    )
    mixture = mixture_of(rule)
    for row, history in enumerate(HISTORIES):
        features, mask = torch.from_numpy(TABLE[history])[None], torch.ones(1, len(history)).bool()
        expected = objective.log_trust(objective.log_weight(features, mask), mask)[0]
        terms = slice(mixture.offsets[row], mixture.offsets[row + 1])
        np.testing.assert_allclose(mixture.log_weight[terms], expected, rtol=1e-4, atol=1e-5)


def test_some_histories_of_a_mixture_are_those_histories():
    rule = ScoringRule(window_size=3, recency=0.2)
    some = mixture_of(rule).take(np.array([3, 1]))
    alone = mixture_of(rule, [HISTORIES[3], HISTORIES[1]])
    for taken, expected in zip(some, alone, strict=True):
        np.testing.assert_allclose(taken, expected, rtol=1e-6)


def test_a_weighting_of_ones_own_answers_but_cannot_be_written():
    def halves(features):
        return np.full(features.shape[:2], math.log(0.5), dtype=np.float32)

    rule = ScoringRule(weighting=halves)
    np.testing.assert_allclose(mixture_of(rule).log_weight, math.log(0.5))
    with pytest.raises(ParameterError, match=r"a file cannot hold the weighting .*halves"):
        rule.as_record()


def test_a_rule_survives_json():
    rule = ScoringRule(
        scope="last", window_size=4, weighting="contrastive", recency=0.3, negatives=(2, 9)
    )
    assert ScoringRule.from_record(json.loads(json.dumps(rule.as_record()))) == rule


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": "sideways"}, "knows no scoring rule with 'order'"),
        ({"scope": "all"}, "scope"),
        ({"window_size": 0}, "window_size"),
        ({"weighting": "cosine"}, "weighting"),
        ({"weighting": ["sigmoid"]}, "weighting must be a name"),
        ({"recency": "1"}, "recency must be a number"),
        ({"recency": float("nan")}, "recency must be a number"),
        ({"weighting_strength": 1e7}, "weighting_strength must be a number of at most"),
        ({"similarity_scale": True}, "similarity_scale must be a number"),
        ({"negatives": 5}, "negatives must be a list"),
        ({"negatives": [1.5]}, "negatives must be item indices"),
        ({"negatives": [-1]}, "negatives must be item indices"),
        ({"weighting": "contrastive"}, "needs the negatives"),
    ],
)
def test_a_rule_from_a_file_is_looked_at(changes, message):
    with pytest.raises(ParameterError, match=message):
        ScoringRule.from_record({**ScoringRule().as_record(), **changes})


def test_a_rule_that_leaves_a_field_out_is_refused():
    record = ScoringRule().as_record()
    del record["scope"]
    with pytest.raises(ParameterError, match="does not say its 'scope'"):
        ScoringRule.from_record(record)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "all clicks"),
        ({"window_size": 5}, "the last 5 clicks"),
        ({"window_size": 1}, "the last click"),
        ({"window_size": 5, "scope": "last"}, "the last click"),
    ],
)
def test_a_rule_says_how_many_clicks_it_uses(changes, words):
    assert ScoringRule(**changes).clicks_used == words


def test_negatives_come_as_often_as_they_are_clicked():
    popularity = np.array([10.0, 0.0, 70.0, 20.0])
    counts = np.bincount(popular_negatives(popularity, 100), minlength=4)
    assert counts.tolist() == [10, 0, 70, 20]


def test_recent_clicks_are_the_last_of_each_history():
    clicks, begins = recent_clicks(*flat(HISTORIES), 2)
    assert np.split(clicks, begins[1:-1])[2].tolist() == [9, 11]
    everything, _ = recent_clicks(*flat(HISTORIES), None)
    assert everything.tolist() == flat(HISTORIES)[0].tolist()


def test_log_sum_exp_survives_large_scores():
    scores = np.array([[1000.0, 1000.0]], dtype=np.float32)
    np.testing.assert_allclose(log_sum_exp(scores, axis=1), [1000 + math.log(2)])


def test_the_rule_needs_no_torch():
    assert "torch" not in modules_after("import groupnoise.clicks.scoring")
