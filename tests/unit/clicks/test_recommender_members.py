"""Several recommenders averaged into one model of wider vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from groupnoise import MaxMatchingRecommender, load_model
from groupnoise.core.model import item_model, merge_item_models
from groupnoise.exceptions import ParameterError
from groupnoise.training import Checkpoints

N_ITEMS = 20


@pytest.fixture(scope="module")
def histories() -> list[list[int]]:
    draw = np.random.default_rng(0)
    walks = [np.cumsum(draw.integers(1, 3, size=8)) for _ in range(60)]
    return [((walk + draw.integers(N_ITEMS)) % N_ITEMS).tolist() for walk in walks]


def recommender(**settings: object) -> MaxMatchingRecommender:
    defaults = {"dim": 6, "max_epochs": 3, "n_negatives": 8, "batch_size": 64, "random_state": 0}
    return MaxMatchingRecommender(**{"normalization": "click", **defaults, **settings})  # type: ignore[arg-type]


@torch.no_grad()
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_the_merged_logit_is_the_mean_of_those_of_the_members(shared: bool, has_bias: bool) -> None:
    draw = torch.Generator().manual_seed(0)

    def model(dim: int):
        made = item_model(5, dim, shared=shared, has_bias=has_bias, std=1.0, generator=draw)
        if has_bias:
            made.bias.data.normal_(generator=draw)
        return made

    members, wide = [model(3) for _ in range(3)], model(9)
    merge_item_models(members, wide)
    everything = torch.arange(5)
    for clicked in range(5):
        merged = wide.logits(wide.encode_objects(torch.tensor([clicked])), everything)[0]
        for item in range(5):
            mean = 0.0
            for member in members:
                f = member.encode_objects(torch.tensor([clicked]))[0]
                g = member.encode_targets(torch.tensor([item]))[0]
                bias = member.bias[item, 0] if has_bias else 0.0
                mean += float(sum(a * b for a, b in zip(f, g, strict=True)) + bias) / 3
            assert float(merged[item]) == pytest.approx(mean, abs=1e-5)


def test_members_are_fitted_one_after_the_other_into_one_model(histories) -> None:
    model = recommender(n_members=2).fit(histories)
    assert model.item_vectors().query.shape == (N_ITEMS, 12)
    assert [record["member"] for record in model.history_] == [1, 1, 1, 2, 2, 2]
    first = recommender().fit(histories).item_vectors().query
    assert_allclose(model.item_vectors().query[:, :6], first / 2**0.5, rtol=1e-6)


def test_members_start_in_turn(histories) -> None:
    model = recommender(n_members=2, init=("spectral", "random"), max_epochs=1).fit(histories)
    spectral = recommender(init="spectral", max_epochs=1).fit(histories).item_vectors().query
    assert_allclose(model.item_vectors().query[:, :6], spectral / 2**0.5, rtol=1e-6)
    two_spectral = recommender(n_members=2, init="spectral", max_epochs=1).fit(histories)
    assert not np.allclose(model.item_vectors().query, two_spectral.item_vectors().query)


def test_a_merged_model_is_saved_and_read_as_any_other(histories, tmp_path) -> None:
    model = recommender(n_members=2).fit(histories)
    model.save(tmp_path / "model")
    ids, scores = load_model(tmp_path / "model").recommend(histories[:5], top=4)
    expected_ids, expected_scores = model.recommend(histories[:5], top=4)
    assert_array_equal(ids, expected_ids)
    assert_array_equal(scores, expected_scores)


def test_an_interrupted_training_of_members_goes_on(histories, tmp_path) -> None:
    whole = recommender(n_members=2).fit(histories)

    def stop_in_the_second(record: dict) -> None:
        epochs.append(record)
        if len(epochs) == 5:
            raise KeyboardInterrupt

    epochs: list[dict] = []
    with pytest.raises(KeyboardInterrupt):
        recommender(n_members=2, on_epoch=stop_in_the_second).fit(
            histories, checkpoint=Checkpoints(tmp_path)
        )
    resumed = recommender(n_members=2).fit(histories, checkpoint=Checkpoints(tmp_path, resume=True))
    assert_array_equal(resumed.item_vectors().query, whole.item_vectors().query)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"init": ()}, "init names no start"),
        ({"init": ("random", "spectrall")}, "spectrall"),
        ({"init": 3}, "init must be one of 'random', 'spectral'; got 3"),
        ({"n_members": 0}, "n_members"),
    ],
)
def test_settings_without_sense_are_refused(histories, settings, sentence) -> None:
    with pytest.raises(ParameterError, match=sentence):
        recommender(**settings).fit(histories)
