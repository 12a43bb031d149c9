from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from groupnoise import Groups, MaxMatchingMILClassifier, MaxMatchingMIPLClassifier
from groupnoise.bags.evaluation import evaluate_bags
from groupnoise.candidates import add_false_labels
from groupnoise.exceptions import DataError, ParameterError, UnknownTargetError
from groupnoise.io.datasets import BagDataset
from groupnoise.training.checkpoints import Checkpoints

NAMES = np.array(["ash", "birch", "cedar", "elm"])


def quick(**settings):
    defaults = {"encoder": "linear", "max_epochs": 20, "learning_rate": 0.03, "random_state": 0}
    defaults["refit"] = False
    return MaxMatchingMIPLClassifier(**{**defaults, **settings})


def make_bags(n_bags=80, seed=0):
    """Bags of one witness on its class axis, at a random place, and background shared by all."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n_bags) % 4
    sizes = generator.integers(2, 6, size=n_bags)
    witness = np.array([generator.integers(size) for size in sizes])
    bags = []
    for label, size, place in zip(labels, sizes, witness, strict=True):
        bag = 5 * np.eye(5)[np.full(size, 4)]
        bag[place] = 5 * np.eye(5)[label]
        bags.append(bag + 0.3 * generator.normal(size=bag.shape))
    return bags, labels, witness


@pytest.fixture(scope="module")
def data():
    bags, labels, witness = make_bags()
    return bags, labels, witness, add_false_labels(labels, 4, n_false=1, random_state=1)


@pytest.fixture(scope="module")
def fitted(data):
    bags, _, _, candidates = data
    return quick(refit=True).fit(bags, [set(NAMES[row]) for row in candidates])


def test_bags_are_labelled_although_no_label_was_certain(fitted):
    bags, labels, _ = make_bags(seed=9)
    assert np.mean(fitted.predict(bags) == NAMES[labels]) > 0.95
    assert fitted.score(bags, NAMES[labels]) > 0.95


def test_the_true_pair_is_found_in_training_bags(fitted, data):
    bags, labels, witness, candidates = data
    chosen = fitted.select(bags, candidates)
    assert np.mean(chosen.instance == witness) > 0.95
    assert np.mean(chosen.label == NAMES[labels]) > 0.95
    assert ((chosen.probability > 0) & (chosen.probability <= 1)).all()
    np.testing.assert_array_equal(fitted.disambiguate(bags, candidates), chosen.label)


def test_probabilities_sum_to_one_and_lead_to_the_prediction(fitted):
    bags, _, _ = make_bags(12, seed=3)
    probabilities = fitted.predict_proba(bags)
    assert probabilities.shape == (12, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(NAMES[probabilities.argmax(axis=1)], fitted.predict(bags))


def test_a_bag_is_answered_alike_alone_and_in_company(fitted):
    bags, _, _ = make_bags(6, seed=3)
    alone = np.concatenate([fitted.predict_proba([bag]) for bag in bags])
    np.testing.assert_allclose(alone, fitted.predict_proba(bags), atol=1e-6)


def test_bags_may_come_as_groups_or_as_flat_rows(fitted):
    bags, labels, _ = make_bags(8, seed=3)
    expected = fitted.predict_proba(bags)
    rows = np.concatenate(bags)
    bag_of_row = np.repeat(np.arange(8), [len(bag) for bag in bags])
    np.testing.assert_array_equal(fitted.predict_proba(Groups.from_lists(bags)), expected)
    np.testing.assert_array_equal(fitted.predict_proba(rows, groups=bag_of_row), expected)
    assert fitted.score(rows, NAMES[labels], groups=bag_of_row) > 0.95


@pytest.mark.parametrize("selection", ["max", "marginal", "tempered"])
def test_every_selection_learns(data, selection):
    bags, labels, _, candidates = data
    model = quick(selection=selection).fit(bags, candidates)
    assert model.score(bags, labels) > 0.9


def test_group_weighting_counts_in_the_pairs_that_are_chosen(data):
    bags, _, witness, candidates = data
    plain = quick(max_epochs=5).fit(bags, candidates)
    weighed = quick(max_epochs=5, weighting_strength=2.0).fit(bags, candidates)
    found = [np.mean(m.select(bags, candidates).instance == witness) for m in (plain, weighed)]
    # Likeness to the rest of the bag speaks for the background that all bags share.
    assert found[1] < found[0]


def test_members_answer_together(data):
    bags, labels, _, candidates = data
    model = quick(n_members=2, max_epochs=10).fit(bags, candidates)
    assert len(model.members_) == 2
    assert model.score(bags, labels) > 0.9


def test_grids_are_searched_by_the_covering_rate(data):
    bags, _, _, candidates = data
    search = GridSearchCV(quick(max_epochs=3), {"pooling": [0.5, 2.0]}, cv=2, error_score="raise")
    search.fit(bags, candidates.astype(int))
    assert search.best_params_["pooling"] in (0.5, 2.0)


def test_rows_in_a_pipeline_are_bags_of_one():
    rows = np.repeat(np.eye(3), 10, axis=0)
    labels = np.repeat(["a", "b", "c"], 10)
    model = make_pipeline(StandardScaler(), quick()).fit(rows, labels)
    assert model.score(rows, labels) == 1.0


def test_bad_input_is_refused(fitted, data):
    bags, _, _, candidates = data
    with pytest.raises(DataError, match="1 bag without a label, first at row 2"):
        quick().fit(bags[:3], [{"a"}, {"b"}, set()])
    with pytest.raises(ParameterError, match="pooling must be a number greater than zero"):
        quick(pooling=0.0).fit(bags, candidates)
    with pytest.raises(ParameterError, match="cannot be 'auto'"):
        quick(weighting_strength="auto").fit(bags, candidates)
    with pytest.raises(UnknownTargetError, match="oak"):
        fitted.select(bags[:1], [{"oak"}])


def test_a_plain_fit_learns_from_the_likeliest_candidates_and_both_answer(fitted, data):
    bags, _, _, candidates = data
    assert fitted.resolved_.decisions_.trials
    # Half of the log probabilities of each, up to a constant.
    pairs = quick().fit(bags, [set(NAMES[row]) for row in candidates]).predict_log_proba(bags)
    both = 0.5 * (pairs + np.log(fitted.resolved_.bag_proba(bags)))
    both -= np.logaddexp.reduce(both, axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_log_proba(bags), both, atol=1e-4)


def test_both_models_are_saved(fitted, tmp_path):
    bags, _, _ = make_bags(seed=5)
    fitted.save(tmp_path / "model")
    read = MaxMatchingMIPLClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(read.predict_proba(bags), fitted.predict_proba(bags))


def test_a_label_that_no_bag_was_given_is_answered_by_the_pairs(data):
    bags, labels, _, _ = data
    sets = [{NAMES[label], "oak"} for label in labels]
    model = quick(max_epochs=5).fit(bags, sets)
    model.resolved_ = MaxMatchingMILClassifier.fixed(max_epochs=1).fit(bags, NAMES[labels])
    assert model.predict_proba(bags).shape == (80, 5)
    np.testing.assert_allclose(model.predict_proba(bags).sum(axis=1), 1.0, atol=1e-6)


def test_few_bags_and_encoders_of_ones_own_are_answered_by_their_pairs(data):
    bags, _, _, candidates = data
    assert quick(refit=True, max_epochs=1).fit(bags[:39], candidates[:39]).resolved_ is None
    own = quick(refit=True, max_epochs=1, encoder=torch.nn.Linear(5, 8), dim=8)
    assert own.fit(bags, candidates).resolved_ is None


def test_a_fit_that_was_stopped_in_its_second_part_goes_on(data, tmp_path):
    bags, _, _, candidates = data
    expected = quick(refit=True, max_epochs=2).fit(bags, candidates).predict_proba(bags)

    def stop(record):
        if record.get("event") == "tried" and record["epoch"] == 4:
            raise KeyboardInterrupt

    stopped = quick(refit=True, max_epochs=2, on_epoch=stop)
    with pytest.raises(KeyboardInterrupt):
        stopped.fit(bags, candidates, checkpoint=Checkpoints(tmp_path / "saves"))
    again = quick(refit=True, max_epochs=2)
    again.fit(bags, candidates, checkpoint=Checkpoints(tmp_path / "saves", resume=True))
    np.testing.assert_array_equal(again.predict_proba(bags), expected)


def test_candidates_are_evaluated_as_such_and_single_labels_as_true(fitted, data):
    bags, labels, _, candidates = data
    sets = BagDataset("photos", Groups.from_lists(bags), candidates, NAMES.tolist())
    found = evaluate_bags(fitted, sets)
    expected = {"bag covering rate": fitted.score(bags, candidates)}
    assert found.metrics == pytest.approx(expected)
    assert "candidates" in found.notes[0]
    alone = replace(sets, labels=np.eye(4, dtype=bool)[labels])
    assert evaluate_bags(fitted, alone).metrics["bag accuracy"] > 0.95
