"""The normalizer in chunks, with excluded pairs and skipped rows, against the dense formula."""

import pytest
import torch

from groupnoise.core import chunked_softmax as module
from groupnoise.core.chunked_softmax import cross_entropy, log_normalizer

N_QUERIES, N_CANDIDATES, DIM = 5, 11, 3
EXCLUDED = (torch.tensor([0, 0, 2, 4]), torch.tensor([1, 10, 5, 0]))


@pytest.fixture(params=[1 << 23, 1, 7, 15, 40], ids=lambda n: f"chunk{n}")
def chunk(request, monkeypatch):
    """Logits held at a time: all of them, one column, and sizes that do not divide evenly.

    Of the smallest the queries come in parts.
    """
    monkeypatch.setattr(module, "KEPT_ELEMENTS", request.param)
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", request.param)
    monkeypatch.setattr(module, "QUERIES_AT_ONCE", 2)


def inputs(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in [(N_QUERIES, DIM), (N_CANDIDATES, DIM), (N_CANDIDATES,)]
    ]


def dense(queries, candidates, offset, excluded=None):
    logits = queries @ candidates.t() + offset
    if excluded is not None:
        left_out = torch.zeros(logits.shape, dtype=torch.bool)
        left_out[excluded] = True
        logits = logits.masked_fill(left_out, -torch.inf)
    return logits.logsumexp(-1)


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("excluded", [None, EXCLUDED], ids=["all", "some_excluded"])
@pytest.mark.parametrize(
    "upstream",
    [[1.0, -2.0, 0.5, 3.0, 1.5], [0.0, 0.0, 2.0, 0.0, -1.0], [0.0] * 5],
    ids=["every_row", "some_rows", "no_row"],
)
def test_value_and_gradient_equal_the_dense_formula(excluded, upstream):
    leaves = inputs()
    upstream = torch.tensor(upstream, dtype=torch.float64)
    actual, expected = log_normalizer(*leaves, excluded), dense(*leaves, excluded)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(actual, leaves, upstream),
        torch.autograd.grad(expected, leaves, upstream),
        rtol=1e-11,
        atol=1e-12,
    )


@pytest.mark.usefixtures("chunk")
def test_gradient_equals_finite_differences():
    assert torch.autograd.gradcheck(lambda *leaves: log_normalizer(*leaves, EXCLUDED), inputs())


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_only_the_gradients_asked_for_are_computed(wanted):
    leaves = [leaf.detach() for leaf in inputs()]
    leaves[wanted].requires_grad_()
    actual = torch.autograd.grad(log_normalizer(*leaves).sum(), leaves[wanted])
    expected = torch.autograd.grad(dense(*leaves).sum(), leaves[wanted])
    torch.testing.assert_close(actual, expected)


def test_the_offset_may_be_left_out():
    queries, candidates, _ = inputs()
    torch.testing.assert_close(
        log_normalizer(queries, candidates), (queries @ candidates.t()).logsumexp(-1)
    )


@pytest.mark.usefixtures("chunk")
def test_a_chunk_with_nothing_left_does_not_spoil_the_rest():
    queries, candidates, offset = inputs()
    every_but_last = torch.arange(N_CANDIDATES - 1)
    excluded = (torch.zeros_like(every_but_last), every_but_last)
    actual = log_normalizer(queries, candidates, offset, excluded)
    expected = dense(queries, candidates, offset, excluded)
    torch.testing.assert_close(actual, expected)
    gradient = torch.autograd.grad(actual.sum(), queries)[0]
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), queries)[0])


@pytest.mark.usefixtures("chunk")
def test_large_logits_do_not_overflow():
    queries, candidates, offset = inputs()
    actual = log_normalizer(1e3 * queries, candidates, offset)
    torch.testing.assert_close(actual, dense(1e3 * queries, candidates, offset))
    assert all(g.isfinite().all() for g in torch.autograd.grad(actual.sum(), [queries, candidates]))


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("jump", [1e3, -1e3])
def test_a_later_chunk_may_lie_far_from_the_first(jump):
    queries, candidates, offset = inputs()
    far = offset + jump * (torch.arange(N_CANDIDATES) >= N_CANDIDATES // 2)
    actual = log_normalizer(queries, candidates, far)
    expected = dense(queries, candidates, far)
    torch.testing.assert_close(actual, expected)
    wanted = [queries, candidates, offset]
    for left, right in zip(
        torch.autograd.grad(actual.sum(), wanted),
        torch.autograd.grad(expected.sum(), wanted),
        strict=True,
    ):
        torch.testing.assert_close(left, right)


def test_rows_without_upstream_gradient_cost_no_logits_in_the_backward_pass(monkeypatch):
    monkeypatch.setattr(module, "KEPT_ELEMENTS", 7)
    monkeypatch.setattr(module, "CHUNK_ELEMENTS", 7)
    seen = []
    compute = module._logits
    monkeypatch.setattr(
        module,
        "_logits",
        lambda queries, *rest: seen.append(len(queries)) or compute(queries, *rest),
    )
    queries, candidates, offset = inputs()
    log_normalizer(queries, candidates, offset)[3].backward()
    assert seen == [N_QUERIES, N_QUERIES, 1]  # the first chunk for its level, all chunks, backward


POSITIVE = torch.tensor([3, 0, 10, 3, 7])


@pytest.mark.usefixtures("chunk")
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_cross_entropy_and_its_gradient_equal_the_dense_formula(scale):
    leaves = inputs()
    queries, candidates, offset = leaves
    logits = scale * queries @ candidates.t() + offset
    expected = torch.nn.functional.cross_entropy(logits, POSITIVE)
    actual = cross_entropy(scale * queries, candidates, offset, POSITIVE)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(
        torch.autograd.grad(2.0 * actual, leaves), torch.autograd.grad(2.0 * expected, leaves)
    )


@pytest.mark.usefixtures("chunk")
def test_the_gradient_of_cross_entropy_equals_finite_differences():
    assert torch.autograd.gradcheck(lambda *leaves: cross_entropy(*leaves, POSITIVE), inputs())
