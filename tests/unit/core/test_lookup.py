"""Rows of a table: the same values and gradient as plain indexing, each row named once."""

import pytest
import torch

from groupnoise.core.encoders import look_up

IDS = [[3, 1, 3], [[0, 4], [4, 4]], []]


def table():
    values = torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return values.requires_grad_()


@pytest.mark.parametrize("ids", IDS, ids=str)
def test_values_and_gradient_equal_those_of_indexing(ids):
    rows, ids = table(), torch.tensor(ids, dtype=torch.int64)
    taken = look_up(rows, ids)
    assert torch.equal(taken, rows[ids])
    upstream = torch.randn(taken.shape, dtype=torch.float64)
    (sparse,) = torch.autograd.grad(taken, rows, upstream)
    (dense,) = torch.autograd.grad(rows[ids], rows, upstream)
    torch.testing.assert_close(sparse.to_dense(), dense)


def test_the_gradient_names_each_row_once_and_in_order():
    rows = table()
    look_up(rows, torch.tensor([5, 2, 5, 0])).sum().backward()
    assert rows.grad._indices().tolist() == [[0, 2, 5]]


def test_a_sparse_gradient_adds_to_a_dense_one():
    rows = table()
    (look_up(rows, torch.tensor([1, 1])).sum() + (rows**2).sum()).backward()
    expected = 2 * rows.detach()
    expected[1] += 2.0
    torch.testing.assert_close(rows.grad, expected)
