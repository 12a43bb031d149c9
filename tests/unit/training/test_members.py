"""Several models under one estimator: they differ, answer together, and share one file."""

import numpy as np
import pytest
import torch

from groupnoise import MaxMatchingMILClassifier, MaxMatchingPartialLabelClassifier, load_model
from groupnoise.core.encoders import IdentityEncoder
from groupnoise.exceptions import ParameterError

BRIEF = {"max_epochs": 3, "batch_size": 8, "random_state": 0}


def candidate_rows(n_rows=24, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    truth = generator.integers(n_classes, size=n_rows)
    candidates = (generator.random((n_rows, n_classes)) < 0.3) | (
        truth[:, None] == np.arange(n_classes)
    )
    return np.eye(n_classes)[truth] + 0.1 * generator.normal(size=(n_rows, n_classes)), candidates


def fitted(kind, **settings):
    rows, candidates = candidate_rows()
    if kind is MaxMatchingMILClassifier:
        return kind(**BRIEF, **settings).fit(rows.reshape(8, 3, 3), np.arange(8) % 3), rows
    return kind.fixed(**BRIEF, **settings).fit(rows, candidates.astype(int)), rows


@pytest.fixture(params=[MaxMatchingMILClassifier, MaxMatchingPartialLabelClassifier])
def kind(request):
    return request.param


def test_members_differ_and_answer_with_their_mean_probability(kind):
    model, rows = fitted(kind, n_members=3)
    together = model.predict_proba(rows)
    alone = []
    for member in list(model.members_):
        model.members_ = torch.nn.ModuleList([member])
        alone.append(model.predict_proba(rows))
    assert not np.allclose(alone[0], alone[1])
    np.testing.assert_allclose(together, np.mean(alone, axis=0), atol=1e-6)


def test_the_first_member_is_the_model_trained_alone(kind):
    several, _ = fitted(kind, n_members=2)
    one, _ = fitted(kind)
    for name, weights in one.model_.state_dict().items():
        assert torch.equal(weights, several.model_.state_dict()[name])


def test_a_file_holds_every_member(kind, tmp_path):
    model, rows = fitted(kind, n_members=2)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert len(again.members_) == 2
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_the_history_tells_the_members_apart(kind):
    model, _ = fitted(kind, n_members=2)
    assert model.history_.column("member") == [1, 1, 1, 2, 2, 2]
    assert model.history_.column("epoch") == [1, 2, 3, 1, 2, 3]


def test_candidates_are_scored_by_all_members():
    model, rows = fitted(MaxMatchingPartialLabelClassifier, n_members=2, normalize="targets")
    _, candidates = candidate_rows()
    selected = model.select(rows, candidates.astype(int))
    assert selected.offsets[-1] == candidates.sum()
    shares = np.add.reduceat(selected.responsibility, selected.offsets[:-1])
    np.testing.assert_allclose(shares, 1.0, atol=1e-5)


def test_an_encoder_of_ones_own_cannot_be_shared_by_members(kind):
    with pytest.raises(ParameterError, match="n_members needs an encoder by name"):
        fitted(kind, n_members=2, encoder=IdentityEncoder(), dim=3)
