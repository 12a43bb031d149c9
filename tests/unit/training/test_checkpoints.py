"""Checkpoints: a training goes on bit by bit, from whole saves, and only if it is the same."""

import json
import shutil

import numpy as np
import pytest
import torch

from builders import table_model
from groupnoise import Groups
from groupnoise.core import Marginal
from groupnoise.core.candidates import InBatchCandidates, SampledCandidates
from groupnoise.core.encoders import MLPEncoder
from groupnoise.core.model import MatchingModel
from groupnoise.core.objective import GroupObjective
from groupnoise.core.pair_matching import PairMatching
from groupnoise.core.weighting import SigmoidWeighting
from groupnoise.exceptions import CheckpointError, TrainingError, TrainingStopped
from groupnoise.training import Checkpoints
from groupnoise.training.parameters import History, TrainingPlan
from groupnoise.training.trainer import train
from groupnoise.training.workers import Workers

N_TARGETS = 6
OBJECTIVE = GroupObjective(Marginal(), SigmoidWeighting())
N_STEPS = 4 * 4
"""Epochs times batches of the training below."""


class Killed(BaseException):
    """Ends a process in the middle of a step, as far as the training can tell."""


class KilledAfter(Workers):
    """Works until it has begun a number of steps."""

    def __init__(self, n_steps):
        self.left = n_steps

    def rows(self, batch_rows):
        if self.left == 0:
            raise Killed
        self.left -= 1
        return batch_rows


def planted_groups(seed=0):
    generator = np.random.default_rng(seed)
    targets = generator.integers(N_TARGETS, size=60)
    lists = [[t, *generator.integers(9, size=generator.integers(0, 4))] for t in targets]
    return Groups.from_lists(lists, targets)


def sparse_tables():
    return table_model(n_objects=9, n_targets=N_TARGETS, dim=4, has_bias=True, sparse=True)


def network(dropout="ours"):
    """A model with dropout, from a generator of its own or from torch's global one."""
    draw = torch.Generator().manual_seed(3)
    rows = torch.randn(N_TARGETS, 5, generator=draw)
    encoder = MLPEncoder(5, [8], 4, dropout=0.5, generator=draw)
    if dropout == "global":
        encoder = torch.nn.Sequential(MLPEncoder(5, [8], 4, generator=draw), torch.nn.Dropout(0.5))
    return MatchingModel(
        table_model(n_objects=9, n_targets=2, dim=4).object_encoder,
        encoder,
        n_targets=N_TARGETS,
        target_inputs=rows,
    ).double()


def run(
    model, checkpoints=None, *, groups=None, plan=None, workers=None, objective=OBJECTIVE, **kw
):
    settings = {"max_epochs": 4, "batch_size": 16, "learning_rate": 0.05, "weight_decay": 0.1}
    train(
        model,
        groups or planted_groups(),
        pair=PairMatching(SampledCandidates(N_TARGETS, 4)),
        objective=objective,
        plan=TrainingPlan(**(settings | (plan or {}))),
        generator=np.random.default_rng(1),
        workers=workers,
        checkpoints=checkpoints,
        **kw,
    )
    return bits(model)


def bits(model):
    return {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}


def killed_at(step, folder, build=sparse_tables, **kwargs):
    """Train until `step` steps are done, saving after each."""
    with pytest.raises(Killed):
        run(build(), Checkpoints(folder, every_steps=1), workers=KilledAfter(step), **kwargs)


@pytest.mark.slow
@pytest.mark.parametrize(("build", "schedule"), [(sparse_tables, "cosine"), (network, "constant")])
def test_from_any_step_the_resumed_training_ends_with_the_same_bits(tmp_path, build, schedule):
    plan = {"schedule": schedule}
    every_step = Checkpoints(tmp_path / "all", every_steps=1, keep=N_STEPS + 1)
    expected = run(build(), every_step, plan=plan)
    for saved in every_step.saves():
        resumed = Checkpoints(tmp_path / saved.name, resume=True)
        shutil.copytree(saved, resumed.folder / saved.name)
        assert run(build(), resumed, plan=plan) == expected, saved.name


def test_a_save_some_steps_back_leads_to_the_same_bits(tmp_path):
    expected = run(sparse_tables())
    with pytest.raises(Killed):
        run(sparse_tables(), Checkpoints(tmp_path, every_steps=5), workers=KilledAfter(13))
    assert run(sparse_tables(), Checkpoints(tmp_path, resume=True)) == expected


def test_an_encoder_that_draws_from_the_global_generator_goes_on_as_well(tmp_path):
    torch.manual_seed(7)
    expected = run(network("global"))
    torch.manual_seed(7)
    killed_at(9, tmp_path, lambda: network("global"))
    torch.manual_seed(8)
    assert run(network("global"), Checkpoints(tmp_path, resume=True)) == expected


