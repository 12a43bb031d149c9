"""LRURec, ComiRec and EASE in blocks do what their formulas say."""

import numpy as np
import pytest
import torch

from groupnoise import Groups
from groupnoise.clicks.baselines import (
    BlockEASERecommender,
    ComiRecRecommender,
    EASERecommender,
    LRURecRecommender,
)
from groupnoise.clicks.baselines.least_squares import block_inputs, item_blocks
from groupnoise.clicks.baselines.lrurec import LRURecNetwork, complex_recurrence
from groupnoise.clicks.baselines.short_windows import ComiRecNetwork


@pytest.fixture(autouse=True)
def _seed():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


def log(n_items=12, n_users=60):
    rng = np.random.default_rng(0)
    return [
        ((start + np.arange(size)) % n_items).tolist()
        for start, size in zip(
            rng.integers(n_items, size=n_users), rng.integers(2, 6, size=n_users), strict=True
        )
    ]


def complex_loop(real, imaginary, added):
    decay = torch.complex(real, imaginary)
    states, state = [], torch.zeros_like(torch.complex(added[0, :, 0], added[0, :, 1]))
    for step in range(len(added)):
        state = decay * state + torch.complex(added[step, :, 0], added[step, :, 1])
        states.append(torch.stack([state.real, state.imag], dim=1))
    return torch.stack(states)


def test_the_complex_recurrence_is_a_plain_loop_values_and_gradients():
    real, imaginary = 0.5 * torch.rand(2, 3, dtype=torch.float64)
    added = torch.randn(5, 2, 2, 3, dtype=torch.float64)
    inputs = [each.requires_grad_() for each in (real.clone(), imaginary.clone(), added)]
    factors = torch.randn(5, 2, 2, 3, dtype=torch.float64)
    found = complex_recurrence(*inputs)
    expected = complex_loop(*inputs)
    torch.testing.assert_close(found, expected)
    found_gradients = torch.autograd.grad((found * factors).sum(), inputs)
    for one, other in zip(
        found_gradients, torch.autograd.grad((expected * factors).sum(), inputs), strict=True
    ):
        torch.testing.assert_close(one, other)


def test_lrurec_never_looks_ahead_nor_at_the_padding():
    network = LRURecNetwork(7, 4, n_blocks=2, dropout=0.5).double().eval()
    whole = network.states(torch.tensor([[0, 3, 6, 2]]))
    begun = network.states(torch.tensor([[0, 3, 7, 7]]))
    torch.testing.assert_close(whole[:, :2], begun[:, :2])
    torch.testing.assert_close(network.encode(torch.tensor([[0, 3, 7, 7]])), begun[:, 1])


def test_lrurec_trains_on_every_next_click_of_a_history_longer_than_its_window():
    model = LRURecRecommender(dim=4, window_size=2, max_epochs=1, random_state=0)
    model.fit([[0, 1, 2, 3, 4]])
    seen = []
    model._batch_loss = lambda clicks, *_: seen.append(clicks) or torch.zeros(())
    list(model._epoch_losses(Groups.from_lists([[0, 1, 2, 3, 4]]), np.random.default_rng(0))())
    targets = torch.cat([clicks[:, 1:].flatten() for clicks in seen])
    assert sorted(targets[targets < 5].tolist()) == [1, 2, 3, 4]


def test_lrurec_has_the_exact_cross_entropy_with_biases():
    model = LRURecRecommender(dim=4, max_epochs=1, dropout=0.0, random_state=0)
    model.fit([[0, 1, 2, 3], [2, 0, 3]])
    clicks = torch.tensor([[0, 1, 2, 3], [2, 0, 3, 4]])
    network = model.network_
    logits = network.states(clicks[:, :-1]) @ network.items.weight[:4].T + network.biases
    expected = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1)[:5], clicks[:, 1:].flatten()[:5]
    )
    torch.testing.assert_close(model._batch_loss(clicks, False, torch.Generator()), expected)


def comirec_loop(network, clicks):
    real = [click for click in clicks if click != network.n_items]
    first = len(clicks) - len(real)
    vectors = network.items.weight[real]
    hidden = torch.tanh((vectors + network.places.weight[first:]) @ network.expand.weight.T)
    logits = hidden @ network.attend.weight.T  # (size, n_interests)
    return torch.stack([torch.softmax(logits[:, k], 0) @ vectors for k in range(logits.shape[1])])


def test_comirec_agrees_with_a_plain_loop_over_its_interests():
    network = ComiRecNetwork(7, 4, 3, 2).double()
    windows = [[0, 3, 6], [7, 2, 5], [7, 7, 4]]
    expected = torch.stack([comirec_loop(network, clicks) for clicks in windows])
    torch.testing.assert_close(network.encode(torch.tensor(windows)), expected)


def test_comirec_answers_with_the_closest_interest():
    model = ComiRecRecommender(dim=4, n_interests=3, window_size=3, max_epochs=1, random_state=0)
    model.fit(log())
    histories = Groups.from_lists([[0, 1], [5, 6, 7, 8]])
    interests, vectors, _ = model._vectors(histories)
    expected = np.stack([(own @ vectors.T).max(axis=0) for own in interests])
    np.testing.assert_allclose(model._score_all(histories), expected, rtol=1e-5, atol=1e-6)
    items = np.array([[0, 5], [11, 2]])
    some = np.take_along_axis(expected, items, axis=1)
    np.testing.assert_allclose(model._score_some(histories, items), some, rtol=1e-5, atol=1e-6)


def test_comirec_trains_the_interest_closest_to_the_next_click():
    model = ComiRecRecommender(dim=4, n_interests=3, window_size=3, max_epochs=1, random_state=0)
    model.fit(log())
    clicks, targets = torch.tensor([[0, 1, 2], [12, 5, 6]]), torch.tensor([[3], [7]])
    loss = model._batch_loss(clicks, targets, torch.Generator().manual_seed(1))
    drawn = torch.randint(12, (256,), generator=torch.Generator().manual_seed(1))
    table = model.network_.items.weight[:12]
    for row, target in enumerate(targets[:, 0]):
        own = model.network_.encode(clicks)[row]
        chosen = own[(own @ table[target]).argmax()]
        others = [table[item] @ chosen + np.log(12 / 256) for item in drawn if item != target]
        logit = table[target] @ chosen
        expected = torch.logsumexp(torch.stack([logit, *others]), 0) - logit
        torch.testing.assert_close(loss[row], expected)


def test_blocks_that_see_the_whole_catalogue_give_ease():
    whole = EASERecommender(ridge=5.0).fit(log())
    blocks = BlockEASERecommender(ridge=5.0, block_size=5, block_neighbors=99).fit(log())
    histories = Groups.from_lists([[0, 1], [7], [3, 8, 11]])
    np.testing.assert_allclose(
        blocks._score_all(histories), whole._score_all(histories), rtol=1e-4, atol=1e-5
    )


def test_every_item_stands_in_one_block_beside_what_is_clicked_with_it():
    model = BlockEASERecommender(ridge=5.0, block_size=5, block_neighbors=2, n_weights=3)
    model.fit(log())
    assert (np.diff(model.weights_.tocsc().indptr) <= 3).all()
    from groupnoise.clicks.baselines.counting import baskets

    users = baskets(Groups.from_lists(log()), 12)
    gram = users.T @ users
    blocks = item_blocks(gram, 5)
    np.testing.assert_array_equal(np.sort(np.concatenate(blocks)), np.arange(12))
    for block in blocks:
        inputs = block_inputs(gram, block, 2)
        assert set(block) <= set(inputs)
        assert len(inputs) <= len(block) + 2
