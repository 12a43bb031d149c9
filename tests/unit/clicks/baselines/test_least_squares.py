"""EASE and ALS against their closed forms, item-CF that fades against a loop."""

import numpy as np
import pytest

from groupnoise import Groups, load_model
from groupnoise.clicks.baselines import ALSRecommender, EASERecommender, ItemCFRecommender
from groupnoise.exceptions import ParameterError

RNG = np.random.default_rng(0)
HISTORIES = [RNG.integers(12, size=RNG.integers(1, 8)).tolist() for _ in range(50)]
ITEMS = list(range(12))


def table():
    clicked = np.zeros((len(HISTORIES), 12))
    for row, history in enumerate(HISTORIES):
        clicked[row, history] = 1.0
    return clicked


def test_ease_is_its_closed_form():
    inverse = np.linalg.inv(table().T @ table() + 4.0 * np.eye(12))
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0.0)
    model = EASERecommender(ridge=4.0).fit(HISTORIES, item_ids=ITEMS)
    expected = [weights[sorted({1, 5, 7})].sum(axis=0)]
    np.testing.assert_allclose(model.scores([[1, 5, 7, 5]]), expected, atol=1e-5)


def test_ease_of_a_large_catalogue_keeps_the_most_clicked_items():
    model = EASERecommender(ridge=4.0, max_items=5).fit(HISTORIES, item_ids=ITEMS)
    assert len(model.kept_) == 5
    least_kept = model.popularity_[model.kept_].min()
    left = np.setdiff1d(np.arange(12), model.kept_)
    assert (model.popularity_[left] <= least_kept).all()
    assert not model.scores([[int(model.kept_[0])]])[0, left].any()


def test_als_answers_with_the_vector_that_solves_for_the_history():
    model = ALSRecommender(dim=4, ridge=2.0, alpha=3.0, random_state=0).fit(
        HISTORIES, item_ids=ITEMS
    )
    items = model.vectors_.astype(np.float64)
    trust = np.ones(12)
    trust[[1, 5]] += 3.0
    left = (items * trust[:, None]).T @ items + 2.0 * np.eye(4)
    person = np.linalg.solve(left, (items * trust[:, None])[[1, 5]].sum(axis=0))
    np.testing.assert_allclose(model.scores([[1, 5, 1]]), [items @ person], atol=1e-4)


def test_als_lowers_its_loss_to_where_no_step_lowers_it():
    def loss(vectors):
        value = 2.0 * (vectors**2).sum()
        for row in table():
            trust = 1.0 + 3.0 * row
            left = (vectors * trust[:, None]).T @ vectors + 2.0 * np.eye(4)
            person = np.linalg.solve(left, vectors.T @ (trust * row))
            value += (trust * (row - vectors @ person) ** 2).sum() + 2.0 * (person**2).sum()
        return value

    settings = {"dim": 4, "ridge": 2.0, "alpha": 3.0, "random_state": 0}
    early, late = (
        ALSRecommender(**settings, max_epochs=n).fit(HISTORIES, item_ids=ITEMS).vectors_
        for n in (1, 60)
    )
    best = loss(late.astype(np.float64))
    assert best < loss(early.astype(np.float64))
    for seed in range(5):
        step = 0.01 * np.random.default_rng(seed).normal(size=late.shape)
        assert loss(late + step) > best


def test_item_cf_may_fade_and_look_at_the_latest_clicks_alone():
    plain = ItemCFRecommender().fit(HISTORIES, item_ids=ITEMS)
    fading = ItemCFRecommender(n_recent=3, decay=0.5).fit(HISTORIES, item_ids=ITEMS)
    history = [1, 5, 7, 5, 2]
    expected = np.zeros(12)
    for later, click in enumerate(reversed(history[-3:])):
        expected += np.exp(-0.5 * later) * plain.similarity_[[click]].toarray()[0]
    np.testing.assert_allclose(fading.scores([history])[0], expected, atol=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        EASERecommender(max_items=9),
        ALSRecommender(dim=4, random_state=0),
        ItemCFRecommender(decay=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_saved_they_answer_alike(model, tmp_path):
    model.fit(HISTORIES, item_ids=ITEMS).save(tmp_path / "model")
    asked = Groups.from_lists([[1, 2], [3], [4, 4, 9]])
    np.testing.assert_array_equal(load_model(tmp_path / "model").scores(asked), model.scores(asked))


@pytest.mark.parametrize(
    "model",
    [EASERecommender(ridge=0.0), EASERecommender(max_items=0), ALSRecommender(alpha=-1.0),
     ItemCFRecommender(n_recent=0), ItemCFRecommender(decay=-1.0)],
)  # fmt: skip
def test_parameters_out_of_range_are_named(model):
    with pytest.raises(ParameterError):
        model.fit(HISTORIES)
