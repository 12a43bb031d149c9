"""One contract for every classifier baseline, multiple-instance and partial-label."""

import functools
import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from groupnoise.bags.baselines import (
    AttentionMILClassifier,
    GICFClassifier,
    IMILClassifier,
    MILRClassifier,
    MiNetClassifier,
)
from groupnoise.bags.baselines.networks import NeuralBagClassifier
from groupnoise.candidates.baselines import (
    CCClassifier,
    CLPLClassifier,
    LWSClassifier,
    PALOCClassifier,
    PLKNNClassifier,
    PLSVMClassifier,
    PRODENClassifier,
    SoftLabelClassifier,
    SUREClassifier,
)
from groupnoise.candidates.baselines.networks import NeuralPartialLabelClassifier
from groupnoise.exceptions import DataError, ModelFileError, ParameterError, UnknownTargetError
from groupnoise.io.files import write_json

CENTRES = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
NAMES = np.array(["ash", "birch", "cedar"])
SEEDED = {"random_state": 0}
MLP = {"hidden": 16, "dropout": 0.1, "max_epochs": 20, "learning_rate": 0.02, **SEEDED}
LINEAR = {"encoder": "linear", "max_epochs": 20, "learning_rate": 0.1, **SEEDED}

PARTIAL_LABEL = [
    PLKNNClassifier(),
    PLSVMClassifier(max_epochs=20, **SEEDED),
    CLPLClassifier(),
    PALOCClassifier(),
    SUREClassifier(),
    SoftLabelClassifier(),
    CCClassifier(**MLP),
    CCClassifier(**LINEAR),
    PRODENClassifier(**MLP),
    PRODENClassifier(**LINEAR),
    LWSClassifier(**MLP),
    LWSClassifier(**LINEAR),
]
MULTIPLE_INSTANCE = [
    MILRClassifier(**SEEDED),
    MiNetClassifier(**MLP),
    MiNetClassifier(**LINEAR),
    GICFClassifier(gamma=0.3, **LINEAR),
    IMILClassifier(**LINEAR),
    AttentionMILClassifier(**MLP),
    AttentionMILClassifier(gated=False, **LINEAR),
]
NEURAL = (NeuralPartialLabelClassifier, NeuralBagClassifier)


def _name(model):
    return "-".join([type(model).__name__, *filter(None, [getattr(model, "encoder", None)])])


every_partial_label = pytest.mark.parametrize("model", PARTIAL_LABEL, ids=_name)
every_bag = pytest.mark.parametrize("model", MULTIPLE_INSTANCE, ids=_name)
every = pytest.mark.parametrize("model", PARTIAL_LABEL + MULTIPLE_INSTANCE, ids=_name)


def blobs(n_rows, seed):
    """Three well separated classes: rows and the class of each."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n_rows) % 3
    return CENTRES[labels] + generator.normal(scale=0.4, size=(n_rows, 3)), labels


def with_candidates(labels, seed):
    """The right label of each row and, for two rows in three, a wrong one."""
    generator = np.random.default_rng(seed)
    indicator = np.eye(3, dtype=bool)[labels]
    for row in np.flatnonzero(np.arange(len(labels)) % 3 > 0):
        indicator[row, (labels[row] + generator.integers(1, 3)) % 3] = True
    return indicator


def labelled_bags(n_bags, seed):
    """Bags of two to four instances of background and one or two of the bag's class."""
    generator = np.random.default_rng(seed)
    labels = np.arange(n_bags) % 3
    bags = []
    for label in labels:
        objects = CENTRES[[label] * generator.integers(1, 3)]
        background = np.full((generator.integers(1, 3), 3), -1.0)
        rows = np.vstack([objects, background])
        bags.append(rows + generator.normal(scale=0.3, size=rows.shape))
    return bags, labels


ROWS, LABELS = blobs(90, seed=0)
CANDIDATES = with_candidates(LABELS, seed=1)
BAGS, BAG_LABELS = labelled_bags(60, seed=0)
UNSEEN, UNSEEN_LABELS = blobs(60, seed=9)


