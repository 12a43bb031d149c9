"""Training on several processes and machines, over torch.distributed."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.distributed._cost import (
        Cost,
        Machine,
        TrainingSize,
        estimate_cost,
        table_bytes,
    )
    from groupnoise.distributed._environment import is_first, is_worker, n_restarts
    from groupnoise.distributed._joint import logsumexp_over_workers
    from groupnoise.distributed._launch import launch, record_failure
    from groupnoise.distributed._process_group import process_group
    from groupnoise.distributed._ray import launch_on_ray
    from groupnoise.distributed._row_exchange import RowExchange
    from groupnoise.distributed._sharded import ShardedEmbedding, ShardedItemModel
    from groupnoise.distributed._workers import TorchWorkers

_HERE = "groupnoise.distributed"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "RowExchange": f"{_HERE}._row_exchange",
        "ShardedEmbedding": f"{_HERE}._sharded",
        "ShardedItemModel": f"{_HERE}._sharded",
        "TorchWorkers": f"{_HERE}._workers",
        "Cost": f"{_HERE}._cost",
        "Machine": f"{_HERE}._cost",
        "TrainingSize": f"{_HERE}._cost",
        "estimate_cost": f"{_HERE}._cost",
        "table_bytes": f"{_HERE}._cost",
        "is_first": f"{_HERE}._environment",
        "is_worker": f"{_HERE}._environment",
        "launch": f"{_HERE}._launch",
        "launch_on_ray": f"{_HERE}._ray",
        "logsumexp_over_workers": f"{_HERE}._joint",
        "n_restarts": f"{_HERE}._environment",
        "process_group": f"{_HERE}._process_group",
        "record_failure": f"{_HERE}._launch",
    },
)

__all__ = [
    "Cost",
    "Machine",
    "RowExchange",
    "ShardedEmbedding",
    "ShardedItemModel",
    "TorchWorkers",
    "TrainingSize",
    "estimate_cost",
    "is_first",
    "is_worker",
    "launch",
    "launch_on_ray",
    "logsumexp_over_workers",
    "n_restarts",
    "process_group",
    "record_failure",
    "table_bytes",
]
