"""An encoder that reads histories in order: torch and numpy against plain loops, and its files."""

import numpy as np
import pytest
import torch

import reference
from groupnoise import Groups, MaxMatchingRecommender
from groupnoise.clicks.evidence import recurrence_loops
from groupnoise.clicks.evidence.descent import descend_loss
from groupnoise.clicks.evidence.model import EvidenceModel, sum_evidence
from groupnoise.clicks.evidence.recurrence import Recurrence, weight_shapes
from groupnoise.clicks.evidence.recurrence_loops import RowLoops
from groupnoise.clicks.evidence.recurrence_training import RecurrentEncoder, gated_recurrence
from groupnoise.clicks.evidence.steps import EvidencePlan, StepLoops
from groupnoise.clicks.evidence.training import train_evidence
from groupnoise.clicks.history_scores import evidence_of_clicks
from groupnoise.clicks.mixture import ItemVectors
from groupnoise.clicks.scoring import ScoringRule
from groupnoise.core.compiled import slopes
from groupnoise.exceptions import ParameterError

N_ITEMS, DIM, HIDDEN, LENGTH = 7, 6, 4, 5
HISTORIES = [[0, 3, 3, 5, 1], [4, 1], [2], [6, 0, 5]]
EXACT = EvidencePlan(n_negatives=None, dropout=0.0)


def small_encoder(n_layers: int, *, dropout: float = 0.0) -> RecurrentEncoder:
    generator = torch.Generator().manual_seed(3)
    encoder = RecurrentEncoder(DIM, HIDDEN, n_layers, LENGTH, dropout=dropout, generator=generator)
    with torch.no_grad():
        for values in encoder.parameters():  # so that no part is zero, one or hardly felt
            values += 0.3 * torch.randn(values.shape, generator=generator)
    return encoder


def small_model(n_layers: int = 2) -> EvidenceModel:
    rng = np.random.default_rng(0)
    return EvidenceModel(
        rng.normal(size=(N_ITEMS, DIM)).astype(np.float32),
        rng.normal(size=N_ITEMS).astype(np.float32),
        history_length=LENGTH,
        shared=False,
        encoder=small_encoder(n_layers),
    )


def reading_of(encoder: RecurrentEncoder, vectors):
    names = weight_shapes(DIM, HIDDEN, len(encoder.layers))
    weights = {name: encoder.state_dict()[name].double() for name in names}
    return torch.stack(reference.recurrent_reading(vectors.double(), weights, len(encoder.layers)))


def looped(kept, added):
    state, states = torch.zeros_like(added[0]), []
    for keep, more in zip(kept, added, strict=True):
        state = keep * state + more
        states.append(state)
    return torch.stack(states)


# Below 32 steps a loop; beyond, chunks of 4, 5, 7 and 10 steps with and without a rest.
@pytest.mark.parametrize("size", [1, 2, 6, 31, 32, 35, 55, 60, 101, 200])
def test_a_gated_recurrence_and_its_gradient_are_those_of_a_loop(size):
    generator = torch.Generator().manual_seed(size)
    gates = torch.randn(size, 2, 9, generator=generator, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(2, size, 3, generator=generator, dtype=torch.float64).transpose(0, 1)
    gate, value, shown = gates.chunk(3, -1)
    kept = torch.sigmoid(gate)
    expected = looped(kept, (1 - kept) * value) * torch.nn.functional.silu(shown)
    found = gated_recurrence(gates)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        torch.autograd.grad(found, gates, upstream), torch.autograd.grad(expected, gates, upstream)
    )


def test_memories_that_fade_at_once_or_never_stay_finite():
    gates = torch.full((200, 1, 3), 200.0, requires_grad=True)
    with torch.no_grad():
        gates[::7, :, 0] = -200.0
    shown = gated_recurrence(gates)
    shown.sum().backward()
    assert shown.isfinite().all()
    assert gates.grad.isfinite().all()


