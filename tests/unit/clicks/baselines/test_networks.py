"""What each network computes against a plain loop, and that padding and the future stay out."""

import math

import numpy as np
import pytest
import torch

from groupnoise import Groups
from groupnoise.clicks.baselines import (
    AttRecRecommender,
    CaserRecommender,
    LRURecRecommender,
    NeuralCFRecommender,
    SASRecRecommender,
    neural_cf as _neural_cf,
)
from groupnoise.clicks.baselines.neural_cf import NeuralCFNetwork
from groupnoise.clicks.baselines.sasrec import SASRecNetwork
from groupnoise.clicks.baselines.short_windows import AttRecNetwork, CaserNetwork, sinusoidal_signal
from groupnoise.exceptions import ParameterError

PAD = 7
CLICKS = [[0, 3, 6], [PAD, 2, 5], [PAD, PAD, 4]]


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def caser():
    options = {"n_horizontal": 3, "n_vertical": 2, "dropout": 0.5}
    return CaserNetwork(7, 4, 3, **options).double().eval()


def sasrec():
    return SASRecNetwork(7, 4, 6, n_blocks=2, n_heads=2, dropout=0.5).double().eval()


def caser_loop(network, clicks):
    image = network.clicked.weight[clicks]  # (size, dim)
    size, dim = image.shape
    features = []
    for height, layer in enumerate(network.horizontal, start=1):
        for weight, bias in zip(layer.weight, layer.bias, strict=True):  # weight (dim, height)
            answers = [
                torch.relu((image[top : top + height].T * weight).sum() + bias)
                for top in range(size - height + 1)
            ]
            features.append(max(answers))
    for column in range(dim):
        for weight, bias in zip(network.vertical.weight, network.vertical.bias, strict=True):
            features.append((weight * image[:, column]).sum() + bias)
    return torch.relu(network.dense.weight @ torch.stack(features) + network.dense.bias)


def test_caser_agrees_with_a_plain_loop_over_its_filters():
    network = caser()
    expected = torch.stack([caser_loop(network, clicks) for clicks in CLICKS])
    torch.testing.assert_close(network.encode(torch.tensor(CLICKS)), expected)


def test_caser_logits_are_inner_products_with_the_answer_table():
    network = caser()
    torch.nn.init.normal_(network.bias)
    clicks, items = torch.tensor(CLICKS), torch.tensor([[0, 1], [2, 3], [6, 6]])
    vectors, biases = network.item_table()
    expected = torch.stack(
        [vectors[row] @ z + biases[row] for z, row in zip(network.encode(clicks), items)]  # noqa: B905
    )
    torch.testing.assert_close(network.logits(clicks, items), expected)


@torch.no_grad()
def attrec_loop(network, clicks):
    real = [place for place, item in enumerate(clicks) if item != PAD]
    vectors = network.items.weight
    if len(real) == 1:
        return vectors[clicks[real[0]]]
    signal = network.time_signal
    query = {p: torch.relu(network.project(vectors[clicks[p]] + signal[p])) for p in real}
    rows = []
    for p in real:
        weights = [math.exp(query[p] @ query[q] / math.sqrt(vectors.shape[1])) for q in real]
        total = sum(weights)
        others = [(w / total) * vectors[clicks[q]] for w, q in zip(weights, real) if q != p]  # noqa: B905
        rows.append(sum(others))
    return sum(rows) / len(rows)


def test_attrec_agrees_with_a_plain_loop_over_companions():
    network = AttRecNetwork(7, 4, 3).double().eval()
    expected = torch.stack([attrec_loop(network, clicks) for clicks in CLICKS])
    torch.testing.assert_close(network.interest(torch.tensor(CLICKS)).detach(), expected)


def test_attrec_inner_products_rank_as_distances_do():
    network = AttRecNetwork(7, 4, 3).double().eval()
    clicks = torch.tensor(CLICKS)
    everything = torch.arange(7).expand(3, 7)
    vectors, biases = network.item_table()
    scores = network.encode(clicks) @ vectors.T + biases
    shared = network.interest(clicks).square().sum(1, keepdim=True)
    torch.testing.assert_close(shared - scores, network.squared_distances(clicks, everything))


def test_attrec_keeps_embeddings_inside_the_unit_ball_and_padding_at_zero():
    network = AttRecNetwork(7, 4, 3)
    with torch.no_grad():
        network.items.weight.fill_(3.0)
    network.enter_unit_ball()
    norms = network.items.weight.norm(dim=1)
    torch.testing.assert_close(norms[:7], torch.ones(7))
    assert norms[7] == 0


@pytest.mark.parametrize("dim", [1, 4, 5])
def test_the_time_signal_fills_any_width_and_starts_at_sine_zero(dim):
    signal = sinusoidal_signal(3, dim)
    assert signal.shape == (3, dim)
    assert signal[0, 0] == 0
    assert signal[1, 0] == pytest.approx(math.sin(1))


