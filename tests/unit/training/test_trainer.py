"""The training loop: it learns, keeps the best, stops, explains itself and repeats itself."""

import math

import numpy as np
import pytest
import torch

from builders import table_model
from groupnoise import Groups
from groupnoise.core import Marginal
from groupnoise.core.candidates import FullCandidates, SampledCandidates
from groupnoise.core.objective import GroupObjective
from groupnoise.core.pair_matching import PairMatching
from groupnoise.core.weighting import SigmoidWeighting
from groupnoise.exceptions import TrainingError
from groupnoise.training.parameters import TrainingPlan
from groupnoise.training.trainer import train

N_TARGETS = 5
OBJECTIVE = GroupObjective(Marginal(), SigmoidWeighting())


def planted_groups(n_groups=60, seed=0):
    """Object `y` always stands for target `y`; the others of the group are chance."""
    generator = np.random.default_rng(seed)
    targets = generator.integers(N_TARGETS, size=n_groups)
    lists = [
        [target, *generator.integers(2 * N_TARGETS, size=generator.integers(0, 4))]
        for target in targets
    ]
    return Groups.from_lists(lists, targets)


def tables(**kwargs):
    return table_model(n_objects=2 * N_TARGETS, n_targets=N_TARGETS, dim=4, **kwargs)


def run(model=None, *, seed=0, source=None, groups=None, plan=None, **kwargs):
    model = model or tables()
    plan = {"max_epochs": 6, "batch_size": 16, "learning_rate": 0.05} | (plan or {})
    history = train(
        model,
        groups or planted_groups(),
        pair=PairMatching(source or FullCandidates(N_TARGETS)),
        objective=OBJECTIVE,
        plan=TrainingPlan(**plan),
        generator=np.random.default_rng(seed),
        **kwargs,
    )
    return model, history


