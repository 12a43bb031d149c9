"""The objective on tables against plain loops and against its parts: losses, gradients, rows."""

import importlib.util
from dataclasses import replace

import numpy as np
import pytest
import torch

from builders import gradients, id_batch, table_model
from groupnoise.core import compiled
from groupnoise.core.candidates import FullCandidates, SampledCandidates
from groupnoise.core.objective import GroupObjective, Max
from groupnoise.core.pair_matching import PairMatching
from groupnoise.core.table_objective import TableObjective
from groupnoise.core.weighting import ContrastiveWeighting, Dot, NegativeKL, SigmoidWeighting
from unit.core.test_whole_objective import (
    N_IDS,
    N_TARGETS,
    SELECTIONS,
    SIZES,
    SOURCES,
    STRENGTH,
    WEIGHTINGS,
    LoopObjective,
    generator,
)

KERNELS = {
    "torch": None,
    # What numba compiles, as Python runs it.
    "loops": compiled.Kernels(compiled.products, compiled.add_products, compiled.move_rows),
}


def upstream_of(losses):
    # Unequal weights of the groups: a gradient that went to the wrong group would show.
    return torch.linspace(0.5, 1.5, len(losses), dtype=torch.float64)


def dense(found, parameters):
    """The gradients of all parameters, zero where no row was looked up."""
    rows = {id(each.table): each for each in found}
    result = []
    for parameter in parameters:
        whole = torch.zeros_like(parameter)
        each = rows[id(parameter)]
        assert len(each.rows.unique()) == len(each.rows)
        torch.testing.assert_close(each.current, parameter[each.rows].detach())
        result.append(whole.index_copy(0, each.rows, each.gradient))
    return result


@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("weighting", ["none", "sigmoid_dot"])
@pytest.mark.parametrize("source", ["sampled", "sampled_raw"])
@pytest.mark.parametrize("kernels", KERNELS)
def test_loss_and_gradient_equal_the_loops(kernels, source, weighting, selection, shared):
    turn = list(SELECTIONS).index(selection)
    weigh, loop_weigh = WEIGHTINGS[weighting]
    select, loop_select = SELECTIONS[selection]
    model = table_model(
        n_objects=N_IDS, n_targets=N_TARGETS, shared=shared, has_bias=turn % 2 == 0, sparse=True
    )
    objective = GroupObjective(select, weigh, STRENGTH)
    ours = TableObjective.of(model, PairMatching(SOURCES[source]), objective, KERNELS[kernels])
    for sizes in SIZES:  # one after the other in the same memory
        batch = id_batch(sizes, n_ids=N_IDS, n_targets=N_TARGETS, seed=turn)
        actual = ours.losses(batch, generator())
        expected = LoopObjective(model, batch).losses(source, loop_weigh, loop_select)
        torch.testing.assert_close(actual, expected.detach(), rtol=1e-9, atol=1e-9)
        leaves, upstream = list(model.parameters()), upstream_of(actual)
        torch.testing.assert_close(
            dense(ours.gradients(upstream), leaves),
            gradients((expected * upstream).sum(), leaves),
            rtol=1e-8,
            atol=1e-9,
        )


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("shared", [False, True], ids=["separate", "shared"])
@pytest.mark.parametrize("kernels", KERNELS)
def test_a_batch_with_sampled_targets_equals_the_parts_row_by_row(kernels, shared, selection):
    n_items, sizes = 60, [1, 5, 5, 3] * 10
    batch = id_batch(sizes, n_ids=n_items, n_targets=n_items, seed=4)
    model = table_model(
        n_objects=n_items, n_targets=n_items, dim=8, shared=shared, has_bias=True, sparse=True
    )
    pair = PairMatching(SampledCandidates(n_items, 20))
    assert torch.isin(pair.source.draw(batch.targets, generator()).ids, batch.targets).any()
    objective = GroupObjective(SELECTIONS[selection][0], SigmoidWeighting(Dot(0.5)), recency=0.3)
    ours = TableObjective.of(model, pair, objective, KERNELS[kernels])
    actual = ours.losses(batch, generator(), progress=0.5)
    expected = objective(pair(model, batch, generator()), progress=0.5).per_group
    torch.testing.assert_close(actual, expected.detach())
    upstream, leaves = upstream_of(actual), list(model.parameters())
    found = {id(each.table): each for each in ours.gradients(upstream)}
    for leaf, parts in zip(leaves, gradients((expected * upstream).sum(), leaves), strict=True):
        each, parts = found[id(leaf)], parts.coalesce()
        # A row that only looks as if it were read would be moved by what Adam remembers.
        order = each.rows.argsort()
        assert torch.equal(each.rows[order], parts.indices()[0])
        torch.testing.assert_close(each.gradient[order], parts.values())


