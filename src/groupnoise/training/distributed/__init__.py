"""Training on several processes and machines, over torch.distributed."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.training.distributed.cost import (
        Cost,
        Machine,
        TrainingSize,
        estimate_cost,
        table_bytes,
    )
    from groupnoise.training.distributed.environment import is_first, is_worker, n_restarts
    from groupnoise.training.distributed.launcher import (
        launch,
        launch_on_ray,
        process_group,
        record_failure,
    )
    from groupnoise.training.distributed.sharded import (
        RowExchange,
        ShardedEmbedding,
        ShardedItemModel,
    )
    from groupnoise.training.distributed.workers import TorchWorkers, logsumexp_over_workers

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Cost": "groupnoise.training.distributed.cost",
        "Machine": "groupnoise.training.distributed.cost",
        "RowExchange": "groupnoise.training.distributed.sharded",
        "ShardedEmbedding": "groupnoise.training.distributed.sharded",
        "ShardedItemModel": "groupnoise.training.distributed.sharded",
        "TorchWorkers": "groupnoise.training.distributed.workers",
        "TrainingSize": "groupnoise.training.distributed.cost",
        "estimate_cost": "groupnoise.training.distributed.cost",
        "is_first": "groupnoise.training.distributed.environment",
        "is_worker": "groupnoise.training.distributed.environment",
        "launch": "groupnoise.training.distributed.launcher",
        "launch_on_ray": "groupnoise.training.distributed.launcher",
        "logsumexp_over_workers": "groupnoise.training.distributed.workers",
        "n_restarts": "groupnoise.training.distributed.environment",
        "process_group": "groupnoise.training.distributed.launcher",
        "record_failure": "groupnoise.training.distributed.launcher",
        "table_bytes": "groupnoise.training.distributed.cost",
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
