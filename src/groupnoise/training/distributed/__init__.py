"""Training on several processes and machines, over torch.distributed."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.training.distributed.workers import (
        TorchWorkers as TorchWorkers,
        process_group as process_group,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
