"""For every value of every option of the recommender: saved, exported and served, it answers alike.

The way of each model: fit -> save -> load -> export -> batch recall -> HTTP. What an artifact
cannot hold is refused when it is exported, in one sentence.
"""

import inspect
import shutil

import numpy as np
import pytest

from click_journeys import asked_histories, read_answers, serving, shop_histories, write_log
from groupnoise import Groups, MaxMatchingRecommender, load_model
from groupnoise.clicks import rank_targets
from groupnoise.clicks.baselines import CooccurrenceRecommender, ItemCFRecommender
from groupnoise.core.weighting import Dot
from groupnoise.exceptions import ParameterError
from groupnoise.recall import RecallOptions, open_artifact

TINY = {
    "normalization": "click",
    "dim": 8,
    "max_epochs": 3,
    "batch_size": 64,
    "n_negatives": 16,
    "learning_rate": 0.05,
    "init_std": 0.3,
    "random_state": 0,
}
"""Large steps from far apart: vectors of some length, so that every option has a say."""

OPTIONS = {
    "normalization": ["click", "auto"],
    "linear": [None],
    "encoder": ["recurrence", None, ("recurrence", None), ("deep recurrence", "recurrence")],
    "dim": [3],
    "shared": [False],
    "item_bias": [False],
    "window_size": [1, 3],
    "min_window": [2],
    "scope": ["group", "last"],
    "candidates": ["sampled", "full", "in_batch"],
    "n_negatives": [8],
    "corrected": [True],
    "init": ["random", "spectral", ("spectral", "random")],
    "init_std": [0.1],
    "selection": ["max", "marginal", "tempered", "top_k", "all"],
    "temperature": [0.5, "auto"],
    "top_k": [3],
    "weighting": ["sigmoid", "contrastive", None],
    "weighting_strength": [0.0, 3.0, "auto"],
    "similarity": ["dot", "neg_kl"],
    "similarity_scale": [0.3],
    "recency": [0.0, 1.0],
    "max_epochs": [1],
    "batch_size": [32],
    "learning_rate": [0.01],
    "weight_decay": [0.0],
    "levelling": [0.0, 0.5],
    "schedule": ["constant", "linear"],
    "patience": [1],
    "shuffle_pool": [50],
    "n_members": [2],
    "keep_optimizer": [True],
    "random_state": [7],
    "device": ["cpu"],
}
HISTORY = {
    "normalization": "history",
    "shared": False,
    "weight_decay": 0.5,
    "encoder": None,
    "linear": None,
}
"""Added evidence, with nothing left to decide."""
NOT_ABOUT_ANSWERS = {"on_epoch", "budget"}
NEEDED_BESIDE = {
    "temperature": {"selection": "tempered"},
    "top_k": {"selection": "top_k"},
    "corrected": {"candidates": "in_batch"},
    "encoder": {"normalization": "history", "linear": None},
    "levelling": HISTORY,
}
TOGETHER = [
    HISTORY,
    {**HISTORY, "scope": "last"},
    {**HISTORY, "window_size": 3, "init": "random", "candidates": "full"},
    {
        **HISTORY,
        "shared": True,
        "linear": {"together": (1.0, 30.0, 0.3), "following": (2.0, 5.0, 0)},
    },
    {**HISTORY, "encoder": "recurrence", "window_size": 3},
    {**HISTORY, "encoder": "recurrence", "scope": "last"},
    {**HISTORY, "encoder": ("recurrence", None), "linear": {"together": (1.0, 30.0, 0.3, 5)}},
    {"normalization": "history"},
    {"weighting": "contrastive", "similarity": "neg_kl"},
    {"weighting": "contrastive", "scope": "last"},
    {"weighting": "contrastive", "n_members": 2, "shared": False},
    {"similarity": "neg_kl", "n_members": 2, "recency": 0.0},
]
CASES = [
    {**NEEDED_BESIDE.get(name, {}), name: value}
    for name, values in OPTIONS.items()
    for value in values
] + TOGETHER


PARAMETERS = set(inspect.signature(MaxMatchingRecommender).parameters)


