"""What each worker computes for the tests of this folder; run by `conftest.py`, not by pytest."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from groupnoise.core.model import MatchingModel
from groupnoise.training.distributed import TorchWorkers, process_group
from groupnoise.training.distributed.sharded import ShardedEmbedding, ShardedItemModel
from groupnoise.training.distributed.workers import logsumexp_over_workers

N_IDS, DIM, N_LOOKED_UP = 23, 3, 40
N_MANY_IDS = 3 * (1 << 16) + 5


def generator_of(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def look_up_in_shards(rank: int) -> dict[str, torch.Tensor]:
    table = ShardedEmbedding(N_IDS, DIM, generator=generator_of(0)).double()
    ids = torch.randint(N_IDS, (N_LOOKED_UP,), generator=generator_of(100 + rank))
    upstream = torch.randn(N_LOOKED_UP, DIM, generator=generator_of(200 + rank)).double()
    values = table(ids)
    values.backward(upstream)
    gradient = table.weight.grad.coalesce()
    return {
        "shard": table.weight.detach(),
        "ids": ids,
        "upstream": upstream,
        "values": values.detach(),
        "gradient": gradient.to_dense(),
        "rows_with_gradient": gradient.indices()[0],
    }


def items_with_bias(rank: int) -> dict[str, torch.Tensor]:
    model = ShardedItemModel(
        N_IDS, DIM, shared=True, has_bias=True, std=0.1, generator=generator_of(0)
    )
    with torch.no_grad():
        model.bias.copy_(torch.arange(rank, N_IDS, TorchWorkers().count).unsqueeze(-1))
    objects, targets = torch.tensor([rank, 5]), torch.tensor([7, 2 + rank, 7])
    vectors, target_vectors = model.encode(objects, targets).split([2, 3])
    together = model.target_bias(targets)
    alone = model.target_bias(targets)
    (vectors.sum() + target_vectors.sum() + together.sum()).backward()
    whole = model.gather()
    return {
        "objects": objects,
        "targets": targets,
        "vectors": vectors.detach(),
        "target_vectors": target_vectors.detach(),
        "bias_together": together.detach(),
        "bias_alone": alone.detach(),
        "bias_gradient": model.bias.grad.to_dense(),
        "bias_rows_with_gradient": model.bias.grad.coalesce().indices()[0],
        **({} if whole is None else {f"whole.{k}": v for k, v in whole.state_dict().items()}),
    }


def large_table(rank: int) -> dict[str, torch.Tensor]:
    generator = generator_of(3)
    table = ShardedEmbedding(N_MANY_IDS, DIM, std=0.5, generator=generator)
    return {"shard": table.weight.detach(), "generator": generator.get_state()}


def joint_levels(rank: int, count: int) -> dict[str, torch.Tensor]:
    levels = torch.randn(4, generator=generator_of(rank)).double().requires_grad_()
    upstream = torch.randn(4, generator=generator_of(50 + rank)).double()
    counts = rank < count - 1 or count == 1
    result = logsumexp_over_workers(levels, counts=counts)
    result.backward(upstream)
    return {
        "levels": levels.detach(),
        "upstream": upstream,
        "counts": torch.tensor(counts),
        "result": result.detach(),
        "gradient": levels.grad,
    }


def summed_gradients(rank: int) -> dict[str, torch.Tensor]:
    encoder, table = nn.Linear(2, 3), nn.Embedding(4, 3, sparse=True)
    model = MatchingModel(encoder, table, n_targets=4)
    encoder.weight.grad = torch.full((3, 2), float(rank + 1))
    row = torch.tensor([[rank]])
    table.weight.grad = torch.sparse_coo_tensor(row, torch.ones(1, 3), (4, 3)).coalesce()
    TorchWorkers().sync(model)
    return {"dense": encoder.weight.grad, "sparse": table.weight.grad.to_dense()}


def shares_of_batches() -> dict[str, object]:
    workers = TorchWorkers()
    shares = []
    for size in (1, 2, 5, 8):
        rows = np.arange(size) + 10
        own = workers.rows(rows)
        loss = workers.loss(torch.from_numpy(own).double(), rows).item()
        shares.append({"rows": own.tolist(), "mean": workers.sum(loss)[0]})
    return {"shares": shares, "sums": workers.sum(1.0, 10.0 * workers.rank)}


def main(folder: Path) -> None:
    with process_group():
        workers = TorchWorkers()
        rank = workers.rank
        results = {
            "look_up": look_up_in_shards(rank),
            "items": items_with_bias(rank),
            "large": large_table(rank),
            "joint": joint_levels(rank, workers.count),
            "gradients": summed_gradients(rank),
            **shares_of_batches(),
        }
        torch.save(results, folder / f"{rank}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
