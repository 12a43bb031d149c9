"""The loop keeps the best epoch, stops in time, reports, and refuses a loss that left the rails."""

import pytest
import torch
from torch import nn

from groupnoise.exceptions import TrainingError
from groupnoise.training.networks import train_network


class Weight(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(0.0))


@pytest.fixture
def weight():
    return Weight()


def run(weight, *, max_epochs=6, patience=2, **options):
    # The gradient is -1, so that each epoch raises the weight by exactly one.
    optimizer = torch.optim.SGD(weight.parameters(), lr=1.0)
    return train_network(
        weight,
        optimizer,
        lambda: iter([(-weight.value, 1)]),
        max_epochs=max_epochs,
        patience=patience,
        **options,
    )


def test_without_validation_the_last_epoch_is_kept(weight):
    history = run(weight)
    assert weight.value.item() == 6.0
    assert [record["epoch"] for record in history] == [1, 2, 3, 4, 5, 6]


def test_training_stops_after_patience_and_restores_the_best_epoch(weight):
    history = run(weight, validate=lambda: -abs(weight.value.item() - 2))
    assert [record["validation"] for record in history] == [-1.0, 0.0, -1.0, -2.0]
    assert weight.value.item() == 2.0


def test_every_epoch_is_reported_as_it_ends(weight):
    seen = []
    history = run(weight, on_epoch=seen.append)
    assert seen == history
    assert {"epoch", "loss", "seconds"} <= set(seen[0])


def test_the_network_trains_in_training_mode_and_is_left_in_evaluation_mode(weight):
    modes = []

    def losses():
        modes.append(weight.training)
        yield -weight.value, 1

    train_network(
        weight, torch.optim.SGD(weight.parameters(), lr=1.0), losses, max_epochs=1, patience=1
    )
    assert modes == [True]
    assert not weight.training


def test_a_loss_that_is_no_number_stops_training_with_advice(weight):
    optimizer = torch.optim.SGD(weight.parameters(), lr=1.0)
    with pytest.raises(TrainingError, match="lower learning_rate"):
        train_network(
            weight,
            optimizer,
            lambda: iter([(weight.value * torch.nan, 1)]),
            max_epochs=2,
            patience=1,
        )