def fit(model):
    """A fitted clone, whatever its setting, on data with known answers."""
    if model in MULTIPLE_INSTANCE:
        return clone(model).fit(BAGS, NAMES[BAG_LABELS])
    return clone(model).fit(ROWS, [set(NAMES[row]) for row in CANDIDATES])


@functools.cache
def fitted_once(model):
    """The same, fitted once for all tests that only look at it."""
    return fit(model)


@every
def test_separable_classes_are_told_apart(model):
    assert fitted_once(model).score(UNSEEN, NAMES[UNSEEN_LABELS]) > 0.9


@every
def test_shapes_and_labels(model):
    fitted = fitted_once(model)
    np.testing.assert_array_equal(fitted.classes_, NAMES)
    assert fitted.n_features_in_ == 3
    predicted, probabilities = fitted.predict(UNSEEN), fitted.predict_proba(UNSEEN)
    assert predicted.shape == (60,)
    assert probabilities.shape == (60, 3)
    assert (probabilities >= 0).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(NAMES[probabilities.argmax(axis=1)], predicted)


@every
def test_equal_seeds_give_equal_models_and_leave_no_trace(model):
    import torch

    before = torch.get_rng_state()
    again = fit(model)
    np.testing.assert_array_equal(
        again.predict_proba(UNSEEN), fitted_once(model).predict_proba(UNSEEN)
    )
    assert torch.equal(before, torch.get_rng_state())


@every
def test_a_saved_model_loads_without_a_difference(model, tmp_path):
    fitted = fitted_once(model)
    fitted.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(UNSEEN), fitted.predict_proba(UNSEEN))
    assert loaded.get_params() == fitted.get_params()
    assert loaded.classes_.dtype == fitted.classes_.dtype
    names = sorted(path.suffix for path in (tmp_path / "model").iterdir())
    assert names == [".json", ".safetensors"]


@pytest.mark.parametrize(
    "model",
    [PLKNNClassifier(), CCClassifier(**MLP), MILRClassifier(**SEEDED), MiNetClassifier(**MLP)],
)
def test_numbers_of_numpy_survive_saving(model, tmp_path):
    numbers = {
        name: np.float32(value) if isinstance(value, float) else np.int64(value)
        for name, value in model.get_params().items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
    data = (BAGS, BAG_LABELS) if hasattr(model, "bag_scores") else (ROWS, LABELS)
    fitted = clone(model).set_params(**numbers).fit(*data)
    fitted.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    assert loaded.get_params() == fitted.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(UNSEEN), fitted.predict_proba(UNSEEN))


@pytest.mark.parametrize("hidden", [np.int64(8), (np.int64(8), 4), [8, np.int32(4)]])
def test_hidden_widths_of_numpy_survive_saving(hidden, tmp_path):
    fitted = CCClassifier(hidden=hidden, max_epochs=1, **SEEDED).fit(ROWS, LABELS)
    fitted.save(tmp_path)
    loaded = CCClassifier.load(tmp_path)
    np.testing.assert_array_equal(loaded.hidden, hidden)
    np.testing.assert_array_equal(loaded.predict_proba(UNSEEN), fitted.predict_proba(UNSEEN))


def edit_manifest(folder, **changes):
    manifest = json.loads((folder / "manifest.json").read_text())
    write_json(folder / "manifest.json", manifest | changes)


def test_classes_keep_their_type(tmp_path):
    fitted = PLKNNClassifier().fit(ROWS, LABELS.astype(np.int16))
    fitted.save(tmp_path)
    assert PLKNNClassifier.load(tmp_path).classes_.dtype == fitted.classes_.dtype


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters": {"hidden": 7}},
        {"parameters": {"hidden": "wide"}},
        {"parameters": {"colour": 7}},
        {"parameters": None},
        {"classes": None},
        {"classes": ["ash"]},
        {"n_features_in": 9},
        {"n_features_in": "three"},
    ],
)
def test_a_manifest_that_does_not_fit_its_weights_is_refused_in_one_sentence(changes, tmp_path):
    fitted_once(PARTIAL_LABEL[5]).save(tmp_path)
    edit_manifest(tmp_path, **changes)
    with pytest.raises(ModelFileError):
        CCClassifier.load(tmp_path)


