"""One contract over all estimators: scikit-learn's habits, files, seeds, errors."""

import json

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from groupnoise import (
    MaxMatchingMILClassifier,
    MaxMatchingMIPLClassifier,
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
    NoisyLabelClassifier,
    load_model,
)
from groupnoise.core import Max, Tempered, TopK
from groupnoise.core.weighting import ContrastiveWeighting, Dot
from groupnoise.exceptions import ModelFileError, ParameterError, TrainingError


class Case:
    """Small data of one setting and how to ask its estimator for numbers."""

    def __init__(self, make, data, answer):
        self.make, self.data, self.answer = make, data, answer

    def fitted(self, **settings):
        return self.make(**settings).fit(*self.data)


def _bags():
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(rng.integers(1, 5), 3)) for _ in range(24)]
    return bags, np.array(["left", "right", "up"])[np.arange(24) % 3]


def _candidates():
    rng = np.random.default_rng(0)
    labels = ["ann", "bob", "cleo"]
    sets = [{labels[i % 3], labels[rng.integers(3)]} for i in range(24)]
    return rng.normal(size=(24, 4)), sets


def _bags_with_candidates():
    bags, labels = _bags()
    rng = np.random.default_rng(1)
    return bags, [{label, str(rng.choice(["left", "right", "up"]))} for label in labels]


def _noisy_labels():
    rows, candidates = _candidates()
    return rows, [min(labels) for labels in candidates[:-2]] + ["cleo"] * 2


def _histories():
    rng = np.random.default_rng(0)
    items = np.array(["tea", "jam", "rye", "ham", "egg", "oat"])
    return ([items[rng.integers(6, size=rng.integers(2, 9))].tolist() for _ in range(20)],)


CASES = {
    "mil": Case(
        lambda **s: MaxMatchingMILClassifier(**{"max_epochs": 3, "random_state": 0, **s}),
        _bags(),
        lambda model: model.predict_proba(np.eye(3)),
    ),
    "pll": Case(
        lambda **s: MaxMatchingPartialLabelClassifier.fixed(
            **{"max_epochs": 3, "hidden": (8,), "random_state": 0, **s}
        ),
        _candidates(),
        lambda model: model.predict_proba(np.eye(4)),
    ),
    "mipl": Case(
        lambda **s: MaxMatchingMIPLClassifier(
            **{"max_epochs": 3, "hidden": (8,), "random_state": 0, **s}
        ),
        _bags_with_candidates(),
        lambda model: model.predict_proba(np.eye(3)),
    ),
    "noisy labels": Case(
        lambda **s: NoisyLabelClassifier(
            **{"max_epochs": 3, "hidden": (8,), "n_folds": 2, "random_state": 0, **s}
        ),
        _noisy_labels(),
        lambda model: model.predict_proba(np.eye(4)),
    ),
    "rs": Case(
        lambda **s: MaxMatchingRecommender(
            **{
                "normalization": "click",
                "max_epochs": 3,
                "dim": 8,
                "n_negatives": 4,
                "random_state": 0,
                **s,
            }
        ),
        _histories(),
        lambda model: model.scores([["tea"], ["jam", "rye", "ham"]]),
    ),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


def test_the_constructor_stores_its_arguments_untouched(case):
    settings = {"learning_rate": "not checked yet", "selection": "max"}
    parameters = case.make(**settings).get_params()
    assert parameters["learning_rate"] == "not checked yet"
    assert clone(case.make(**settings)).get_params() == parameters


def test_the_same_seed_gives_the_same_answers_bit_by_bit(case):
    first, second = case.answer(case.fitted()), case.answer(case.fitted())
    assert np.array_equal(first, second)


def test_another_seed_gives_other_answers(case):
    assert not np.array_equal(case.answer(case.fitted()), case.answer(case.fitted(random_state=1)))


def test_global_seeds_decide_nothing_and_stay_as_they_are(case):
    import torch

    torch.manual_seed(3)
    before = torch.get_rng_state()
    answer = case.answer(case.fitted())
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(4)
    assert np.array_equal(answer, case.answer(case.fitted()))


def test_a_saved_model_answers_alike_without_its_training_data(case, tmp_path):
    model = case.fitted()
    model.save(tmp_path / "model")
    for loaded in (type(model).load(tmp_path / "model"), load_model(tmp_path / "model")):
        assert np.array_equal(case.answer(model), case.answer(loaded))
        assert len(loaded.history_) == 3


@pytest.mark.parametrize("scaling", ["standard", "l2", "power", "none"])
@pytest.mark.parametrize("kind", ["mil", "pll", "mipl", "noisy labels"])
def test_every_scaling_survives_saving(kind, scaling, tmp_path):
    case = CASES[kind]
    model = case.fitted(scaling=scaling)
    model.save(tmp_path / "model")
    assert np.array_equal(case.answer(model), case.answer(load_model(tmp_path / "model")))


def test_saving_twice_replaces_the_model_and_leaves_nothing_behind(case, tmp_path):
    case.fitted().save(tmp_path / "model")
    again = case.fitted(random_state=5)
    again.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(case.answer(again), case.answer(loaded))
    assert len(list((tmp_path / "model").iterdir())) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"selection": TopK(3)},
        {"selection": Tempered(1.0, 0.5)},
        {"weighting": ContrastiveWeighting(Dot(0.5), n_negatives=7)},
        {"weighting": "sigmoid", "similarity": Dot(2.0)},
        {"temperature": (1.0, 0.4)},
    ],
    ids=["top_k", "tempered", "weighting", "similarity", "temperature"],
)
def test_parameters_that_are_objects_survive_saving(case, settings, tmp_path):
    case.fitted(max_epochs=1, **settings).save(tmp_path / "model")
    parameters = load_model(tmp_path / "model").get_params()
    assert {name: parameters[name] for name in settings} == settings


