from dataclasses import replace

import pytest
import torch

from groupnoise.core.model import item_model
from groupnoise.exceptions import ParameterError
from groupnoise.training.distributed.cost import Machine, TrainingSize, estimate_cost, table_bytes
from groupnoise.training.optimizer import make_optimizers

SIZE = TrainingSize(n_groups=10**8, n_items=10**7, dim=32)
MACHINE = Machine(
    memory=64e9,
    workers=8,
    flops=1e11,
    entries=3e8,
    row_bytes=2e8,
    network=1e9,
    latency=1e-4,
)


@pytest.mark.parametrize("shared", [True, False])
def test_the_bytes_of_tables_are_those_of_a_model_and_its_optimiser(shared):
    size = replace(SIZE, n_items=50, dim=6, shared=shared)
    model = item_model(
        50, 6, shared=shared, has_bias=True, std=0.1, generator=torch.Generator().manual_seed(0)
    )
    (optimizer,) = make_optimizers(model, learning_rate=0.1, weight_decay=0.1)
    vectors = (
        model.encode_objects(torch.arange(3)).sum() + model.encode_targets(torch.arange(3)).sum()
    )
    (vectors + model.target_bias(torch.arange(3)).sum()).backward()
    optimizer.step()
    held = list(model.parameters())
    for state in optimizer.state.values():
        held += [value for value in state.values() if isinstance(value, torch.Tensor)]
    assert table_bytes(size, 1) == sum(each.numel() * each.element_size() for each in held)


def test_more_workers_hold_less_and_train_faster():
    one, four = (estimate_cost(SIZE, MACHINE, workers=n) for n in (1, 4))
    assert four.bytes_per_worker < one.bytes_per_worker
    assert one.hours / 4 < four.hours < one.hours


def test_time_grows_with_groups_and_epochs_alike():
    once = estimate_cost(SIZE, MACHINE, workers=2).hours
    groups = estimate_cost(replace(SIZE, n_groups=2 * 10**8), MACHINE, workers=2).hours
    epochs = estimate_cost(replace(SIZE, n_epochs=12), MACHINE, workers=2).hours
    assert groups == pytest.approx(2 * once, rel=1e-3)
    assert epochs == pytest.approx(2 * once)


def test_machines_are_counted_by_memory_where_cores_would_do():
    small = replace(MACHINE, memory=2e9)
    assert estimate_cost(SIZE, small, workers=8).machines > 1
    assert estimate_cost(SIZE, MACHINE, workers=8).machines == 1


def test_no_workers_are_refused():
    with pytest.raises(ParameterError, match="workers"):
        estimate_cost(SIZE, MACHINE, workers=0)


def test_starting_and_saving_are_added_once():
    slow = replace(MACHINE, base_seconds=3600.0)
    before = estimate_cost(SIZE, MACHINE, workers=2).hours
    assert estimate_cost(SIZE, slow, workers=2).hours == pytest.approx(before + 1)


def test_an_item_that_is_clicked_twice_in_a_batch_is_normalized_once():
    few = replace(SIZE, n_items=100, batch_size=8192)
    rates = replace(MACHINE, flops=float("inf"), row_bytes=float("inf"), entries=1.0)
    step = estimate_cost(few, rates, workers=1).seconds_per_step
    assert step == pytest.approx(100 * few.n_negatives)