def neural_cf_loop(network, clicked, item):
    product = network.clicked_factors.weight[clicked] * network.item_factors.weight[item]
    hidden = torch.cat(
        [network.clicked_features.weight[clicked], network.item_features.weight[item]]
    )
    for layer in network.perceptron[::2]:
        hidden = torch.relu(layer.weight @ hidden + layer.bias)
    return (network.logit.weight @ torch.cat([product, hidden]) + network.logit.bias).squeeze()


def test_neural_cf_agrees_with_a_plain_loop_over_pairs():
    network = NeuralCFNetwork(7, 2).double()
    clicked, items = torch.tensor([[1], [6]]), torch.tensor([[0, 1, 2], [3, 4, 5]])
    got = network(clicked, items)
    for row in range(2):
        for column in range(3):
            expected = neural_cf_loop(network, clicked[row, 0], items[row, column])
            torch.testing.assert_close(got[row, column], expected)


@pytest.mark.parametrize("scope", ["last", "group"])
def test_neural_cf_averages_pairs_over_the_clicks_in_scope(scope):
    log = [[0, 1, 2, 3], [4, 5], [6, 0, 2]]
    model = NeuralCFRecommender(dim=2, window_size=2, scope=scope, max_epochs=1, random_state=0)
    model.fit(log)
    histories = Groups.from_lists([[0, 1, 2], [5]])
    used = {"last": [[2], [5]], "group": [[1, 2], [5]]}[scope]
    expected = [
        [
            np.mean([neural_cf_loop(model.network_, c, item).item() for c in clicks])
            for item in range(7)
        ]
        for clicks in used
    ]
    np.testing.assert_allclose(model.scores(histories), expected, rtol=1e-5, atol=1e-6)
    some = np.array([[6, 0], [3, 3]])
    np.testing.assert_allclose(
        model.scores(histories, some),
        np.take_along_axis(np.array(expected), some, axis=1),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("recommender", [NeuralCFRecommender, SASRecRecommender])
def test_the_more_candidates_the_fewer_histories_are_scored_at_once(recommender):
    model = recommender(max_epochs=1, random_state=0).fit([[0, 1, 2], [2, 1, 0]])
    n_inputs = 5 * 8 * 8 if recommender is NeuralCFRecommender else model.dim
    for n_candidates in (101, 10_000):
        entries = model._rows_at_once(n_candidates) * n_candidates * n_inputs
        assert entries <= 1 << 24
    assert model._rows_at_once(10**9) == 1


def test_neural_cf_scores_block_by_block_as_at_once(monkeypatch):
    model = NeuralCFRecommender(dim=2, max_epochs=1, random_state=0).fit([[0, 1, 2], [2, 1, 0]])
    histories = Groups.from_lists([[0, 1], [2], [1], [2, 0, 1]])
    candidates = np.array([[0, 1], [1, 2], [2, 0], [0, 0]])
    at_once = model.scores(histories, candidates)
    monkeypatch.setattr(_neural_cf, "_INPUTS_AT_ONCE", 1)
    assert model._rows_at_once(2) == 1
    np.testing.assert_allclose(model.scores(histories, candidates), at_once, rtol=1e-5)


def layer_norm(layer, row):
    centred = row - row.mean()
    return layer.weight * centred / torch.sqrt((centred**2).mean() + layer.eps) + layer.bias


def sasrec_loop(network, clicks):
    size, dim = len(clicks), network.items.embedding_dim
    states = [
        layer_norm(network.input_norm, network.items.weight[item] + network.places.weight[place])
        for place, item in enumerate(clicks)
    ]
    for block in network.blocks:
        mixed = [block.query_key_value(layer_norm(block.attention_norm, row)) for row in states]
        width = dim // block.n_heads
        after = []
        for here in range(size):
            heads = []
            for head in range(block.n_heads):
                query, key, value = (
                    [row[part * dim :][head * width : (head + 1) * width] for row in mixed]
                    for part in range(3)
                )
                weights = [
                    torch.exp(query[here] @ key[past] / math.sqrt(width))
                    for past in range(here + 1)
                ]
                total = sum(weights)
                heads.append(sum(w / total * value[past] for past, w in enumerate(weights)))
            row = states[here] + block.attention_out(torch.cat(heads))
            norm, first, _, _, second, _ = block.perceptron
            after.append(row + second(torch.relu(first(layer_norm(norm, row)))))
        states = after
    return torch.stack([layer_norm(network.norm, row) for row in states])


def test_sasrec_agrees_with_a_plain_loop_over_positions():
    network = sasrec()
    clicks = [2, 0, 6, 6]
    expected = sasrec_loop(network, clicks)
    torch.testing.assert_close(network.states(torch.tensor([clicks]))[0], expected)


def test_sasrec_never_looks_ahead_so_padding_after_the_clicks_changes_nothing():
    network = sasrec()
    alone = network.encode(torch.tensor([[3, 1]]))
    padded = network.encode(torch.tensor([[3, 1, PAD, PAD]]))
    torch.testing.assert_close(alone, padded)
    longer = network.states(torch.tensor([[3, 1, 5, 0]]))
    torch.testing.assert_close(longer[:, 1], alone)


def test_sasrec_trains_every_position_of_histories_but_only_the_target_of_windows():
    model = SASRecRecommender(dim=4, n_negatives=64, max_epochs=1, dropout=0.0, random_state=0)
    model.fit([[0, 1, 2], [3, 4, 5, 6]])
    clicks = torch.tensor([[0, 1, 2, PAD], [3, 4, 5, 6]])

    def losses(only_target):
        with torch.no_grad():
            return model._batch_loss(clicks, only_target, torch.Generator().manual_seed(0))

    def loss_at(row, place):
        states = model.network_.states(clicks[:, :-1])
        drawn = torch.randint(7, (64,), generator=torch.Generator().manual_seed(0))
        logits = model.network_.items.weight[:7] @ states[row, place]
        target = clicks[row, place + 1]
        others = [logits[item] + math.log(7 / 64) for item in drawn if item != target]
        return torch.logsumexp(torch.stack([logits[target], *others]), 0) - logits[target]

    every = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    expected = torch.stack([loss_at(*place) for place in every]).mean()
    torch.testing.assert_close(losses(False), expected)
    last = torch.stack([loss_at(0, 1), loss_at(1, 2)]).mean()
    torch.testing.assert_close(losses(True), last)


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ParameterError, match="must divide dim"):
        SASRecRecommender(dim=5, n_heads=2).fit([[0, 1]])