@pytest.mark.parametrize("n_layers", [1, 2])
def test_both_forms_read_a_history_as_a_loop_does(n_layers):
    encoder = small_encoder(n_layers).eval()
    vectors = torch.randn(N_ITEMS, DIM, generator=torch.Generator().manual_seed(1))
    scale = torch.linspace(0.5, 2.0, DIM)
    arrays = encoder.as_arrays(scale).moved(2)
    features = np.concatenate([np.ones((N_ITEMS, 2)), (vectors * scale).numpy()], axis=1)
    groups = Groups.from_lists(HISTORIES)
    found = arrays.read(features.astype(np.float32), groups.objects, groups.offsets)
    for row, history in enumerate(HISTORIES):
        expected = reading_of(encoder, vectors[history]).numpy()
        np.testing.assert_allclose(found[row], expected, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            states = encoder.by_step(vectors[history].unsqueeze(1)).transpose(0, 1)
        np.testing.assert_allclose(states[0, -1].numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_values_and_gradients_of_the_loss_are_those_of_a_loop(n_layers, compiled):
    history = HISTORIES[0]
    model = small_model(n_layers).train(compiled)
    loops = None
    if compiled:  # which only trainings with dropout take; so little of it drops nothing
        model.encoder.dropout = 1e-3
        rows = RowLoops(*(getattr(recurrence_loops, name) for name in RowLoops._fields))
        loops = StepLoops(rows, slopes)
    loss = descend_loss(model, torch.tensor([history]), EXACT, torch.Generator(), loops=loops)

    twin = small_model(n_layers).double()
    cuts = np.concatenate([[0], np.cumsum(twin.block_widths)])
    blocks = [
        (range(cuts[n], cuts[n + 1]), twin.log_weights[n].exp(), twin.exponents[n])
        for n in range(twin.n_blocks)
    ]
    weights = dict(twin.encoder.named_parameters())
    expected = reference.ordered_evidence_loss(
        history, twin.objects, twin.targets, twin.bias, blocks, weights, n_layers
    )
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5)
    for (name, fast), (_, slow) in zip(
        model.named_parameters(), twin.named_parameters(), strict=True
    ):
        torch.testing.assert_close(fast.grad.double(), slow.grad, rtol=5e-4, atol=2e-5, msg=name)


def encode_histories(evidence, histories):
    groups = Groups.from_lists(histories)
    rule = evidence.rule()
    return rule.mixture(lambda items: evidence.objects[items], groups.objects, groups.offsets)


def test_the_rule_answers_what_the_model_was_trained_to():
    model = small_model().eval()
    found = encode_histories(model.evidence(), HISTORIES).queries
    for row, history in enumerate(HISTORIES):
        clicks = torch.tensor([history])
        with torch.no_grad():
            features = torch.nn.functional.embedding(clicks.t(), model.objects)
            expected = (model.contexts_by_step(features) + model.encoder.by_step(features))[-1, 0]
        np.testing.assert_allclose(found[row], expected.numpy(), rtol=1e-4, atol=1e-5)


def test_evidence_with_an_encoder_is_scaled_and_joined_as_scores_are():
    first, second = small_model(1).evidence(), small_model(2).evidence()

    def scores(evidence):
        return encode_histories(evidence, HISTORIES).queries @ evidence.targets.T + evidence.bias

    both = sum_evidence([first.scaled(0.5), second.scaled(3.0)])
    np.testing.assert_allclose(
        scores(both), 0.5 * scores(first) + 3.0 * scores(second), rtol=1e-3, atol=1e-3
    )


def test_an_encoder_reads_the_latest_clicks_alone():
    encoder = small_encoder(1).as_arrays(torch.ones(DIM))
    features = np.random.default_rng(0).normal(size=(9, DIM)).astype(np.float32)
    long, short = np.arange(9), np.arange(9 - LENGTH, 9)
    np.testing.assert_allclose(
        encoder.read(features, long, np.array([0, 9])),
        encoder.read(features, short, np.array([0, LENGTH])),
        rtol=1e-6,
    )


def test_a_click_says_what_the_reading_loses_without_it():
    encoder = small_encoder(2).as_arrays(torch.ones(DIM))
    features = np.random.default_rng(0).normal(size=(7, DIM)).astype(np.float32)
    histories = [[3], [6, 5, 4, 3, 2, 1, 0], [1, 2, 1], [2, 2, 0]]
    groups = Groups.from_lists(histories)
    lost = encoder.click_effects(features, groups.objects, groups.offsets)

    def reading(history):
        return encoder.read(features, np.array(history), np.array([0, len(history)]))[0]

    for history, found in zip(histories, np.split(lost, groups.offsets[1:-1]), strict=True):
        too_old = max(0, len(history) - LENGTH)
        assert not found[:too_old].any()
        read = history[too_old:]
        for place in range(len(read)):
            rest = read[:place] + read[place + 1 :]
            expected = reading(read) - (reading(rest) if rest else 0.0)
            np.testing.assert_allclose(found[too_old + place], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scope", ["group", "last"])
def test_many_histories_are_explained_as_each_alone(scope):
    evidence = sum_evidence([small_model(1).evidence(), small_model(2).evidence()])
    rule = evidence.rule().with_scope(scope)
    vectors = ItemVectors(evidence.objects, evidence.targets, evidence.bias)
    groups = Groups.from_lists([*HISTORIES, [0, 1, 2, 3, 4, 5, 6]], targets=[6, 5, 4, 3, 0])
    found = evidence_of_clicks(rule, vectors, groups)
    for row, (history, target) in enumerate(zip(groups, groups.targets, strict=True)):
        counted = history[-rule.n_clicks :]
        alone = rule.click_evidence(evidence.objects[counted]) @ evidence.targets[target]
        own = found.scores[groups.offsets[row] : groups.offsets[row + 1]]
        assert not own[: len(history) - len(counted)].any()
        np.testing.assert_allclose(own[-len(counted) :], alone, rtol=1e-4, atol=1e-4)


def test_a_rule_with_an_encoder_comes_back_from_its_record_and_array():
    rule = sum_evidence([small_model(1).evidence(), small_model(2).evidence()]).rule()
    again = ScoringRule.from_record(rule.as_record(), rule.arrays())
    assert again == rule
    assert again != small_model(1).evidence().rule()
    assert small_model(1).evidence().rule().encoders != ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_layers": 3}, "weights"),
        ({"hidden": 0}, "hidden"),
        ({"hidden": True}, "whole numbers"),
        ({"width": 10**9}, "whole numbers"),
        ({"n_layers": 65}, "at most 64 layers"),
        ({"begin": 1}, "more dimensions"),
        ({"colour": 1}, "described by"),
    ],
)
def test_an_encoder_of_a_file_that_does_not_fit_is_refused(change, message):
    rule = small_model(1).evidence().rule()
    record = rule.as_record()
    record["encoders"][0].update(change)
    with pytest.raises(ParameterError, match=message):
        ScoringRule.from_record(record, rule.arrays())


