import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from groupnoise import Groups, MaxMatchingMILClassifier
from groupnoise.exceptions import DataError, EmptyGroupError, UnknownTargetError


def quick(**settings):
    defaults = {"max_epochs": 30, "learning_rate": 0.05, "random_state": 0}
    return MaxMatchingMILClassifier(**{**defaults, **settings})


@pytest.fixture(scope="module")
def witness_bags():
    """Bags of one witness on its class axis and two instances of common background."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    witnesses = 5 * np.eye(4)[labels]
    background = np.broadcast_to(5 * np.eye(4)[3], (60, 2, 4))
    bags = np.concatenate([witnesses[:, None], background], axis=1)
    return bags + 0.3 * rng.normal(size=bags.shape), labels


@pytest.mark.parametrize(
    ("selection", "strength"),
    # Hard selection may lock onto the background that all bags share; that is why it is soft here.
    [("marginal", 0.0), ("marginal", 1.0), ("tempered", 1.0)],
)
def test_the_witness_is_found_and_instances_are_labelled(witness_bags, selection, strength):
    bags, labels = witness_bags
    model = quick(selection=selection, weighting_strength=strength).fit(bags, labels)
    assert np.mean(model.predict(bags[:, 0]) == labels) > 0.9
    assert np.mean(model.select(bags, labels).chosen == 0) > 0.9


def test_a_background_target_takes_what_belongs_to_no_class(witness_bags):
    bags, labels = witness_bags
    model = quick(background=True, absent_strength=1.0, max_epochs=60).fit(bags, labels)
    assert model.background_proba(bags[:, 1]).mean() > 0.7
    assert model.background_proba(bags[:, 0]).mean() < 0.5
    assert np.mean(model.predict_bags(bags) == labels) > 0.9
    np.testing.assert_allclose(model.predict_proba(bags[:, 0]).sum(axis=1), 1.0, rtol=1e-5)


def test_every_form_of_bags_gives_the_same_model(witness_bags):
    bags, labels = witness_bags
    ids = np.repeat([f"bag{i}" for i in range(60)], 3)
    flat = bags.reshape(-1, 4)
    answers = [
        quick(max_epochs=2).fit(bags, labels).predict_proba(flat),
        quick(max_epochs=2).fit(list(bags), labels).predict_proba(flat),
        quick(max_epochs=2).fit(Groups.from_array(bags), labels).predict_proba(flat),
        quick(max_epochs=2).fit(flat, labels, groups=ids).predict_proba(flat),
        quick(max_epochs=2).fit(flat, np.repeat(labels, 3), groups=ids).predict_proba(flat),
    ]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])


def test_bags_with_several_labels_give_a_group_for_each(witness_bags):
    bags, labels = witness_bags
    rng = np.random.default_rng(1)
    other = (labels + 1) % 3
    both = np.concatenate([bags, 5 * np.eye(4)[other][:, None]], axis=1)
    both[:, 3] += 0.3 * rng.normal(size=(60, 4))
    names = np.array(["a", "b", "c"])
    sets = [{names[one], names[two]} for one, two in zip(labels, other, strict=True)]
    # Three labels in cyclic pairs: only the absent class tells the two of a bag apart.
    model = quick(background=True, absent_strength=1.0, max_epochs=60).fit(both, sets)
    assert np.mean(model.predict(both[:, 0]) == names[labels]) > 0.9
    with pytest.raises(DataError, match="one label per bag"):
        model.select(both, sets)


def test_bag_scores_rank_the_classes_of_each_bag(witness_bags):
    bags, labels = witness_bags
    model = quick(background=True, absent_strength=1.0).fit(bags, labels)
    scores = model.bag_scores(bags)
    assert scores.shape == (60, 3)
    assert (model.predict_bags(bags) == scores.argmax(axis=1)).all()


def test_score_takes_bags_as_fit_does_and_instances_as_predict_does(witness_bags):
    bags, labels = witness_bags
    model = quick().fit(bags, labels)
    expected = np.mean(model.predict_bags(bags) == labels)
    for form in (bags, list(bags), Groups.from_array(bags)):
        assert model.score(form, labels) == expected
    assert model.score(bags, [{label} for label in labels]) == expected
    assert model.score(bags[:2], [9, labels[1]]) == (model.predict_bags(bags)[1] == labels[1]) / 2
    witnesses = bags[:, 0]
    assert model.score(witnesses, labels) == np.mean(model.predict(witnesses) == labels)


@pytest.mark.parametrize("form", [np.asarray, list, Groups.from_array])
def test_grid_search_on_bags_chooses_by_their_labels(witness_bags, form):
    bags, labels = witness_bags
    search = GridSearchCV(quick(), {"learning_rate": [1e-6, 0.05]}, cv=2, error_score="raise")
    search.fit(form(bags), labels)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_ == {"learning_rate": 0.05}
    assert search.best_score_ > 0.9


@pytest.mark.parametrize(
    ("bags", "labels", "error", "words"),
    [
        ([np.zeros((0, 2)), np.ones((1, 2))], [0, 1], EmptyGroupError, "empty"),
        ([np.full((1, 2), np.inf), np.ones((1, 2))], [0, 1], DataError, "infinite"),
        ([np.ones((1, 2)), np.ones((1, 3))], [0, 1], DataError, "width"),
        ([np.ones((1, 2)), np.ones((1, 2))], [0, 0], DataError, "only one class"),
        ([np.ones((1, 2)), np.ones((1, 2))], [0, 1, 0], DataError, "2 bags"),
        ([], [], DataError, "0 bags"),
    ],
)
def test_bad_bags_are_refused_in_one_helpful_sentence(bags, labels, error, words):
    with pytest.raises(error, match=words):
        quick().fit(bags, labels)


def test_a_label_never_seen_is_named(witness_bags):
    bags, labels = witness_bags
    model = quick(max_epochs=1).fit(bags, labels)
    with pytest.raises(UnknownTargetError, match="9"):
        model.select(bags[:1], [9])


def test_instances_of_another_width_are_refused(witness_bags):
    model = quick(max_epochs=1).fit(*witness_bags)
    with pytest.raises(DataError, match="expecting 4 features"):
        model.predict(np.ones((2, 3)))


def test_a_bag_of_thousands_of_instances_is_learned_from_and_selected_in():
    rng = np.random.default_rng(0)
    # Their products are too many to hold; ten thousand are passed over in test_group_weighting.
    bags = [rng.normal(size=(3_000, 2)), rng.normal(size=(3, 2))]
    model = quick(max_epochs=1, weighting_strength=1.0).fit(bags, ["big", "small"])
    assert len(model.select(bags, ["big", "small"]).scores) == 3_003


def test_instances_are_encoded_a_block_at_a_time_with_the_same_answers(monkeypatch):
    rng = np.random.default_rng(0)
    bags, labels = rng.normal(size=(20, 3, 4)), np.arange(20) % 2
    model = quick(encoder="mlp", hidden=(8,), max_epochs=1, background=True).fit(bags, labels)
    rows = rng.normal(size=(300, 4))
    together = model.predict_proba(rows)
    monkeypatch.setattr("groupnoise.bags.prediction.EVALUATION_BATCH", 7)
    blocks = []
    model.model_.object_encoder.register_forward_hook(
        lambda _, inputs, __: blocks.append(inputs[0])
    )
    np.testing.assert_allclose(model.predict_proba(rows), together, rtol=1e-5)
    assert max(len(block) for block in blocks) == 7
    assert sum(len(block) for block in blocks) == 300


def test_contrastive_weights_of_a_bag_do_not_depend_on_other_bags(tmp_path):
    generator = np.random.default_rng(0)
    bags, labels = generator.normal(size=(12, 4, 3)), np.arange(12) % 2
    model = MaxMatchingMILClassifier.fixed(
        weighting="contrastive", weighting_strength=1.0, max_epochs=2, random_state=0
    ).fit(bags, labels)
    together = model.select(bags, labels)
    model.save(tmp_path / "model")
    for each in (model, MaxMatchingMILClassifier.load(tmp_path / "model")):
        alone = each.select(bags[:1], labels[:1])
        np.testing.assert_allclose(alone.log_weight, together.log_weight[:4], atol=1e-6)
        assert np.ptp(alone.log_weight) > 0
        np.testing.assert_allclose(
            each.bag_scores(bags[:1])[0], model.bag_scores(bags)[0], atol=1e-6
        )