def test_every_option_of_the_recommender_takes_the_journey():
    assert set(OPTIONS) | NOT_ABOUT_ANSWERS == PARAMETERS


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One service for all models: each is exported over the last, and reloaded."""
    folder = tmp_path_factory.mktemp("service")
    first = MaxMatchingRecommender(**TINY).fit(shop_histories())
    first.export(folder / "artifact")
    with serving(folder / "artifact", folder / "log") as client:
        yield client, folder / "artifact"


def settings(case):
    """Return the small model of a case; added evidence has no random start to speak of."""
    small = {name: value for name, value in TINY.items() if name != "init_std"}
    is_history = {**TINY, **case}["normalization"] != "click"
    return {**(small if is_history else TINY), **case}


def named(case):
    return ", ".join(f"{name}={value}" for name, value in case.items())


FITTED = {}
"""By the name of its case: several tests look at one fit, and none changes it."""


def fitted(case):
    if named(case) not in FITTED:
        FITTED[named(case)] = MaxMatchingRecommender(**settings(case)).fit(shop_histories())
    return FITTED[named(case)]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_model_answers_alike_wherever_it_is_asked(case, tmp_path, groupnoise, service):
    model = fitted(case)
    asked = asked_histories()
    ids, scores = model.recommend(asked, top=8)

    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.recommend(asked, top=8)[0], ids)

    code, _, said = groupnoise("export", tmp_path / "model", "--output", tmp_path / "artifact")
    assert code == 0, said

    log = write_log(tmp_path / "asked.csv", asked)
    code, _, said = groupnoise(
        "recall", tmp_path / "artifact", "--histories", log,
        "--output", tmp_path / "answers.jsonl", "--top", 8, "--quiet",
    )  # fmt: skip
    assert code == 0, said
    in_batch = read_answers(tmp_path / "answers.jsonl")
    for row in range(len(asked)):
        items, values = in_batch[f"u{row:04}"]
        assert items == ids[row].tolist()
        np.testing.assert_allclose(values, scores[row], rtol=1e-4, atol=1e-4)

    client, place = service
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "artifact", place)
    assert client.post("/v1/model/reload").status_code == 200
    answer = client.post("/v1/recall", json={"histories": asked, "top": 8}).json()
    for row, result in enumerate(answer["results"]):
        assert [found["item"] for found in result["items"]] == ids[row].tolist()
        values = [found["score"] for found in result["items"]]
        np.testing.assert_allclose(values, scores[row], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", [{}, *TOGETHER, {"scope": "last"}], ids=named)
def test_an_answer_does_not_depend_on_who_else_asks(case):
    model = fitted(case)
    asked = asked_histories()
    together, scores = model.recommend(asked, top=8)
    for row, history in enumerate(asked):
        alone, score = model.recommend([history], top=8)
        np.testing.assert_array_equal(alone[0], together[row])
        np.testing.assert_allclose(score[0], scores[row], rtol=1e-4, atol=1e-4)


class Halved:
    """A weighting of one's own: every click is trusted half, and no file can hold that."""

    similarity = Dot()

    def __call__(self, features, mask, products=None):
        return features.new_full(mask.shape, 0.5).log().masked_fill(~mask, 0.0)


def test_what_an_artifact_cannot_honour_is_refused_when_it_is_exported(tmp_path):
    settings = {**TINY, "normalization": "click"} if "normalization" in PARAMETERS else TINY
    model = MaxMatchingRecommender(**settings, weighting=Halved()).fit(shop_histories())
    plain = MaxMatchingRecommender(**settings, weighting=None).fit(shop_histories())
    ids, scores = model.recommend(asked_histories(), top=5)
    expected, plain_scores = plain.recommend(asked_histories(), top=5)
    np.testing.assert_array_equal(ids, expected)  # trust that is the same for all changes no order
    np.testing.assert_allclose(scores, plain_scores + np.log(0.5), rtol=1e-4)
    with pytest.raises(ParameterError, match=r"cannot hold the weighting .*Halved.* which is code"):
        model.export(tmp_path / "artifact")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scope", ["group", "last"])
@pytest.mark.parametrize("baseline", [CooccurrenceRecommender, ItemCFRecommender])
def test_a_baseline_of_neighbours_answers_alike_from_an_artifact(baseline, scope, tmp_path):
    model = baseline(scope=scope).fit(shop_histories())
    asked = asked_histories()
    ids, scores = model.recommend(asked, top=8)
    model.export(tmp_path)
    artifact = open_artifact(tmp_path)
    answer = artifact.recall(asked, RecallOptions(top=8))
    np.testing.assert_array_equal(model.items_[answer.positions], ids)
    np.testing.assert_allclose(answer.scores, scores, rtol=1e-4)
    assert artifact.clicks_used() == ("the last click" if scope == "last" else "all clicks")


@pytest.mark.parametrize("case", [{}, *TOGETHER, {"scope": "last"}], ids=named)
def test_the_full_ranking_counts_what_recommend_shows(case):
    model = fitted(case)
    groups, _ = model_groups(model)
    ranks = rank_targets(model, groups, model.n_items_, "full")
    ids, _ = model.recommend([model.items_[group].tolist() for group in groups], top=40)
    for row, target in enumerate(model.items_[groups.targets]):
        place = np.flatnonzero(ids[row] == target)
        assert place[0] - ranks.n_better[row] in range(ranks.n_tied[row] + 1)


def model_groups(model):
    known = [[item for item in history if item in model.items_] for history in asked_histories()]
    rows = [np.searchsorted(model.items_, history) for history in known]
    targets = [next(i for i in range(40) if i not in row) for row in rows]
    return Groups.from_lists([row.tolist() for row in rows], targets=targets), rows