@every
def test_a_model_of_another_kind_is_refused(model, tmp_path):
    fitted_once(model).save(tmp_path)
    other = CLPLClassifier if isinstance(model, MILRClassifier) else MILRClassifier
    with pytest.raises(ModelFileError, match=type(model).__name__):
        other.load(tmp_path)


@every
def test_use_before_fit_is_refused(model, tmp_path):
    with pytest.raises(NotFittedError):
        clone(model).predict([[0.0, 0.0, 0.0]])
    with pytest.raises(NotFittedError):
        clone(model).save(tmp_path)


@every
@pytest.mark.parametrize(
    ("rows", "labels", "message"),
    [
        (np.zeros((4, 2)), [1, 1, 1, 1], "only one class"),
        (np.full((4, 2), np.nan), [0, 1, 0, 1], "NaN"),
        (np.zeros((0, 2)), [], "0 rows"),
        (np.zeros((4, 2)), [0, 1, 0], "came with 3 labels"),
        (np.zeros((4, 2)), [0, 1, 0, np.nan], "NaN"),
    ],
    ids=["one class", "NaN features", "no rows", "too few labels", "NaN label"],
)
def test_bad_data_is_refused_in_one_sentence(model, rows, labels, message):
    with pytest.raises(DataError, match=message):
        clone(model).fit(rows, labels)


@every
def test_rows_of_another_width_are_refused(model):
    with pytest.raises(DataError, match="2 features"):
        fitted_once(model).predict([[0.0, 1.0]])


@every
def test_bad_parameters_are_refused_when_fitting(model):
    for name, value in model.get_params().items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and name != "random_state":
            with pytest.raises(ParameterError, match=name):
                fit_changed(model, name, -1)


def fit_changed(model, name, value):
    changed = clone(model).set_params(**{name: value})
    return changed.fit(*((BAGS, BAG_LABELS) if model in MULTIPLE_INSTANCE else (ROWS, LABELS)))


@every
def test_ordinary_labels_train_an_ordinary_classifier(model):
    assert clone(model).fit(ROWS, LABELS).score(ROWS, LABELS) > 0.9


@pytest.mark.parametrize(
    "model", [m for m in PARTIAL_LABEL + MULTIPLE_INSTANCE if isinstance(m, NEURAL)], ids=_name
)
def test_a_network_keeps_the_epoch_that_validates_best(model):
    def validate(fitted):
        return fitted.score(UNSEEN, NAMES[UNSEEN_LABELS])

    records = []
    inputs = (BAGS, NAMES[BAG_LABELS]) if model in MULTIPLE_INSTANCE else (ROWS, NAMES[LABELS])
    watched = clone(model).set_params(max_epochs=4)
    watched.set_params(on_epoch=records.append).fit(*inputs, validate=validate)
    assert records == watched.history_
    assert [record["epoch"] for record in records] == [1, 2, 3, 4]
    assert validate(watched) == max(record["validation"] for record in records)


@every_partial_label
def test_candidates_are_resolved_to_the_right_one(model):
    resolved = fitted_once(model).disambiguate(ROWS, [set(NAMES[row]) for row in CANDIDATES])
    columns = np.searchsorted(NAMES, resolved)
    assert CANDIDATES[np.arange(len(ROWS)), columns].all()
    assert (columns == LABELS).mean() > 0.95


@every_partial_label
def test_score_is_accuracy_for_labels_and_covering_rate_for_candidates(model):
    fitted = fitted_once(model)
    predicted = fitted.predict(ROWS)
    assert fitted.score(ROWS, NAMES[LABELS]) == (predicted == NAMES[LABELS]).mean()
    covered = CANDIDATES[np.arange(len(ROWS)), np.searchsorted(NAMES, predicted)].mean()
    assert fitted.score(ROWS, CANDIDATES) == pytest.approx(covered)


@every_partial_label
def test_an_unknown_candidate_is_refused_when_resolving(model):
    with pytest.raises(UnknownTargetError, match="elm"):
        fitted_once(model).disambiguate(ROWS[:1], [{"elm"}])


