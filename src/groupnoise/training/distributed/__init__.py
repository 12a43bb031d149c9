"""Training on several processes and machines, over torch.distributed."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.training.distributed.cost import Machine, TrainingSize, estimate_cost
    from groupnoise.training.distributed.launcher import launch, launch_on_ray, process_group
    from groupnoise.training.distributed.workers import TorchWorkers

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Machine": "groupnoise.training.distributed.cost",
        "TorchWorkers": "groupnoise.training.distributed.workers",
        "TrainingSize": "groupnoise.training.distributed.cost",
        "estimate_cost": "groupnoise.training.distributed.cost",
        "launch": "groupnoise.training.distributed.launcher",
        "launch_on_ray": "groupnoise.training.distributed.launcher",
        "process_group": "groupnoise.training.distributed.launcher",
    },
)

__all__ = [
    "Machine",
    "TorchWorkers",
    "TrainingSize",
    "estimate_cost",
    "launch",
    "launch_on_ray",
    "process_group",
]
