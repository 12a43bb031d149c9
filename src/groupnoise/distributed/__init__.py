"""Training on several processes and machines, over torch.distributed."""

from groupnoise.distributed._process_group import process_group
from groupnoise.distributed._row_exchange import RowExchange
from groupnoise.distributed._sharded import ShardedEmbedding, ShardedItemModel
from groupnoise.distributed._workers import TorchWorkers

__all__ = [
    "RowExchange",
    "ShardedEmbedding",
    "ShardedItemModel",
    "TorchWorkers",
    "process_group",
]
