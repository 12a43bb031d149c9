import numpy as np
import pytest
import torch
from torch import nn

from groupnoise.candidates.baselines import CCClassifier
from groupnoise.exceptions import ParameterError, TrainingError
from groupnoise.training.networks import build_network, random_batches, seeded, train_network

NETWORK = {"encoder": "mlp", "hidden": 8, "batch_norm": False, "dropout": 0.5}


@pytest.fixture
def network():
    with seeded(np.random.default_rng(0)):
        return nn.Linear(1, 1)


def run(network, **options):
    inputs = torch.tensor([[0.0], [1.0], [2.0]])

    def losses():
        for rows in random_batches(3, 2):
            loss = (network(inputs[rows]) - 3 * inputs[rows] - 1).square().mean()
            yield loss, len(rows)

    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    return train_network(network, optimizer, losses, max_epochs=5, **options)


def test_every_epoch_reports_its_mean_loss_and_it_falls(network):
    records = []
    assert run(network, on_epoch=records.append) == records
    assert [record["epoch"] for record in records] == [1, 2, 3, 4, 5]
    assert records[-1]["loss"] < records[0]["loss"]


def test_the_loss_that_is_told_counts_batches_by_their_weight(network):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.0)
    told = [(network.weight.sum() * 0 + 1, 3), (network.weight.sum() * 0 + 5, 1)]
    (record,) = train_network(network, optimizer, lambda: iter(told), max_epochs=1)
    assert record["loss"] == 2.0


def test_the_epoch_that_validates_best_is_restored(network):
    states, scores = [], iter([0.1, 0.9, 0.5, 0.9, 0.2])

    def validate():
        assert not network.training
        states.append(network.weight.item())
        return next(scores)

    run(network, validate=validate)
    assert network.weight.item() == states[1]
    assert len(set(states)) == 5


def test_a_last_row_alone_joins_the_batch_before():
    batches = random_batches(5, 2)
    assert [len(rows) for rows in batches] == [2, 3]
    assert sorted(torch.cat(batches).tolist()) == [0, 1, 2, 3, 4]


def test_without_validation_the_last_epoch_stays(network):
    seen = []
    run(network, on_epoch=lambda record: seen.append(network.weight.item()))
    assert network.weight.item() == seen[-1]


def test_a_loss_that_is_no_longer_finite_stops_the_training(network):
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with pytest.raises(TrainingError, match="epoch 1; scale the features or lower learning_rate"):
        train_network(
            network, optimizer, lambda: iter([(network.weight.sum() * torch.inf, 1)]), max_epochs=5
        )


@pytest.mark.parametrize("name", ["max_epochs", "batch_size", "learning_rate", "weight_decay"])
def test_a_negative_option_is_refused(name):
    with pytest.raises(ParameterError, match=name):
        CCClassifier(**{name: -1}).fit([[0.0], [1.0]], [{0}, {1}])


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