def test_numbers_of_numpy_survive_saving(case, tmp_path):
    numbers = {
        "dim": np.int64(4),
        "max_epochs": np.int32(2),
        "n_members": np.int64(2),
        "learning_rate": np.float32(0.01),
    }
    model = case.fitted(**numbers)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert np.array_equal(case.answer(model), case.answer(loaded))
    for name, number in numbers.items():
        assert getattr(loaded, name) == number
        assert type(getattr(loaded, name)) in (int, float)


@pytest.mark.parametrize("kind", ["mil", "pll", "mipl", "noisy labels"])
def test_weights_of_classes_survive_saving(kind, tmp_path):
    case = CASES[kind]
    label = case.fitted(max_epochs=1).classes_[0]  # a string of numpy, as data often holds
    case.fitted(max_epochs=1, class_weight={label: np.float32(2.0)}).save(tmp_path / "model")
    assert load_model(tmp_path / "model").class_weight == {str(label): 2.0}


def test_what_only_watched_or_drew_is_not_part_of_a_saved_model(case, tmp_path):
    model = case.fitted(max_epochs=1, on_epoch=print, random_state=np.random.default_rng(0))
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.on_epoch is None
    assert loaded.random_state is None


class OwnSelection:
    """A selection of the user's own, whose code no file can hold."""

    def __call__(self, scores, mask, progress=1.0):
        return Max()(scores, mask, progress)


def test_a_model_with_a_selection_of_the_users_own_is_not_saved_as_another(case, tmp_path):
    model = case.fitted(max_epochs=1, selection=OwnSelection())
    with pytest.raises(ParameterError, match="selection holds a OwnSelection, which a model fold"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("harm", ["truncate", "alter", "pickle", "manifest", "foreign"])
def test_a_harmed_model_file_is_refused_in_one_sentence(case, tmp_path, harm):
    folder = tmp_path / "model"
    case.fitted().save(folder)
    weights = next(folder.glob("*.safetensors"))
    if harm == "truncate":
        weights.write_bytes(weights.read_bytes()[:-8])
    elif harm == "alter":
        content = bytearray(weights.read_bytes())
        content[-1] ^= 1
        weights.write_bytes(bytes(content))
    elif harm == "pickle":
        weights.write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    elif harm == "manifest":
        (folder / "manifest.json").write_text('{"format": ')
    else:
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps({**manifest, "kind": "Stranger"}))
    with pytest.raises(ModelFileError) as caught:
        load_model(folder)
    assert str(folder) in str(caught.value)


def test_a_manifest_without_its_parts_is_refused(case, tmp_path):
    folder = tmp_path / "model"
    case.fitted().save(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["fitted"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ModelFileError, match="whole model"):
        load_model(folder)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("learning_rate", 0.0),
        ("max_epochs", 0),
        ("batch_size", 2.5),
        ("selection", "best"),
        ("weighting", "softmax"),
        ("weighting_strength", -1.0),
        ("schedule", "sometimes"),
        ("random_state", "zero"),
    ],
)
def test_a_bad_parameter_is_named_when_fitting(case, setting, value):
    with pytest.raises(ParameterError, match=setting.split("_")[0]):
        case.fitted(**{setting: value})


def test_one_hidden_width_may_be_given_as_a_number(case):
    if "hidden" not in case.make().get_params():
        pytest.skip("no encoder to choose")
    for hidden in (8, np.int64(8)):
        np.testing.assert_array_equal(
            case.answer(case.fitted(encoder="mlp", hidden=hidden)),
            case.answer(case.fitted(encoder="mlp", hidden=(8,))),
        )
    with pytest.raises(ParameterError, match="hidden"):
        case.fitted(encoder="mlp", hidden=None)


def test_asking_before_fitting_says_so(case):
    with pytest.raises(NotFittedError):
        case.answer(case.make())
    with pytest.raises(NotFittedError):
        case.make().save("nowhere")


def test_every_epoch_is_reported_and_the_best_one_kept(case):
    seen, values = [], iter([0.1, 0.9, 0.5])
    model = case.make(on_epoch=seen.append)
    model.fit(*case.data, validate=lambda fitted: next(values))
    assert [record["epoch"] for record in seen] == [1, 2, 3]
    assert model.history_.best_epoch == 2
    assert model.history_.column("validation") == [0.1, 0.9, 0.5]


def test_the_best_epoch_survives_saving_and_may_be_absent(case, tmp_path):
    values = iter([0.1, 0.9, 0.5])
    case.make().fit(*case.data, validate=lambda fitted: next(values)).save(tmp_path / "model")
    assert load_model(tmp_path / "model").history_.best_epoch == 2
    manifest = json.loads((tmp_path / "model" / "manifest.json").read_text())
    del manifest["best_epoch"]  # as folders were before it was kept
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(manifest))
    assert load_model(tmp_path / "model").history_.best_epoch is None


def test_the_estimator_is_usable_while_it_is_validated(case):
    case.make().fit(*case.data, validate=lambda fitted: float(np.mean(case.answer(fitted))))


def test_an_exploding_loss_stops_with_a_sentence(case):
    with pytest.raises(TrainingError, match="epoch"):
        case.fitted(learning_rate=1e37, max_epochs=20, schedule="constant")


def test_the_paper_preset_is_hard_max_with_equal_terms(case):
    parameters = type(case.make()).paper(max_epochs=1).get_params()
    assert parameters["selection"] == "max"
    assert parameters["weighting_strength"] == 1.0
    assert parameters["max_epochs"] == 1
