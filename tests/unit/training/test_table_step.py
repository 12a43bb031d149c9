"""A training whose steps are taken in one piece against the same training by autograd."""

import numpy as np
import pytest
import torch

from builders import id_groups, table_model
from groupnoise.core import compiled
from groupnoise.core.candidates import SampledCandidates
from groupnoise.core.objective import GroupObjective, Tempered
from groupnoise.core.pair_matching import PairMatching
from groupnoise.core.weighting import SigmoidWeighting
from groupnoise.training import explicit_steps, trainer
from groupnoise.training.parameters import TrainingPlan

N_ITEMS = 40


def trained(shared, **plan):
    rng = np.random.default_rng(0)
    groups = id_groups(rng.integers(1, 6, size=70).tolist(), n_ids=N_ITEMS, n_targets=N_ITEMS)
    model = table_model(
        n_objects=N_ITEMS, n_targets=N_ITEMS, dim=5, shared=shared, has_bias=True, sparse=True
    )
    settings = {"max_epochs": 3, "batch_size": 16, "learning_rate": 0.05, "weight_decay": 0.1}
    history = trainer.train(
        model,
        groups,
        pair=PairMatching(SampledCandidates(N_ITEMS, 8)),
        objective=GroupObjective(Tempered(), SigmoidWeighting(), recency=0.3),
        plan=TrainingPlan(**{**settings, **plan}),
        generator=np.random.default_rng(1),
        group_weights=torch.linspace(0.5, 1.5, 70, dtype=torch.float64),
    )
    return [*model.parameters(), torch.tensor(history.column("loss"))]


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
def test_weights_and_losses_are_those_of_autograd(monkeypatch, shared):
    loops = compiled.Kernels(compiled.products, compiled.add_products, compiled.move_rows)
    ours = [trained(shared)]
    monkeypatch.setattr(explicit_steps, "training_kernels", lambda n_steps: loops)
    ours.append(trained(shared))
    monkeypatch.setattr(trainer, "find_explicit_step", lambda *parts, n_steps: None)
    expected = trained(shared)
    for found in ours:
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_batch_in_parts_is_left_to_autograd(monkeypatch):
    expected = trained(True, max_objects=20)
    monkeypatch.setattr(trainer, "find_explicit_step", lambda *parts, n_steps: None)
    torch.testing.assert_close(trained(True, max_objects=20), expected, rtol=1e-9, atol=1e-9)
