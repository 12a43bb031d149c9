"""Adam and RowAdam against torch's own optimisers, row by row and with weight decay."""

import math
import subprocess
import sys

import pytest
import torch
from torch.optim import Adam as TorchAdam, AdamW, SparseAdam

from builders import table_model
from groupnoise.core import compiled
from groupnoise.core.table_objective import RowGradient
from groupnoise.training.optimizer import Adam, RowAdam, make_optimizers

N_ROWS, DIM, RATE = 6, 3, 0.05


def table():
    values = torch.randn(N_ROWS, DIM, generator=torch.Generator().manual_seed(0)).double()
    return torch.nn.Parameter(values)


def sparse_gradient(rows, seed):
    values = torch.randn(len(rows), DIM, generator=torch.Generator().manual_seed(seed)).double()
    return torch.sparse_coo_tensor(
        torch.tensor([rows]), values, (N_ROWS, DIM), check_invariants=False
    )


def run(parameter, optimizer, gradients, *, dense=False):
    for gradient in gradients:
        parameter.grad = gradient.to_dense() if dense else gradient
        optimizer.step()
    return parameter.detach()


def every_row(n_steps):
    return [sparse_gradient(list(range(N_ROWS)), seed) for seed in range(n_steps)]


@pytest.mark.parametrize(("decoupled", "theirs_type"), [(True, AdamW), (False, TorchAdam)])
def test_the_fused_kernel_takes_the_steps_of_torchs_own(decoupled, theirs_type):
    mine, theirs = table(), table()
    run(mine, Adam([mine], RATE, weight_decay=0.1, decoupled=decoupled), every_row(20), dense=True)
    run(theirs, theirs_type([theirs], lr=RATE, weight_decay=0.1), every_row(20), dense=True)
    torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-10)


def test_a_restored_state_takes_the_same_steps():
    whole, parted = table(), table()
    run(whole, Adam([whole], RATE, weight_decay=0.1), every_row(20), dense=True)
    first = Adam([parted], RATE, weight_decay=0.1)
    run(parted, first, every_row(20)[:7], dense=True)
    second = Adam([parted], RATE, weight_decay=0.1)
    second.load_state_dict(first.state_dict())
    run(parted, second, every_row(20)[7:], dense=True)
    assert torch.equal(whole, parted)


def test_neither_a_fit_nor_a_model_that_is_read_loads_the_compiler_of_torch(tmp_path):
    code = (
        "import sys, numpy as np\n"
        "from groupnoise import MaxMatchingRecommender as Recommender\n"
        "Recommender.paper(max_epochs=1).fit([[0, 1, 2, 3, 4, 5, 6]] * 9).save('model')\n"
        "Recommender.load('model')\n"
        "from groupnoise import MaxMatchingPartialLabelClassifier as Classifier\n"
        "rows = np.random.default_rng(0).normal(size=(20, 2))\n"
        "candidates = np.eye(2, dtype=bool)[np.arange(20) % 2]\n"
        "Classifier.paper(max_epochs=1).fit(rows, candidates).save('other')\n"
        "Classifier.load('other')\n"
        "for encoder in ('kernel', 'trees'):\n"
        "    Classifier.fixed(encoder=encoder).fit(rows, candidates).save(encoder)\n"
        "    Classifier.load(encoder).predict(rows)\n"
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=True, timeout=120, cwd=tmp_path
    )


def test_equals_adamw_when_every_row_is_touched():
    mine, theirs = table(), table()
    # Decay is exp(-rate) here and 1 - rate there: equal to second order in a small rate.
    run(mine, RowAdam([mine], RATE, weight_decay=1e-3), every_row(20))
    run(theirs, AdamW([theirs], lr=RATE, weight_decay=1e-3), every_row(20), dense=True)
    torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("compiles", [False, True], ids=["torch", "loops"])
def test_rows_that_are_handed_over_move_as_by_a_step(compiles):
    # What numba compiles, as Python runs it.
    loops = compiled.Kernels(compiled.products, compiled.add_products, compiled.move_rows)
    mine, theirs = table(), table()
    ours, steps = (RowAdam([each], RATE, weight_decay=0.1) for each in (mine, theirs))
    for seed, rows in enumerate([[4, 0, 2], [2, 1], [5, 4], [0, 2, 1]]):
        gradient = sparse_gradient(rows, seed)
        ids = torch.tensor(rows)
        current = mine.detach()[ids]
        found = RowGradient(mine, ids, current, gradient._values().clone())
        ours.move_rows(found, loops if compiles else None)
        run(theirs, steps, [gradient])
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
    for optimizer in (ours, steps):
        optimizer.apply_deferred_decay()
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_equals_adamw_exactly_without_decay():
    mine, theirs = table(), table()
    run(mine, RowAdam([mine], RATE), every_row(20))
    run(theirs, AdamW([theirs], lr=RATE, weight_decay=0.0), every_row(20), dense=True)
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_equals_sparse_adam_on_the_rows_touched():
    steps = [sparse_gradient(rows, seed) for seed, rows in enumerate([[0, 3], [3], [0, 5], [3, 5]])]
    mine, theirs = table(), table()
    run(mine, RowAdam([mine], RATE), steps)
    run(theirs, SparseAdam([theirs], lr=RATE), steps)
    # The two add eps before and after the bias correction.
    torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-6)