def test_weights_that_are_missing_left_over_or_no_numbers_are_refused():
    rule = small_model(1).evidence().rule()
    weights = rule.arrays()["encoder_weights"]
    for wrong, message in [
        (None, "needs .* weights"),
        (np.append(weights, np.float32(0)), "there are"),
        (weights.astype(np.float64), "single precision"),
        (weights * np.float32(np.nan), "finite"),
    ]:
        with pytest.raises(ParameterError, match=message):
            ScoringRule.from_record(rule.as_record(), {"encoder_weights": wrong})
    with pytest.raises(ParameterError, match="a list"):
        ScoringRule.from_record({**rule.as_record(), "encoders": 3}, rule.arrays())
    with pytest.raises(ParameterError, match="belong to normalization"):
        ScoringRule(encoders=rule.encoders)
    with pytest.raises(ParameterError, match="0 or later"):
        Recurrence(-1, DIM, HIDDEN, 1, LENGTH, rule.encoders[0].weights)


def test_training_with_an_encoder_repeats_itself():
    def trained():
        model = small_model(1)
        model.encoder.dropout = 0.3
        model.encoder.generator.manual_seed(5)
        histories = Groups.from_lists(HISTORIES * 3)
        train_evidence(model, histories, EvidencePlan(max_epochs=2), np.random.default_rng(0))
        return model.evidence()

    first, second = trained(), trained()
    np.testing.assert_array_equal(first.objects, second.objects)
    assert first.encoders == second.encoders


@pytest.mark.slow
def test_order_alone_tells_what_comes_next():
    # What follows depends on which of two clicks came first; their sum does not say.
    rng = np.random.default_rng(0)
    log = []
    for _ in range(300):
        pair = ["salt", "wood"] if rng.random() < 0.5 else ["wood", "salt"]
        rest = [f"x{n}" for n in rng.integers(5, size=3)]
        log.append([*pair, *rest, "soup" if pair[0] == "salt" else "fire"])
    plain = {"dim": 16, "shared": False, "linear": None, "window_size": 8, "max_epochs": 30,
             "batch_size": 128, "weight_decay": 0.0, "init": "random", "candidates": "full",
             "n_negatives": 10, "learning_rate": 0.01, "random_state": 0}  # fmt: skip
    model = MaxMatchingRecommender(encoder="recurrence", **plain).fit(log)
    asked = [["salt", "wood", "x1", "x2", "x3"], ["wood", "salt", "x1", "x2", "x3"]]
    ids, _ = model.recommend(asked, top=1)
    assert ids.tolist() == [["soup"], ["fire"]]
