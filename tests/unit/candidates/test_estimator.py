import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.exceptions import DataError, EmptyGroupError, TrainingError, UnknownTargetError


def quick(**settings):
    defaults = {"encoder": "linear", "max_epochs": 30, "learning_rate": 0.03, "random_state": 0}
    return MaxMatchingPartialLabelClassifier.fixed(**{**defaults, **settings})


@parametrize_with_checks([quick(max_epochs=16, learning_rate=0.1)])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    rows = 4 * np.eye(3)[truth] + rng.normal(size=(90, 3))
    candidates = np.eye(3, dtype=int)[truth]
    candidates[np.arange(90), (truth + 1 + rng.integers(2, size=90)) % 3] = 1
    return rows, candidates, truth


@pytest.mark.parametrize("normalize", ["objects", "targets"])
@pytest.mark.parametrize("selection", ["max", "marginal", "tempered", "top_k"])
def test_separable_rows_are_told_apart_whatever_the_reading(blobs, normalize, selection):
    rows, candidates, truth = blobs
    model = quick(normalize=normalize, selection=selection).fit(rows, candidates)
    assert np.mean(model.predict(rows) == truth) > 0.9


@pytest.mark.parametrize("source", ["in_batch", "sampled"])
def test_instances_to_normalise_over_may_be_a_part(blobs, source):
    rows, candidates, truth = blobs
    model = quick(normalize="targets", candidates=source, n_negatives=16)
    assert np.mean(model.fit(rows, candidates).predict(rows) == truth) > 0.9


def test_every_form_of_candidates_gives_the_same_model(blobs):
    rows, candidates, _ = blobs
    forms = [
        candidates,
        candidates.astype(bool),
        sparse.csr_matrix(candidates),
        [set(np.flatnonzero(row).tolist()) for row in candidates],
        [np.flatnonzero(row).tolist() for row in candidates],
    ]
    answers = [quick(max_epochs=2).fit(rows, form).predict_proba(rows) for form in forms]
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])


def test_disambiguation_stays_inside_the_candidates(blobs):
    rows, candidates, truth = blobs
    model = quick().fit(rows, candidates)
    wrong = np.eye(3, dtype=int)[(truth + 1) % 3]
    assert (model.disambiguate(rows, wrong) == (truth + 1) % 3).all()
    assert np.mean(model.disambiguate(rows, candidates) == truth) > 0.9


def test_select_scores_each_candidate_and_shares_sum_to_one(blobs):
    rows, candidates, _ = blobs
    scores = quick(selection="marginal").fit(rows, candidates).select(rows, candidates)
    assert len(scores.scores) == candidates.sum()
    sums = np.add.reduceat(scores.responsibility, scores.offsets[:-1])
    np.testing.assert_allclose(sums, 1.0, rtol=1e-5)


def test_score_is_accuracy_for_labels_and_covering_rate_for_candidates(blobs):
    rows, candidates, truth = blobs
    model = quick().fit(rows, candidates)
    assert model.score(rows, truth) == np.mean(model.predict(rows) == truth)
    covered = candidates[np.arange(90), model.predict(rows)]
    assert model.score(rows, candidates) == covered.mean()


def test_grid_search_and_pipeline_work_on_candidates(blobs):
    rows, candidates, _ = blobs
    pipeline = make_pipeline(StandardScaler(), quick(scaling="none", max_epochs=5))
    name = "maxmatchingpartiallabelclassifier__weighting_strength"
    search = GridSearchCV(pipeline, {name: [0.0, 1.0]}, cv=2).fit(rows, candidates)
    assert search.best_score_ > 0.7


def test_a_true_label_never_seen_counts_as_wrong_so_that_sorted_rows_can_be_cross_validated(blobs):
    rows, _, truth = blobs
    order = np.argsort(truth, kind="stable")
    model = quick(max_epochs=1).fit(rows, truth)
    assert model.score(rows[:2], [truth[0], 7]) == (model.predict(rows[:1]) == truth[0]).mean() / 2
    search = GridSearchCV(quick(max_epochs=1), {"dim": [8, 16]}, cv=KFold(3))
    search.fit(rows[order], truth[order])
    assert (search.cv_results_["mean_test_score"] == 0.0).all()  # each part is a class of its own


def test_an_encoder_of_the_users_own_is_trained_and_restored(blobs, tmp_path):
    rows, candidates, truth = blobs

    def network():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 64))

    model = quick(encoder=network(), dim=64).fit(rows, candidates)
    assert np.mean(model.predict(rows) == truth) > 0.9
    model.save(tmp_path / "own")
    loaded = MaxMatchingPartialLabelClassifier.load(tmp_path / "own", encoder=network())
    np.testing.assert_array_equal(model.predict_proba(rows), loaded.predict_proba(rows))
    with pytest.raises(Exception, match="encoder=") as caught:
        MaxMatchingPartialLabelClassifier.load(tmp_path / "own")
    assert "your own" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda X, y: (X, y * (np.arange(90) != 7)[:, None]), EmptyGroupError, "row 7"),
        (lambda X, y: (X[:5], y), DataError, "5 rows"),
        (lambda X, y: (np.where(X > 3, np.nan, X), y), DataError, "NaN"),
        (lambda X, y: (X[:0], y[:0]), DataError, "0 rows"),
        (lambda X, y: ([[1.0], [1.0, 2.0]], y[:2]), DataError, "one width"),
        (lambda X, y: (X, np.eye(3)[np.zeros(90, int)]), DataError, "only one class"),
        (lambda X, y: (X, y * 2), DataError, "0 and 1"),
    ],
)
def test_bad_input_is_refused_in_one_helpful_sentence(blobs, change, error, words):
    rows, candidates, _ = blobs
    with pytest.raises(error, match=words):
        quick().fit(*change(rows, candidates))


def test_a_label_never_seen_is_named(blobs):
    rows, candidates, _ = blobs
    model = quick(max_epochs=1).fit(rows, candidates)
    with pytest.raises(UnknownTargetError, match="7"):
        model.disambiguate(rows[:1], [{7}])


@pytest.mark.parametrize("normalize", ["both", "targets"])
def test_a_training_that_fails_leaves_a_model_that_can_be_saved(blobs, normalize, tmp_path):
    rows, candidates, _ = blobs
    model = quick(normalize=normalize, max_epochs=2).fit(rows[:60], candidates[:60])
    earlier = model.log_normalizer_

    def validate(fitted):
        raise TrainingError("the loss is no longer finite")

    with pytest.raises(TrainingError):
        model.fit(rows, candidates, validate=validate)
    if normalize == "targets":
        assert not np.array_equal(model.log_normalizer_, earlier)
    answers = model.predict_proba(rows)
    model.save(tmp_path / "model")
    loaded = MaxMatchingPartialLabelClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(rows), answers)


def test_single_candidates_everywhere_train_plain_cross_entropy(blobs):
    rows, _, truth = blobs
    losses = []
    for selection, strength in [("max", 1.0), ("marginal", 0.0), ("all", 2.0)]:
        model = quick(selection=selection, weighting_strength=strength, max_epochs=3)
        losses.append(model.fit(rows, truth).history_.column("loss"))
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    np.testing.assert_allclose(losses[2], losses[0], rtol=1e-5)