@pytest.mark.parametrize("keep", ["best", "last"])
@pytest.mark.parametrize("step", [3, 8, 14])
def test_the_best_epoch_and_the_history_survive(tmp_path, keep, step):
    def fit(checkpoints, workers=None):
        model, history = sparse_tables(), History()
        plan = {"keep": keep, "patience": 3}
        values = [0.2, 0.9, 0.3, 0.4]
        weights = run(
            model,
            checkpoints,
            workers=workers,
            plan=plan,
            validate=lambda: values[len(history)],
            history=history,
        )
        return weights, [history.column(c) for c in ("epoch", "loss", "validation")], history

    weights, records, history = fit(None)
    with pytest.raises(Killed):
        fit(Checkpoints(tmp_path, every_steps=1), KilledAfter(step))
    again, records_again, history_again = fit(Checkpoints(tmp_path, resume=True))
    assert again == weights
    assert records_again == records
    assert history_again.best_epoch == history.best_epoch == 2


def test_a_finished_training_is_resumed_in_no_step_at_all(tmp_path):
    expected = run(sparse_tables(), Checkpoints(tmp_path))
    again = run(sparse_tables(), Checkpoints(tmp_path, resume=True), workers=KilledAfter(0))
    assert again == expected


def test_saving_changes_nothing(tmp_path):
    often = run(sparse_tables(), Checkpoints(tmp_path / "often", every_seconds=1e-9))
    assert often == run(sparse_tables())


def test_a_generator_with_an_array_for_a_state_is_restored(tmp_path):
    def fit(checkpoints, workers=None):
        model = sparse_tables()
        train(
            model,
            planted_groups(),
            pair=PairMatching(InBatchCandidates()),
            objective=OBJECTIVE,
            plan=TrainingPlan(max_epochs=3, batch_size=16),
            generator=np.random.Generator(np.random.MT19937(5)),
            workers=workers,
            checkpoints=checkpoints,
        )
        return bits(model)

    expected = fit(None)
    with pytest.raises(Killed):
        fit(Checkpoints(tmp_path, every_steps=1), KilledAfter(6))
    assert fit(Checkpoints(tmp_path, resume=True)) == expected


def test_only_the_newest_saves_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, every_steps=1, keep=3)
    run(sparse_tables(), checkpoints)
    last = N_STEPS + 1  # the finished training is saved as well
    assert [path.name for path in checkpoints.saves()] == [
        f"checkpoint-{number:06d}" for number in range(last - 2, last + 1)
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        path.name for path in checkpoints.saves()
    ]


def test_a_stop_saves_and_says_where(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    checkpoints.stop(15)
    with pytest.raises(TrainingStopped, match=r"epoch 1 after step 1 .* resume=True") as stopped:
        run(sparse_tables(), checkpoints)
    assert stopped.value.signal_number == 15
    assert run(sparse_tables(), Checkpoints(tmp_path, resume=True)) == run(sparse_tables())


def test_a_folder_with_saves_is_refused_unless_resuming_is_asked_for(tmp_path):
    killed_at(5, tmp_path)
    with pytest.raises(CheckpointError, match="holds checkpoints already; resume"):
        run(sparse_tables(), Checkpoints(tmp_path))


def test_an_empty_folder_is_resumed_from_the_beginning(tmp_path):
    assert run(sparse_tables(), Checkpoints(tmp_path, resume=True)) == run(sparse_tables())


def weights_file(saved):
    (path,) = saved.glob("worker-0/weights-*.safetensors")
    return path


def truncate(saved):
    path = weights_file(saved)
    path.write_bytes(path.read_bytes()[:-7])


def flip_a_bit(saved):
    path = weights_file(saved)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def empty_the_manifest(saved):
    (saved / "worker-0" / "manifest.json").write_text("")


def forget_a_moment(saved):
    path = saved / "worker-0" / "manifest.json"
    content = json.loads(path.read_text())
    del content["state"]["moments"]
    path.write_text(json.dumps(content))


def remove_the_part(saved):
    shutil.rmtree(saved / "worker-0")


DAMAGES = [truncate, flip_a_bit, empty_the_manifest, forget_a_moment, remove_the_part]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_save_is_passed_over_for_the_one_before(tmp_path, damage):
    killed_at(9, tmp_path)
    checkpoints = Checkpoints(tmp_path, resume=True)
    damaged = checkpoints.saves()[-1]
    damage(damaged)
    with pytest.warns(RuntimeWarning, match=f"{damaged.name} is passed over"):
        resumed = run(sparse_tables(), checkpoints)
    assert resumed == run(sparse_tables())
    assert damaged not in checkpoints.saves()


@pytest.mark.parametrize("damage", DAMAGES)
def test_without_a_whole_save_the_training_is_refused_and_nothing_is_touched(tmp_path, damage):
    killed_at(9, tmp_path)
    checkpoints = Checkpoints(tmp_path, resume=True, report=lambda sentence: None)
    for saved in checkpoints.saves():
        damage(saved)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* can be read"):
        run(sparse_tables(), checkpoints)
    assert sorted(tmp_path.rglob("*")) == before


def other_target():
    groups = planted_groups()
    groups.targets[7] = (groups.targets[7] + 1) % N_TARGETS
    return groups


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"plan": {"learning_rate": 0.1}}, r"learning_rate 0\.05, but now it is 0\.1"),
        ({"plan": {"max_epochs": 5}}, "max_epochs 4, but now it is 5"),
        ({"objective": GroupObjective()}, "objective.selection.kind 'Marginal', but .* 'Max'"),
        ({"validate": lambda: 1.0}, "validation False, but now it is True"),
        ({"settings": {"dropout": 0.1}}, r"dropout None, but now it is 0\.1"),
        ({"groups": planted_groups(seed=1)}, "the data differ"),
        ({"groups": other_target()}, "the data differ"),
    ],
)
def test_another_training_is_refused_by_what_differs(tmp_path, changed, named):
    killed_at(5, tmp_path)
    saves = Checkpoints(tmp_path).saves()
    with pytest.raises(CheckpointError, match=named):
        run(sparse_tables(), Checkpoints(tmp_path, resume=True), **changed)
    assert Checkpoints(tmp_path).saves() == saves
    assert run(sparse_tables(), Checkpoints(tmp_path, resume=True)) == run(sparse_tables())


