"""Evidence added over a history: the fast paths against plain loops, and training."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import reference
from groupnoise import Groups
from groupnoise.clicks.evidence import recurrence_loops
from groupnoise.clicks.evidence.descent import descend_loss
from groupnoise.clicks.evidence.linear import fit_ease, fit_following, rescale_linear
from groupnoise.clicks.evidence.model import EvidenceModel, sum_evidence
from groupnoise.clicks.evidence.recurrence_loops import RowLoops
from groupnoise.clicks.evidence.recurrence_training import RecurrentEncoder
from groupnoise.clicks.evidence.steps import (
    MIN_READS,
    EvidencePlan,
    SharedTensors,
    StepLoops,
    draw_dropout,
    prepare_batches,
    step_loops,
)
from groupnoise.clicks.evidence.training import _batches, train_evidence, training_sequences
from groupnoise.clicks.history_scores import ItemVectors, evidence_of_clicks
from groupnoise.clicks.scoring import ScoringRule
from groupnoise.core.compiled import slopes
from groupnoise.core.threads import thread_pool
from groupnoise.exceptions import DataError, ParameterError, TrainingError

N_ITEMS, DIM, LENGTH = 7, 6, 4
HISTORIES = [[0, 3, 3, 5, 1, 6, 2], [4, 1], [2], [6, 0, 5]]
EXACT = EvidencePlan(n_negatives=None, dropout=0.0)

PLAIN = StepLoops(RowLoops(*(getattr(recurrence_loops, name) for name in RowLoops._fields)), slopes)
"""Loops that are not compiled."""


def batch_loss(model, clicks, plan, noise):
    """The mean loss of all next clicks of some sequences, with its gradient."""
    (batch,) = prepare_batches(model, [clicks], plan, noise, torch.nn.functional.embedding)
    return batch.loss(
        model, SharedTensors.of(model, len(batch.features)), draw_dropout(model, batch)
    )


def small_model(*, shared: bool = False) -> EvidenceModel:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(N_ITEMS, DIM)).astype(np.float32)
    model = EvidenceModel(
        vectors, rng.normal(size=N_ITEMS).astype(np.float32), history_length=LENGTH, shared=shared
    )
    with torch.no_grad():
        if not shared:
            model.targets += 0.3 * torch.from_numpy(vectors[::-1].copy())
        model.log_weights += 0.2 * torch.arange(LENGTH) - 0.1
        model.exponent_logits += torch.tensor([-1.0, 0.0, 0.5, 1.0])
    return model


def blocks_of(model: EvidenceModel):
    cuts = np.concatenate([[0], np.cumsum(model.block_widths)])
    weights, exponents = model.log_weights.double().exp(), model.exponents.double()
    return [
        (range(cuts[block], cuts[block + 1]), weights[block], exponents[block])
        for block in range(model.n_blocks)
    ]


@pytest.mark.parametrize("history", HISTORIES)
def test_the_rule_adds_evidence_as_a_loop_does(history):
    model = small_model()
    evidence = model.evidence()
    rule = evidence.rule()
    clicks, offsets = np.array(history), np.array([0, len(history)])
    mixture = rule.mixture(lambda items: evidence.objects[items], clicks, offsets)
    found = mixture.queries @ evidence.targets.T + evidence.bias
    tables = (model.objects.tolist(), model.targets.tolist(), model.bias.tolist())
    expected = reference.add_linear(history, *tables, blocks_of(model))
    np.testing.assert_allclose(found[0], torch.stack(expected).detach().numpy(), rtol=2e-5)


@pytest.mark.parametrize("history", HISTORIES)
def test_the_parts_of_the_clicks_make_the_query(history):
    evidence = small_model().evidence()
    rule = evidence.rule()
    clicks, offsets = np.array(history), np.array([0, len(history)])
    whole = rule.mixture(lambda items: evidence.objects[items], clicks, offsets).queries[0]
    parts = rule.click_evidence(evidence.objects[history[-LENGTH:]])
    np.testing.assert_allclose(parts.sum(axis=0), whole, rtol=1e-5, atol=1e-6)


def test_a_click_alone_is_its_own_query():
    evidence = small_model().evidence()
    mixture = evidence.rule().mixture(
        lambda items: evidence.objects[items], np.array([5]), np.array([0, 1])
    )
    np.testing.assert_allclose(mixture.queries[0], evidence.objects[5], rtol=1e-6)


@pytest.mark.parametrize("levelling", [0.0, 0.5])
@pytest.mark.parametrize("path", ["kept", "chunked", "loops"])
@pytest.mark.parametrize("shared", [False, True])
def test_values_and_gradients_of_the_loss_are_those_of_a_loop(shared, path, levelling, monkeypatch):
    history = HISTORIES[0]
    model = small_model(shared=shared).eval()
    if path == "chunked":
        monkeypatch.setattr("groupnoise.core.chunked_softmax.KEPT_ELEMENTS", 0)
    plan = replace(EXACT, levelling=levelling)
    loss = descend_loss(
        model, torch.tensor([history]), plan, torch.Generator(),
        loops=PLAIN if path == "loops" else None,
    )  # fmt: skip

    twin = small_model(shared=shared).double()
    tables = (twin.objects, twin.targets, twin.bias, blocks_of(twin))
    expected = reference.added_evidence_loss(history, *tables, levelling)
    expected.backward()
    is_levelled = expected < reference.added_evidence_loss(history, *tables) - 0.1
    assert bool(is_levelled) == bool(levelling)
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for (name, fast), (_, slow) in zip(
        model.named_parameters(), twin.named_parameters(), strict=True
    ):
        torch.testing.assert_close(fast.grad.double(), slow.grad, rtol=2e-4, atol=1e-5, msg=name)


def test_padding_changes_no_loss():
    model = small_model().eval()
    together_ = torch.tensor([[4, 1, N_ITEMS], [6, 0, 5]])
    apart = [batch_loss(model, torch.tensor([row]), EXACT, torch.Generator()) for row in
             ([4, 1], [6, 0, 5])]  # fmt: skip
    mean = (apart[0] + 2 * apart[1]) / 3
    found = batch_loss(model, together_, EXACT, torch.Generator())
    torch.testing.assert_close(found, mean)


@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize("n_negatives", [None, 64])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["torch", "loops", pytest.param("numba", marks=pytest.mark.slow)])
def test_threads_and_compiled_loops_find_the_same_gradient(encoder, n_negatives, shared, kind):
    if kind == "numba":
        pytest.importorskip("numba", reason="numba is an extra, `fast`")
    rng = np.random.default_rng(0)
    n_items = 120
    vectors = rng.normal(size=(n_items, 8)).astype(np.float32)
    sizes = [2, 3, 3, 5, 9, 9, 20]
    clicks = np.full((len(sizes), max(sizes)), n_items)
    for row, size in enumerate(sizes):
        clicks[row, :size] = rng.integers(n_items, size=size)
    plan = EvidencePlan(n_negatives=n_negatives, levelling=0.5)

    def gradient(n_parts, n_sets, loops=None, *, training=True):
        reader = None
        if encoder:
            draws = torch.Generator().manual_seed(1)
            reader = RecurrentEncoder(8, 16, 2, 20, dropout=0.4, generator=draws)
            torch.nn.init.normal_(reader.answer.weight, generator=draws)
        model = EvidenceModel(
            vectors, vectors[:, 0], history_length=20, shared=shared, encoder=reader
        ).train(training)
        noise = torch.Generator().manual_seed(2)
        before = torch.get_num_threads()
        with thread_pool(n_parts) as pool:
            queries = torch.from_numpy(clicks)
            loss = descend_loss(
                model,
                queries,
                plan,
                noise,
                pool=pool,
                n_parts=n_parts,
                n_sets=n_sets,
                loops=loops,
            )
        assert torch.get_num_threads() == before
        return loss, {name: each.grad for name, each in model.named_parameters()}

    def assert_same(found, expected):
        assert found[0] == pytest.approx(expected[0], rel=1e-5)
        assert set(found[1]) == set(expected[1])
        for name, slope in expected[1].items():
            # Sums of numbers as large as the largest are rounded, also those that are near zero.
            nearly = 1e-6 * max(1.0, float(slope.abs().max()))
            torch.testing.assert_close(found[1][name], slope, rtol=1e-4, atol=nearly, msg=name)

    loops = step_loops(MIN_READS) if kind == "numba" else PLAIN if kind == "loops" else None
    for n_sets in (1, 2):
        whole = gradient(1, n_sets)
        for n_parts in (1, 2, 3):
            assert_same(gradient(n_parts, n_sets, loops), whole)
    if n_negatives is None:  # sets differ in what is drawn alone
        assert_same(gradient(2, 2, loops, training=False), gradient(1, 1, training=False))


def test_drawn_items_stand_for_the_catalogue_on_average():
    rng = np.random.default_rng(1)
    vectors = rng.normal(scale=0.3, size=(400, DIM)).astype(np.float32)
    model = EvidenceModel(
        vectors, np.zeros(400, dtype=np.float32), history_length=4, shared=True
    ).eval()
    clicks = torch.from_numpy(rng.integers(400, size=(4, 5)))
    exact = batch_loss(model, clicks, EXACT, torch.Generator()).item()
    noise = torch.Generator().manual_seed(0)
    plan = EvidencePlan(n_negatives=60, dropout=0.0)
    drawn = [batch_loss(model, clicks, plan, noise).item() for _ in range(60)]
    assert np.mean(drawn) == pytest.approx(exact, abs=0.02)


def test_every_click_but_the_first_is_one_target():
    histories = Groups.from_lists([list(range(11)), [3, 4], [9]])
    parts = [part.tolist() for part in training_sequences(histories, 4)]
    assert parts == [[0, 1, 2], [2, 3, 4, 5, 6], [6, 7, 8, 9, 10], [3, 4]]


def test_histories_of_one_click_teach_nothing():
    with pytest.raises(DataError, match="no history has two clicks"):
        training_sequences(Groups.from_lists([[1], [2]]), 4)


def test_training_lowers_the_loss_and_strong_decay_keeps_the_initial_vectors():
    histories = Groups.from_lists([[0, 1, 2, 3], [3, 4, 5], [0, 1, 2], [4, 5, 6]] * 10)
    model, held = small_model(), small_model()
    records = train_evidence(
        model, histories, EvidencePlan(max_epochs=4, batch_size=16), np.random.default_rng(0)
    )
    assert records[-1]["loss"] < records[0]["loss"]
    plan = EvidencePlan(max_epochs=4, batch_size=16, weight_decay=1e6)
    train_evidence(held, histories, plan, np.random.default_rng(0))
    torch.testing.assert_close(held.objects, small_model().objects)
    assert not torch.allclose(model.objects, small_model().objects)


@pytest.mark.parametrize("shared", [False, True])
def test_rows_of_a_large_catalogue_are_trained_as_dense_steps_train_them(shared, monkeypatch):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(700, DIM)).astype(np.float32)
    histories = Groups.from_lists([rng.integers(700, size=5).tolist() for _ in range(30)])
    plan = EvidencePlan(max_epochs=2, batch_size=8, n_negatives=64, learning_rate=0.01)
    assert plan.uses_deferred_adam(700)
    assert not plan.uses_deferred_adam(600)

    def trained():
        bias = np.zeros(700, dtype=np.float32)
        model = EvidenceModel(vectors, bias, history_length=LENGTH, shared=shared)
        train_evidence(model, histories, plan, np.random.default_rng(0))
        return model.state_dict()

    deferred = trained()
    monkeypatch.setattr("groupnoise.clicks.evidence.steps.MIN_DEFERRED", 100)
    for name, values in trained().items():
        # Where a gradient is nothing but rounding, Adam makes a step of it.
        assert (deferred[name] - values).abs().mean() < 1e-4 * values.abs().mean(), name


def test_weights_of_linear_evidence_follow_the_spread_of_what_was_learned():
    learned = small_model().evidence()
    histories = Groups.from_lists(HISTORIES)
    regressions = {"together": fit_ease(histories, N_ITEMS, np.random.default_rng(0))}
    chosen = {"together": (0.5, 30.0, 0.0, 4), "following": (0.0, 30.0, 0.0, 4)}
    once = rescale_linear(learned, regressions, chosen, histories, 5, 0)
    twice = rescale_linear(learned.scaled(2.0), regressions, chosen, histories, 5, 0)
    assert list(once) == ["together"]
    assert twice["together"][0] == pytest.approx(2 * once["together"][0], rel=1e-5)


def test_an_exploding_training_is_told():
    histories = Groups.from_lists([[0, 1, 2, 3]] * 4)
    plan = EvidencePlan(learning_rate=1e30, max_epochs=3)
    with pytest.raises(TrainingError, match="lower learning_rate"):
        train_evidence(small_model(), histories, plan, np.random.default_rng(0))


def test_joined_evidence_adds_the_scores_of_its_parts():
    first, second = small_model().evidence(), small_model(shared=True).evidence().scaled(0.5)
    both = sum_evidence([first, second])
    clicks, offsets = np.array(HISTORIES[0]), np.array([0, 7])

    def scores(evidence):
        mixture = evidence.rule().mixture(lambda i: evidence.objects[i], clicks, offsets)
        return mixture.queries @ evidence.targets.T + evidence.bias

    np.testing.assert_allclose(scores(both), scores(first) + scores(second), rtol=1e-5)


def test_responsibilities_are_the_positive_parts_of_the_evidence():
    evidence = small_model().evidence()
    vectors = ItemVectors(evidence.objects, evidence.targets, evidence.bias)
    groups = Groups.from_lists(HISTORIES, targets=[4, 0, 1, 2])
    found = evidence_of_clicks(evidence.rule(), vectors, groups)
    for row, history in enumerate(HISTORIES):
        part = slice(groups.offsets[row], groups.offsets[row + 1])
        assert found.responsibility[part].sum() == pytest.approx(1.0, abs=1e-5)
        assert not found.responsibility[part][: max(0, len(history) - LENGTH)].any()
        assert found.chosen[row] == len(history) - len(found.scores[part][-LENGTH:]) + int(
            found.scores[part][-LENGTH:].argmax()
        )


def test_ease_of_full_rank_is_the_closed_form():
    rng = np.random.default_rng(0)
    histories = [rng.permutation(9)[: rng.integers(2, 6)].tolist() for _ in range(40)]
    table = np.zeros((40, 9))
    for row, history in enumerate(histories):
        table[row, history] = 1.0
    inverse = np.linalg.inv(table.T @ table + 3.0 * np.eye(9))
    closed = -inverse / np.diag(inverse)
    found = fit_ease(Groups.from_lists(histories), 9, rng, rank=9).evidence(3.0, 0.0, 5)
    off = ~np.eye(9, dtype=bool)
    np.testing.assert_allclose((found.objects @ found.targets.T)[off], closed[off], atol=1e-5)


def test_the_regression_of_next_clicks_of_full_rank_is_ridge_regression():
    rng = np.random.default_rng(0)
    histories = [rng.integers(8, size=rng.integers(2, 7)).tolist() for _ in range(40)]
    inputs, outcomes = [], []
    for history in histories:
        for end in range(1, len(history)):
            row = np.zeros(8)
            for lag in range(1, end + 1):
                row[history[end - lag]] += np.exp(-0.3 * (lag - 1))
            inputs.append(row)
            outcomes.append(np.eye(8)[history[end]])
    x, y = np.array(inputs), np.array(outcomes)
    ridge = np.linalg.solve(x.T @ x + 2.0 * np.eye(8), x.T @ y)
    found = fit_following(Groups.from_lists(histories), 8, rng, rank=8).evidence(2.0, 0.3, 5)
    np.testing.assert_allclose(found.objects @ found.targets.T, ridge, atol=1e-5)


def test_a_lower_rank_keeps_the_leading_eigenvectors():
    rng = np.random.default_rng(4)
    histories = Groups.from_lists([rng.permutation(12)[:5].tolist() for _ in range(40)])
    for regression in (fit_ease, fit_following):
        wide = regression(histories, 12, np.random.default_rng(0), rank=12)
        narrow = regression(histories, 12, np.random.default_rng(0), rank=12).evidence(
            3.0, 0.0, 5, 4
        )
        np.testing.assert_array_equal(narrow.targets.shape, (12, 4))
        assert wide.evidence(3.0, 0.0, 5).objects.shape == (12, 12)
        kept = wide.vectors[:, :4]
        scale = np.sqrt(wide.values / (wide.values + 3.0))[:4]
        expected = kept * scale if wide.outcomes is None else kept / (wide.values[:4] + 3.0)
        np.testing.assert_allclose(narrow.objects, expected, rtol=1e-5)


def test_a_rule_of_evidence_survives_a_record_and_refuses_what_does_not_fit():
    rule = small_model().evidence().rule()
    assert ScoringRule.from_record(rule.as_record()) == rule
    for change, sentence in [
        ({"exponents": [0.5]}, "every block needs"),
        ({"block_widths": [0, 1, 2, 3]}, "block_widths must be counts"),
        ({"position_weights": [[1.0]] * 4}, "a weight for each click"),
        ({"position_weights": 3}, "must be a list"),
        ({"exponents": [-1.0] * 4}, "numbers from 0 on"),
        ({"normalization": "both"}, "normalization must be one of"),
    ]:
        with pytest.raises(ParameterError, match=sentence):
            ScoringRule.from_record({**rule.as_record(), **change})
    with pytest.raises(ParameterError, match="blocks of 6 dimensions, the vectors 5"):
        rule.mixture(lambda items: np.zeros((len(items), 5)), np.array([1]), np.array([0, 1]))


def test_sequences_that_stay_in_pairs_make_batches_of_the_asked_size():
    sizes = np.random.default_rng(0).integers(1, 200, size=2001)
    batches = list(_batches(sizes, 1024, np.random.default_rng(1), unit=2))
    assert sorted(np.concatenate(batches).tolist()) == list(range(2001))
    assert sum(len(rows) % 2 for rows in batches) == 1  # the one that has the last, odd row
    targets = [sizes[rows].sum() for rows in batches]
    assert max(targets) < 1024 + 2 * 200
    assert len(batches) == pytest.approx(sizes.sum() / 1024, abs=1)
