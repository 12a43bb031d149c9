import numpy as np
import pytest
import torch
from torch import nn

from groupnoise.exceptions import ParameterError, TrainingError
from groupnoise.training.networks import build_network, seeded, train

NETWORK = {"encoder": "mlp", "hidden": 8, "batch_norm": False, "dropout": 0.5}
OPTIONS = {"max_epochs": 5, "batch_size": 2, "learning_rate": 0.1, "weight_decay": 0.0}


@pytest.fixture
def network():
    with seeded(np.random.default_rng(0)):
        return nn.Linear(1, 1)


def squared_error(network):
    inputs = torch.tensor([[0.0], [1.0], [2.0]])
    return lambda rows: (network(inputs[rows]) - 3 * inputs[rows] - 1).square().mean()


def test_every_epoch_reports_its_mean_loss_and_it_falls(network):
    records = []
    train(network, squared_error(network), 3, on_epoch=records.append, **OPTIONS)
    assert [record["epoch"] for record in records] == [1, 2, 3, 4, 5]
    assert records[-1]["loss"] < records[0]["loss"]


def test_the_epoch_that_validates_best_is_restored(network):
    states, scores = [], iter([0.1, 0.9, 0.5, 0.9, 0.2])

    def validate():
        assert not network.training
        states.append(network.weight.item())
        return next(scores)

    train(network, squared_error(network), 3, validate=validate, **OPTIONS)
    assert network.weight.item() == states[1]
    assert len(set(states)) == 5


def test_a_last_row_alone_joins_the_batch_before(network):
    sizes = []

    def batch_loss(rows):
        sizes.append(len(rows))
        return network.weight.sum()

    train(network, batch_loss, 5, **{**OPTIONS, "max_epochs": 1})
    assert sizes == [2, 3]


def test_without_validation_the_last_epoch_stays(network):
    seen = []
    train(
        network,
        squared_error(network),
        3,
        on_epoch=lambda record: seen.append(network.weight.item()),
        **OPTIONS,
    )
    assert network.weight.item() == seen[-1]


def test_a_loss_that_is_no_longer_finite_stops_the_training(network):
    with pytest.raises(TrainingError, match="epoch 1; scale the features or lower learning_rate"):
        train(network, lambda rows: network.weight.sum() * torch.inf, 3, **OPTIONS)


@pytest.mark.parametrize("name", list(OPTIONS))
def test_a_negative_option_is_refused(network, name):
    with pytest.raises(ParameterError, match=name):
        train(network, squared_error(network), 3, **{**OPTIONS, name: -1})


def test_a_seeded_block_repeats_itself_and_leaves_the_global_state_alone():
    before = torch.get_rng_state()
    draws = []
    for _ in range(2):
        with seeded(np.random.default_rng(7)):
            draws.append(torch.rand(3).tolist())
    assert draws[0] == draws[1]
    assert torch.equal(before, torch.get_rng_state())


def test_a_perceptron_has_a_layer_per_width():
    network = build_network(4, 2, encoder="mlp", hidden=(8, 5), batch_norm=False, dropout=0.0)
    shapes = [tuple(layer.weight.shape) for layer in network.modules() if hasattr(layer, "weight")]
    assert shapes == [(8, 4), (5, 8), (2, 5)]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"encoder": "tree"}, "encoder must be one of 'linear', 'mlp'"),
        ({"hidden": 0}, "hidden"),
        ({"hidden": ()}, "hidden"),
        ({"dropout": 1.5}, "dropout"),
    ],
)
def test_a_network_that_makes_no_sense_is_refused(changed, message):
    with pytest.raises(ParameterError, match=message):
        build_network(4, 2, **{**NETWORK, **changed})
