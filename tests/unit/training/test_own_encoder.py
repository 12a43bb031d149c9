"""A module of the user's own inside every classifier: copied, trained, frozen, saved."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from groupnoise import (
    MaxMatchingMILClassifier,
    MaxMatchingMIPLClassifier,
    MaxMatchingPartialLabelClassifier,
    NoisyLabelClassifier,
    load_model,
)
from groupnoise.core import FrozenEncoder
from groupnoise.exceptions import ModelFileError

ROWS = np.repeat(np.eye(4), 10, axis=0) + 0.05 * np.arange(40)[:, None]
LABELS = np.repeat(["ash", "birch", "cedar", "elm"], 10)
KINDS = [
    MaxMatchingMILClassifier,
    MaxMatchingMIPLClassifier,
    MaxMatchingPartialLabelClassifier,
    NoisyLabelClassifier,
]
every_kind = pytest.mark.parametrize("kind", KINDS)


def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 8, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 6)
    )


def fitted(kind, encoder, **settings):
    defaults = {"dim": 6, "max_epochs": 30, "learning_rate": 0.03, "random_state": 0}
    if kind is NoisyLabelClassifier:
        defaults["evidence"] = "neighbours"
    return kind(encoder=encoder, **{**defaults, **settings}).fit(ROWS, LABELS)


@every_kind
def test_images_in_their_own_shape_are_learned(kind):
    assert fitted(kind, network()).score(ROWS, LABELS) > 0.9


@every_kind
def test_the_module_given_stays_as_it_is_and_fitting_again_starts_from_it(kind):
    encoder = network()
    before = copy.deepcopy(encoder.state_dict())
    model = fitted(kind, encoder, max_epochs=3)
    first = model.predict_proba(ROWS)
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    np.testing.assert_array_equal(model.fit(ROWS, LABELS).predict_proba(ROWS), first)


@every_kind
def test_a_saved_model_takes_its_architecture_from_the_user(kind, tmp_path):
    model = fitted(kind, network(), max_epochs=3)
    model.save(tmp_path / "model")
    for load in (kind.load, load_model):
        loaded = load(tmp_path / "model", encoder=network())
        np.testing.assert_array_equal(loaded.predict_proba(ROWS), model.predict_proba(ROWS))
        with pytest.raises(ModelFileError, match=r"pass its architecture as load\(path, encoder="):
            load(tmp_path / "model")


@every_kind
def test_a_frozen_module_keeps_its_weights_under_a_trained_layer(kind):
    frozen = FrozenEncoder(network())
    model = fitted(kind, nn.Sequential(frozen, nn.Linear(6, 6)), max_epochs=3)
    trained = dict(model.model_.named_parameters())
    kept = {name: value for name, value in trained.items() if ".encoder." in name}
    assert len(kept) == 4
    for name, value in frozen.encoder.named_parameters():
        assert torch.equal(next(v for k, v in kept.items() if k.endswith(name)), value)


@every_kind
def test_mixed_precision_is_taken_where_the_processor_has_it(kind):
    model = fitted(kind, network(), mixed_precision=True)
    assert model.score(ROWS, LABELS) > 0.9
