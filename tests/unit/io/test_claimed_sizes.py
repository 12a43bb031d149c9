"""A manifest may claim any size or setting; only what the weights hold takes memory."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest

from groupnoise import (
    MaxMatchingPartialLabelClassifier,
    MaxMatchingRecommender,
    load_model,
)
from groupnoise.exceptions import ModelFileError

HISTORIES = [["tea", "milk", "jam"], ["nail", "hammer", "saw"]] * 5


@pytest.fixture
def recommender_folder(tmp_path):
    model = MaxMatchingRecommender(normalization="click", dim=4, max_epochs=1, random_state=0)
    model.fit(HISTORIES).save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def classifier_folder(tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    candidates = np.eye(2, dtype=np.int64)[np.arange(20) % 2]
    model = MaxMatchingPartialLabelClassifier.fixed(max_epochs=1, n_members=2, random_state=0)
    model.fit(rows, candidates).save(tmp_path / "model")
    return tmp_path / "model"


def claim(folder, part, name, value):
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest[part][name] = value
    path.write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.parametrize("dim", [4_000_000_000, 10**30, -1, "wide", None])
def test_a_width_that_the_tables_do_not_have_is_refused(recommender_folder, dim):
    claim(recommender_folder, "fitted", "dim", dim)
    with pytest.raises(ModelFileError, match="whole model"):
        load_model(recommender_folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_members", 10**30), ("n_members", 0), ("hidden", [10**9]), ("dim", 10**9)],
)
def test_networks_that_the_weights_do_not_fill_are_refused(classifier_folder, name, value):
    claim(classifier_folder, "parameters", name, value)
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="whole model"):
        load_model(classifier_folder)
    assert tracemalloc.get_traced_memory()[1] < 50e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("name", "value"), [("window_size", "x"), ("selection", "first"), ("scope", 3)]
)
def test_settings_that_no_training_can_have_had_are_refused(recommender_folder, name, value):
    claim(recommender_folder, "parameters", name, value)
    with pytest.raises(ModelFileError, match=name):
        load_model(recommender_folder)


def test_weights_of_another_precision_are_read_as_the_model_has_them(classifier_folder):
    from groupnoise.io.folders.model_files import read_model, write_model

    manifest, arrays = read_model(classifier_folder)
    kind = manifest.pop("kind")
    del manifest["weights"]  # names the file about to be replaced
    halved = {
        name: array.astype(np.float16) if name.startswith("model.") else array
        for name, array in arrays.items()
    }
    write_model(classifier_folder, kind=kind, manifest=manifest, arrays=halved)
    model = load_model(classifier_folder)
    assert all(tensor.dtype.itemsize == 4 for tensor in model.model_.parameters())
    assert np.isfinite(model.predict_proba(np.zeros((2, 3)))).all()
