"""Adam that makes up for missed steps when a row is read, against dense steps."""

import pytest
import torch

from groupnoise.clicks.evidence.descent import DeferredAdam

N_ROWS, DIM, BETAS = 30, 3, (0.9, 0.98)


def gradients(rows):
    """Of a loss whose slopes change with the rows."""
    return (rows * torch.arange(1, DIM + 1)).sum(-1).sin().mul(rows.norm(dim=-1)).sum()


@pytest.mark.parametrize("weight_decay", [0.0, 3.0])
def test_rows_are_where_dense_steps_with_decay_to_an_anchor_put_them(weight_decay):
    generator = torch.Generator().manual_seed(0)
    start, anchor = torch.randn(2, N_ROWS, DIM, generator=generator, dtype=torch.float64)
    dense, table = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    adam = torch.optim.Adam([dense], betas=BETAS)
    deferred = DeferredAdam([table], [anchor], 1.0, weight_decay=weight_decay, betas=BETAS)
    for step in range(300):
        rate = 0.02 * (1 - step / 300)
        # Some rows in every step, some now and then, some but once, the last ones never.
        ids = torch.randint(1 + (step * 7) % (N_ROWS - 4), (6,), generator=generator)
        for optimizer in (adam, deferred):
            optimizer.param_groups[0]["lr"] = rate
        adam.zero_grad(set_to_none=False)
        gradients(dense[ids]).backward()
        adam.step()
        dense.data.lerp_(anchor, rate * weight_decay)
        gradients(deferred.lookup(ids, table)).backward()
        deferred.step()
        if step % 100 == 70:
            deferred.flush()
            torch.testing.assert_close(table, dense, rtol=1e-6, atol=1e-6)
            for name, values in deferred.state[table].items():
                torch.testing.assert_close(values, adam.state[dense][name], rtol=1e-5, atol=1e-8)