def test_another_shape_is_refused(tmp_path):
    killed_at(5, tmp_path)
    wider = table_model(n_objects=9, n_targets=N_TARGETS, dim=5, has_bias=True, sparse=True)
    with pytest.raises(
        CheckpointError, match=r"shape of .*weight \[9, 4\], but now it is \[9, 5\]"
    ):
        run(wider, Checkpoints(tmp_path, resume=True))


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="is a file"):
        run(sparse_tables(), Checkpoints(tmp_path / "file"))


class PoisonedAfter(KilledAfter):
    """Turns a weight to NaN after a number of steps, as an exploding gradient would."""

    def __init__(self, n_steps, model):
        super().__init__(n_steps)
        self.model = model

    def rows(self, batch_rows):
        if self.left == 0:
            with torch.no_grad():
                self.model.target_encoder.weight.fill_(torch.nan)
        self.left -= 1
        return batch_rows


def test_an_explosion_leaves_the_best_weights_and_the_last_good_save(tmp_path):
    model, history, seen = sparse_tables(), History(), []

    def validate():
        seen.append(bits(model))
        return [0.5, 0.3, 0.4, 0.2][len(history)]

    with pytest.raises(TrainingError, match=r"loss became nan in epoch 4, step 15, in the batch"):
        run(
            model,
            Checkpoints(tmp_path, every_steps=1),
            workers=PoisonedAfter(14, model),
            validate=validate,
            history=history,
        )
    assert bits(model) == seen[0]
    assert history.best_epoch == 1
    assert not model.training
    assert run(
        sparse_tables(),
        Checkpoints(tmp_path, resume=True),
        validate=lambda: [0.5, 0.3, 0.4, 0.2][len(again)],
        history=(again := History()),
    )


def test_an_explosion_without_validation_leaves_the_weights_of_the_last_save(tmp_path):
    model = sparse_tables()
    with pytest.raises(TrainingError, match=r"loss became nan in epoch 2, step 7"):
        run(model, Checkpoints(tmp_path, every_steps=4), workers=PoisonedAfter(6, model))
    with pytest.raises(Killed):
        run(same := sparse_tables(), workers=KilledAfter(4))
    assert bits(model) == bits(same)


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    model = sparse_tables()
    with torch.no_grad():
        model.object_encoder.weight[8] = torch.nan  # a row that no batch looks up
    groups = Groups.from_lists([[0, 1]] * 40, targets=[0] * 40)
    with pytest.raises(TrainingError, match=r"object_encoder\.weight holds NaN .* not saved"):
        run(model, Checkpoints(tmp_path, every_steps=1), groups=groups)
    assert Checkpoints(tmp_path).saves() == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_validation_that_is_no_number_stops_the_training_with_its_best_weights(value):
    model, history, seen = sparse_tables(), History(), []

    def validate():
        seen.append(bits(model))
        return [0.5, value][len(history)]

    with pytest.raises(TrainingError, match=r"validate returned .* after epoch 2"):
        run(model, validate=validate, history=history, plan={"patience": 2})
    assert bits(model) == seen[0]
    assert len(history) == 1


def test_clearing_removes_all_saves(tmp_path):
    checkpoints = Checkpoints(tmp_path / "saves", every_steps=3)
    run(sparse_tables(), checkpoints)
    checkpoints.clear()
    assert not (tmp_path / "saves").exists()