@pytest.mark.parametrize("recommender", [CaserRecommender, AttRecRecommender, NeuralCFRecommender])
def test_targets_beyond_the_end_of_a_history_cost_nothing(recommender):
    sizes = {"dim": 4, "window_size": 3, "n_targets": 2, "n_negatives": 50}
    model = recommender(**sizes, max_epochs=1, random_state=0).fit([[0, 1, 2, 3], [4, 5, 6]])
    clicks = torch.tensor([[PAD, 0, 1], [0, 1, 2]])
    loss = model._batch_loss(clicks, torch.tensor([[2, 3], [3, PAD]]), torch.Generator())
    row_of_loss = loss.view(-1, 2)
    # NeuralCF pairs every click with the targets: two clicks in the first window, three after.
    n_padded = {2: 1, 5: 3}[len(row_of_loss)]
    assert (row_of_loss[-n_padded:, 1] == 0).all()
    assert (row_of_loss[:, 0] > 0).all()


def test_sasrec_with_the_exact_cross_entropy_is_what_all_items_as_negatives_give():
    import torch.nn.functional as F

    from groupnoise.clicks.baselines import SASRecRecommender

    model = SASRecRecommender(dim=8, n_negatives=None, max_epochs=1, dropout=0.0, random_state=0)
    model.fit([["a", "b", "c", "d"], ["c", "a", "d"]])
    clicks = torch.tensor([[0, 1, 2, 3], [2, 0, 3, 4]])
    loss = model._batch_loss(clicks, False, torch.Generator())
    states = model.network_.states(clicks[:, :-1])
    logits = states @ model.network_.items.weight[:4].T
    expected = F.cross_entropy(logits.flatten(0, 1)[:5], clicks[:, 1:].flatten()[:5])
    torch.testing.assert_close(loss, expected)


def test_sasrec_left_alone_stops_where_held_out_clicks_say(monkeypatch):
    from groupnoise.clicks.baselines import SASRecRecommender, sasrec

    rng = np.random.default_rng(0)
    log = [[int(start + step) % 12 for step in range(5)] for start in rng.integers(12, size=60)]
    settings = {"dim": 8, "max_epochs": 3, "random_state": 0}
    to_the_end = SASRecRecommender(**settings).fit(log)
    assert len(to_the_end.history_) == 3
    monkeypatch.setattr(sasrec, "MIN_HELD_OUT", 50)
    stopped = SASRecRecommender(**settings, learning_rate=1e-9, patience=1).fit(log)
    assert len(stopped.history_) < 3
    assert all("validation" not in record for record in stopped.history_)


@pytest.mark.parametrize("recommender", [SASRecRecommender, LRURecRecommender])
def test_dropout_follows_the_clicks_per_item_where_it_is_not_given(recommender):
    settings = {"dim": 4, "max_epochs": 1, "early_stopping": False, "random_state": 0}
    for n_histories, given, share in ((3, "auto", 0.5), (60, "auto", 0.2), (3, 0.1, 0.1)):
        model = recommender(**settings, dropout=given).fit([[0, 1, 2]] * n_histories)
        assert model.network_.dropout.p == share


def test_sasrec_is_judged_by_ranks_in_the_whole_catalogue():
    model = SASRecRecommender(dim=4, max_epochs=1, early_stopping=False, random_state=0)
    model.fit([[0, 1, 2, 3], [3, 2, 1, 4]] * 5)
    held = Groups.from_lists([[0, 1], [3, 2, 1]], targets=[2, 4])
    scores = model.scores(held)
    expected = []
    for row, (seen, target) in enumerate(zip([[0, 1], [3, 2, 1]], [2, 4], strict=True)):
        others = [item for item in range(5) if item != target and item not in seen]
        rank = sum(scores[row, item] > scores[row, target] for item in others)
        expected.append(1 / np.log2(rank + 2))
    judged = model._validator(held, np.random.default_rng(0))()
    assert judged == pytest.approx(np.mean(expected))
