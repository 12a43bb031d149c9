"""Training on several processes and machines, over torch.distributed."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.training.distributed.cost import Machine, TrainingSize, estimate_cost
    from groupnoise.training.distributed.launcher import launch_on_ray, process_group
    from groupnoise.training.distributed.workers import TorchWorkers

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.training.distributed.cost": "Machine TrainingSize estimate_cost",
        "groupnoise.training.distributed.launcher": "launch_on_ray process_group",
        "groupnoise.training.distributed.workers": "TorchWorkers",
    },
)

__all__ = [
    "Machine",
    "TorchWorkers",
    "TrainingSize",
    "estimate_cost",
    "launch_on_ray",
    "process_group",
]