def test_a_group_whose_target_is_all_that_was_sampled_has_no_loss_and_no_gradient():
    model = table_model(n_objects=4, n_targets=3, sparse=True)
    batch = id_batch([2], n_ids=4, n_targets=3)
    sure = torch.zeros(3, dtype=torch.float64)
    sure[batch.targets] = 1.0
    pair = PairMatching(SampledCandidates(3, 2, sure))
    ours = TableObjective.of(model, pair, GroupObjective(Max()))
    assert ours.losses(batch, generator()).tolist() == [0.0]
    assert not any(each.gradient.any() for each in ours.gradients(torch.ones(1).double()))


def test_an_excluded_candidate_that_outweighs_all_others_leaves_them_their_digits():
    # In float32 the others are nothing beside the target: they are summed without it.
    model = table_model(n_objects=3, n_targets=3, sparse=True, dim=2).float()
    with torch.no_grad():
        model.object_encoder.weight.copy_(torch.tensor([[10.0, 0.0]] * 3))
        model.target_encoder.weight.copy_(torch.tensor([[20.0, 0.0], [1.0, 0.0], [0.5, 0.0]]))
    batch = id_batch([2], n_ids=3, n_targets=1)
    pair = PairMatching(SampledCandidates(3, 40, corrected=False))
    objective = GroupObjective(Max())
    ours = TableObjective.of(model, pair, objective).losses(batch, generator())
    torch.testing.assert_close(ours, objective(pair(model, batch, generator())).per_group.detach())


def test_narrow_ids_are_taken_as_they_are():
    model = table_model(n_objects=N_IDS, n_targets=N_TARGETS, has_bias=True, sparse=True)
    ours = TableObjective.of(model, PairMatching(SOURCES["sampled"]), GroupObjective())
    batch = id_batch([3, 1, 2], n_ids=N_IDS, n_targets=N_TARGETS)
    narrow = replace(batch, objects=batch.objects.int(), targets=batch.targets.int())
    assert ours.takes(narrow)
    assert torch.equal(ours.losses(narrow, generator()), ours.losses(batch, generator()))


def test_other_models_sources_and_weightings_are_left_to_autograd():
    plain = {"n_objects": N_IDS, "n_targets": N_TARGETS}
    sampled = PairMatching(SOURCES["sampled"])
    for model, pair, objective in [
        (table_model(**plain), sampled, GroupObjective()),
        (table_model(**plain, sparse=True), PairMatching(FullCandidates(5)), GroupObjective()),
        (table_model(**plain, sparse=True), sampled, GroupObjective(lambda scores, mask, p: None)),
        *(
            (table_model(**plain, sparse=True), sampled, GroupObjective(Max(), weighting))
            for weighting in (SigmoidWeighting(NegativeKL()), ContrastiveWeighting())
        ),
    ]:
        assert TableObjective.of(model, pair, objective) is None
    ours = TableObjective.of(table_model(**plain, sparse=True), sampled, GroupObjective())
    wide = id_batch([2, 3000], n_ids=N_IDS, n_targets=N_TARGETS)
    assert not ours.takes(wide)
    assert ours.takes(id_batch([2, 3], n_ids=N_IDS, n_targets=N_TARGETS))


def test_compiled_loops_give_what_they_give_in_python():
    pytest.importorskip("numba", reason="numba is an extra, `fast`")
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(30, 7)).astype(np.float32)
    members = generator.integers(30, size=(12, 4))
    slopes = generator.normal(size=(12, 4, 4)).astype(np.float32)
    rows = generator.permutation(30)[:9]
    numbers = np.array([0.1, 0.999, 0.001, 0.05, 0.03, 1e-8], dtype=np.float32)
    found = {}
    for name, kernels in {
        "numba": compiled.training_kernels(compiled.MIN_STEPS),
        **KERNELS,
    }.items():
        if kernels is None:
            continue
        result, gradient, table = np.empty_like(slopes), np.zeros_like(vectors), vectors.copy()
        first, second, seen = np.zeros_like(table), np.zeros_like(table), np.zeros(30)
        kernels.products(vectors, members, result)
        kernels.add_products(vectors, members, slopes, gradient)
        kernels.move_rows(table, first, second, seen, rows, gradient[:9], 0.25, numbers)
        found[name] = (result, gradient, table, first, second, seen)
    for ours, expected in zip(found["numba"], found["loops"], strict=True):
        assert ours.dtype == expected.dtype
        np.testing.assert_allclose(ours, expected, rtol=2e-5, atol=2e-6)


def test_short_trainings_and_machines_without_a_numba_that_fits_compile_nothing(monkeypatch):
    def does_not_fit(name):
        raise ImportError("Numba needs another NumPy")

    assert compiled.training_kernels(compiled.MIN_STEPS - 1) is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(importlib, "import_module", does_not_fit)
    assert compiled.compile_kernels([compiled.products]) is None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert compiled.compile_kernels([compiled.products]) is None
