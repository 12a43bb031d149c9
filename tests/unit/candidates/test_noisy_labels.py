import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from groupnoise import MaxMatchingPartialLabelClassifier, NoisyLabelClassifier
from groupnoise.candidates import flip_labels
from groupnoise.decisions.trade_off import STRENGTHS
from groupnoise.exceptions import DataError, ParameterError

QUICK = {"encoder": "linear", "max_epochs": 8, "learning_rate": 0.03, "random_state": 0}


def clouds(n_rows=240, seed=0):
    """Four overlapping clouds of rows, and the cloud each row was drawn from."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 4
    return 2 * np.eye(4)[labels] + 0.5 * generator.normal(size=(n_rows, 4)), labels


@pytest.fixture(scope="module")
def noisy():
    rows, truth = clouds()
    return rows, flip_labels(truth, 4, rate=0.3, kind="pairwise", random_state=1), truth


@pytest.mark.parametrize("evidence", ["both", "neighbours", "predictions"])
def test_wrong_labels_are_found_and_outvoted(noisy, evidence):
    rows, given, truth = noisy
    model = NoisyLabelClassifier(evidence=evidence, **QUICK).fit(rows, given)
    plain = MaxMatchingPartialLabelClassifier.fixed(normalize="objects", **QUICK).fit(rows, given)
    unseen, labels = clouds(seed=7)
    assert model.score(unseen, labels) >= plain.score(unseen, labels)
    issues = model.label_issues_
    assert roc_auc_score(given != truth, -issues.quality) > 0.85
    assert np.mean(issues.suggested == truth) > np.mean(given == truth)


def test_the_noise_matrix_tells_what_is_mistaken_for_what(noisy):
    rows, given, truth = noisy
    model = NoisyLabelClassifier(**QUICK).fit(rows, given)
    np.testing.assert_allclose(model.noise_matrix_.sum(axis=1), 1.0)
    planted = np.array([[np.mean(given[truth == t] == g) for g in range(4)] for t in range(4)])
    assert np.abs(model.noise_matrix_ - planted).max() < 0.25


def test_clean_labels_are_left_alone():
    rows, truth = clouds()
    names = np.array(["ash", "birch", "cedar", "elm"])[truth]
    model = NoisyLabelClassifier(evidence="neighbours", **QUICK).fit(3 * rows, names)
    assert model.label_issues_.is_issue.mean() < 0.15
    assert model.classes_.tolist() == ["ash", "birch", "cedar", "elm"]


def test_a_saved_model_keeps_its_noise_matrix(noisy, tmp_path):
    rows, given, _ = noisy
    model = NoisyLabelClassifier(evidence="neighbours", **QUICK).fit(rows, given)
    model.save(tmp_path / "model")
    loaded = NoisyLabelClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.noise_matrix_, model.noise_matrix_)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_grids_and_pipelines_take_it(noisy):
    rows, given, _ = noisy
    model = NoisyLabelClassifier(evidence="neighbours", **{**QUICK, "max_epochs": 2})
    pipeline = make_pipeline(StandardScaler(), model)
    grid = {"noisylabelclassifier__n_neighbors": [5, 15]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(rows, given)
    assert search.best_score_ > 0.4


def test_the_weighting_can_be_chosen_on_held_out_rows(noisy):
    rows, given, _ = noisy
    settings = {**QUICK, "max_epochs": 1, "weighting_strength": "auto"}
    model = NoisyLabelClassifier(evidence="neighbours", **settings).fit(rows, given)
    assert len(model.trade_off_.trials) == len(STRENGTHS)
    assert model.weighting_strength_ in STRENGTHS


def test_a_class_of_one_row_is_survived():
    rows, truth = clouds(40)
    labels = truth.copy()
    labels[0] = 9
    model = NoisyLabelClassifier(**{**QUICK, "max_epochs": 2}).fit(rows, labels)
    assert model.predict_proba(rows).shape == (40, 5)


def test_a_class_of_one_row_is_survived_beside_a_single_other():
    rows, _ = clouds(20)
    model = NoisyLabelClassifier(**{**QUICK, "max_epochs": 2}).fit(rows, ["rare", *["usual"] * 19])
    assert model.classes_.tolist() == ["rare", "usual"]
    np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evidence": "guesses"}, "evidence must be one of"),
        ({"n_folds": 1}, "n_folds must be a whole number of at least 2"),
        ({"n_rounds": 0}, "n_rounds must be a whole number of at least 1"),
        ({"n_candidates": 0}, "n_candidates must be a whole number of at least 1"),
    ],
)
def test_a_bad_parameter_is_named(settings, message):
    rows, labels = clouds(20)
    with pytest.raises(ParameterError, match=message):
        NoisyLabelClassifier(**{**QUICK, **settings}).fit(rows, labels)


def test_sets_of_labels_are_sent_elsewhere():
    rows, _ = clouds(3)
    with pytest.raises(DataError, match="row 1 has 2 labels"):
        NoisyLabelClassifier(**QUICK).fit(rows, [{"a"}, {"a", "b"}, {"b"}])
    with pytest.raises(DataError, match="X has 3 rows, but there are 2 labels"):
        NoisyLabelClassifier(**QUICK).fit(rows, ["a", "b"])