def state_of(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


def same_state(left, right):
    return all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("source", [FullCandidates(N_TARGETS), SampledCandidates(N_TARGETS, 4)])
def test_the_loss_falls(source, sparse):
    _, history = run(tables(sparse=sparse, has_bias=True), source=source, plan={"max_epochs": 15})
    losses = history.column("loss")
    assert losses[-1] < 0.6 * losses[0]


def test_training_finds_the_planted_object():
    model, _ = run(plan={"max_epochs": 30})
    ids = torch.arange(N_TARGETS)
    logits = model.encode_objects(ids) @ model.encode_targets(ids).t()
    assert logits.argmax(-1).tolist() == ids.tolist()


def test_sparse_and_dense_gradients_train_to_the_same_weights_when_all_rows_are_touched():
    groups = Groups.from_lists([list(range(2 * N_TARGETS))] * 4, targets=[0, 1, 2, 3])
    dense, _ = run(tables(), groups=groups)
    sparse, _ = run(tables(sparse=True), groups=groups)
    torch.testing.assert_close(dict(dense.state_dict()), dict(sparse.state_dict()))


def test_rows_nobody_looked_up_have_decayed_by_the_time_the_table_is_read():
    groups = Groups.from_lists([[0], [1]] * 4, targets=[0, 1] * 4)
    model = tables(sparse=True)
    unseen = model.object_encoder.weight[-1].detach().clone()
    plan = {"max_epochs": 3, "batch_size": 4, "learning_rate": 0.05, "weight_decay": 0.1}
    run(model, groups=groups, plan=plan)
    n_steps = 3 * 2
    expected = unseen * math.exp(-0.05 * 0.1 * n_steps)
    torch.testing.assert_close(model.object_encoder.weight[-1].detach(), expected)


def test_weights_of_the_best_epoch_are_restored():
    model, seen = tables(), []

    def validate():
        seen.append(state_of(model))
        return [0.1, 0.5, 0.4, 0.5, 0.2, 0.3][len(seen) - 1]

    _, history = run(model, validate=validate)
    assert history.best_epoch == 2  # the first wins the tie with the fourth
    assert same_state(model.state_dict(), seen[1])
    assert not same_state(model.state_dict(), seen[-1])


def test_without_validation_the_last_weights_are_kept():
    model, seen = tables(), []
    _, history = run(model, on_epoch=lambda record: seen.append(state_of(model)))
    assert history.best_epoch is None
    assert same_state(model.state_dict(), seen[-1])


def test_patience_stops_after_that_many_epochs_without_a_better_value():
    values = iter([0.3, 0.6, 0.5, 0.6, 0.9, 0.9])
    _, history = run(validate=lambda: next(values), plan={"max_epochs": 6, "patience": 2})
    assert history.column("validation") == [0.3, 0.6, 0.5, 0.6]
    assert history.best_epoch == 2


def test_validation_sees_the_model_in_evaluation_mode_and_without_gradients():
    model, modes = tables(), []

    def validate():
        modes.append((model.training, torch.is_grad_enabled()))
        return 0.0

    run(model, validate=validate, plan={"max_epochs": 2})
    assert modes == [(False, False)] * 2


def test_the_callback_gets_one_record_per_epoch():
    records = []
    _, history = run(on_epoch=records.append, validate=lambda: 1.0, plan={"max_epochs": 3})
    assert records == history.records
    assert [record["epoch"] for record in records] == [1, 2, 3]
    assert set(records[0]) == {
        "epoch",
        "n_epochs",
        "loss",
        "learning_rate",
        "seconds",
        "validation",
    }


def test_training_prints_nothing(capsys):
    run(plan={"max_epochs": 1})
    assert capsys.readouterr() == ("", "")


def test_a_loss_that_is_no_number_stops_with_a_sentence_that_says_where():
    model = tables()
    with torch.no_grad():
        model.object_encoder.weight[0] = torch.nan
    with pytest.raises(TrainingError, match=r"loss became nan in epoch 1, step \d+, in the batch"):
        run(model)


def test_a_loss_that_is_no_number_leaves_the_weights_as_they_were():
    model = tables()
    with torch.no_grad():
        model.target_encoder.weight[0] = torch.inf
    before = state_of(model)
    with pytest.raises(TrainingError, match="Lower learning_rate"):
        run(model)
    assert same_state(before, model.state_dict())


@pytest.mark.parametrize("sparse", [False, True])
def test_same_seed_same_weights_bit_by_bit(sparse):
    source = SampledCandidates(N_TARGETS, 3)
    first, one = run(tables(sparse=sparse), seed=4, source=source)
    torch.manual_seed(123)
    np.random.seed(5)  # noqa: NPY002 - shows that global state has no say
    second, two = run(tables(sparse=sparse), seed=4, source=source)
    assert same_state(first.state_dict(), second.state_dict())
    assert one.column("loss") == two.column("loss")
    other, _ = run(tables(sparse=sparse), seed=5, source=source)
    assert not same_state(first.state_dict(), other.state_dict())


def test_training_leaves_global_random_state_alone():
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    run(source=SampledCandidates(N_TARGETS, 3))
    assert torch.equal(torch_before, torch.get_rng_state())
    assert (numpy_before == np.random.get_state()[1]).all()  # noqa: NPY002


def test_a_schedule_ends_at_zero():
    _, history = run(plan={"schedule": "linear", "max_epochs": 3})
    rates = history.column("learning_rate")
    assert rates[0] > rates[1] > rates[2] == 0.0


def test_groups_of_one_train_like_ordinary_cross_entropy():
    groups = Groups.from_lists([[0], [1], [2], [1]], targets=[0, 1, 2, 3])
    model = tables()
    before = tables()
    run(model, groups=groups, plan={"max_epochs": 1, "batch_size": 4})
    optimizer = torch.optim.AdamW(before.parameters(), lr=0.05, weight_decay=0.0)
    objects, targets = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 2, 3])
    logits = before.encode_objects(objects) @ before.encode_targets(torch.arange(N_TARGETS)).t()
    torch.nn.functional.cross_entropy(logits, targets).backward()
    optimizer.step()
    torch.testing.assert_close(dict(model.state_dict()), dict(before.state_dict()))


def test_the_last_weights_can_be_kept_instead_of_the_best():
    plain, _ = run()
    values = iter([3.0, 2.0, 1.0, 1.0, 1.0, 1.0])
    kept, history = run(plan={"keep": "last"}, validate=lambda: next(values))
    assert history.best_epoch == 1
    assert same_state(state_of(kept), state_of(plain))