def test_repeated_rows_of_one_gradient_are_summed():
    mine, theirs = table(), table()
    repeated = sparse_gradient([2, 4, 2], seed=1)
    run(mine, RowAdam([mine], RATE), [repeated])
    run(theirs, RowAdam([theirs], RATE), [repeated.coalesce()])
    assert torch.equal(mine, theirs)


def test_rows_not_looked_up_are_not_touched():
    parameter = table()
    before = parameter.detach().clone()
    run(parameter, RowAdam([parameter], RATE, weight_decay=0.1), [sparse_gradient([1, 4], 0)])
    untouched = [0, 2, 3, 5]
    assert torch.equal(parameter[untouched], before[untouched])
    assert (parameter[[1, 4]] != before[[1, 4]]).all()


def test_catch_up_makes_up_for_the_decay_of_every_step():
    parameter = table()
    before = parameter.detach().clone()
    optimizer = RowAdam([parameter], RATE, weight_decay=0.1)
    run(parameter, optimizer, [sparse_gradient([1], seed) for seed in range(7)])
    optimizer.apply_deferred_decay()
    decayed = before * math.exp(-RATE * 0.1) ** 7
    torch.testing.assert_close(parameter.detach()[[0, 2]], decayed[[0, 2]])
    once = parameter.detach().clone()
    optimizer.apply_deferred_decay()
    assert torch.equal(parameter, once)


def test_missed_decay_is_made_up_for_when_a_row_is_next_touched():
    often, seldom = table(), table()
    gradient = sparse_gradient([1], seed=9)
    optimizer = RowAdam([often], RATE, weight_decay=0.1)
    for _ in range(4):
        run(often, optimizer, [sparse_gradient([0], 1)])
        optimizer.apply_deferred_decay()
    run(often, optimizer, [gradient])
    other = RowAdam([seldom], RATE, weight_decay=0.1)
    run(seldom, other, [sparse_gradient([0], 1)] * 4 + [gradient])
    torch.testing.assert_close(often[1], seldom[1], rtol=1e-12, atol=1e-12)


def test_missed_decay_follows_a_changing_learning_rate():
    parameter = table()
    before = parameter.detach().clone()
    optimizer = RowAdam([parameter], RATE, weight_decay=0.1)
    for rate in (0.1, 0.02):
        optimizer.param_groups[0]["lr"] = rate
        run(parameter, optimizer, [sparse_gradient([0], 1)])
    optimizer.apply_deferred_decay()
    torch.testing.assert_close(parameter.detach()[2], before[2] * math.exp(-0.1 * 0.12))


@pytest.mark.parametrize("shared", [False, True])
def test_sparse_tables_go_to_row_adam_each_once(shared):
    model = table_model(n_objects=4, n_targets=4, shared=shared, has_bias=True, sparse=True)
    (optimizer,) = make_optimizers(model, learning_rate=0.1, weight_decay=0.0)
    assert isinstance(optimizer, RowAdam)
    held = [p for group in optimizer.param_groups for p in group["params"]]
    assert {id(p) for p in held} == {id(p) for p in model.parameters()}
    assert len(held) == len(list(model.parameters()))


def test_dense_parameters_go_to_adam():
    model = table_model(n_objects=4, n_targets=4, has_bias=True)
    (optimizer,) = make_optimizers(model, learning_rate=0.1, weight_decay=0.2)
    assert isinstance(optimizer, Adam)
    assert optimizer.param_groups[0]["weight_decay"] == 0.2


def test_a_restored_state_goes_on_exactly():
    gradients = [sparse_gradient([seed % N_ROWS], seed).float() for seed in range(12)]
    settings = {"learning_rate": RATE, "weight_decay": 0.3}
    whole = torch.nn.Parameter(table().detach().float())
    run(whole, RowAdam([whole], **settings), gradients)
    part = torch.nn.Parameter(table().detach().float())
    before = RowAdam([part], **settings)
    run(part, before, gradients[:5])
    after = RowAdam([part], **settings)
    after.load_state_dict(before.state_dict())
    assert torch.equal(run(part, after, gradients[5:]), whole.detach())