@every_bag
def test_bags_are_told_apart(model):
    bags, labels = labelled_bags(30, seed=5)
    assert (fitted_once(model).predict_bags(bags) == NAMES[labels]).mean() > 0.9
    assert fitted_once(model).bag_scores(bags).shape == (30, 3)


@every_bag
def test_score_takes_bags_and_instances(model):
    fitted, (bags, labels) = fitted_once(model), labelled_bags(30, seed=5)
    right = fitted.predict_bags(bags) == NAMES[labels]
    assert fitted.score(bags, NAMES[labels]) == right.mean()
    assert fitted.score(bags[:2], ["elm", NAMES[labels[1]]]) == right[1] / 2
    assert fitted.score(UNSEEN, NAMES[UNSEEN_LABELS]) == np.mean(
        fitted.predict(UNSEEN) == NAMES[UNSEEN_LABELS]
    )


def test_a_grid_search_on_bags_chooses_by_their_labels():
    model = MILRClassifier(**SEEDED)
    grid = {"regularization": [1e-4, 1e6]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(BAGS, NAMES[BAG_LABELS])
    assert search.best_params_ == {"regularization": 1e-4}
    assert search.best_score_ > 0.9


@every_bag
def test_the_object_of_a_bag_scores_above_its_background(model):
    rows = np.vstack(BAGS)
    scores = fitted_once(model).instance_scores(BAGS)
    assert scores.shape == (len(rows), 3)
    own = scores[np.arange(len(rows)), np.repeat(BAG_LABELS, [len(bag) for bag in BAGS])]
    is_object = rows.max(axis=1) > 1.0
    assert own[is_object].mean() > own[~is_object].mean()


@every_bag
def test_flat_rows_with_groups_are_the_same_bags(model):
    rows, groups = np.vstack(BAGS), np.repeat(np.arange(len(BAGS)), [len(bag) for bag in BAGS])
    from_list = fitted_once(model)
    from_rows = clone(model).fit(rows, NAMES[BAG_LABELS][groups], groups=groups)
    np.testing.assert_array_equal(from_list.predict_proba(rows), from_rows.predict_proba(rows))
    np.testing.assert_array_equal(
        from_list.predict_bags(BAGS), from_rows.predict_bags(rows, groups=groups)
    )


@every_bag
def test_two_classes_make_one_binary_problem(model):
    is_cedar = BAG_LABELS == 2
    fitted = clone(model).fit(BAGS, is_cedar)
    scores = fitted.bag_scores(BAGS)
    assert scores.shape == (len(BAGS), 2)
    np.testing.assert_allclose(scores.sum(axis=1), 1.0)
    assert (fitted.predict_bags(BAGS) == is_cedar).mean() > 0.9


@every_bag
def test_bags_may_carry_several_labels_or_none(model):
    pairs = [np.vstack([BAGS[i], BAGS[i + 1]]) for i in range(30)]
    both = [{NAMES[BAG_LABELS[i]], NAMES[BAG_LABELS[i + 1]]} for i in range(30)]
    empty = [np.full((2, 3), -1.0 + 0.1 * i) for i in range(4)]
    fitted = clone(model).fit([*pairs, *BAGS, *empty], [*both, *NAMES[BAG_LABELS], *[set()] * 4])
    predicted = fitted.predict_bags(pairs)
    assert predicted.dtype == bool
    assert predicted.shape == (30, 3)
    matrix = np.array([[name in labels for name in NAMES] for labels in both])
    assert fitted.score(pairs, both) == (predicted == matrix).all(axis=1).mean()
    assert (fitted.predict(UNSEEN) == NAMES[UNSEEN_LABELS]).mean() > 0.9


@parametrize_with_checks(
    [model for model in PARTIAL_LABEL + MULTIPLE_INSTANCE if not isinstance(model, NEURAL)]
)
def test_scikit_learn_accepts_the_classical_methods(estimator, check):
    check(estimator)


@pytest.mark.nightly
@parametrize_with_checks(
    [model for model in PARTIAL_LABEL + MULTIPLE_INSTANCE if isinstance(model, NEURAL)]
)
def test_scikit_learn_accepts_the_neural_methods(estimator, check):
    check(estimator)
