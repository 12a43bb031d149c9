"""One readable loop that trains a matching model on groups, and what it saves."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.training.checkpoints import Checkpoints, stop_on_signals
    from groupnoise.training.estimator import ObjectScores
    from groupnoise.training.optimizer import RowAdam, make_optimizers
    from groupnoise.training.plan import History, TrainingPlan
    from groupnoise.training.saver import training_alone
    from groupnoise.training.state import TrainingState
    from groupnoise.training.trainer import train
    from groupnoise.training.workers import OneWorker, Workers

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Checkpoints": "groupnoise.training.checkpoints",
        "History": "groupnoise.training.plan",
        "ObjectScores": "groupnoise.training.estimator",
        "OneWorker": "groupnoise.training.workers",
        "RowAdam": "groupnoise.training.optimizer",
        "TrainingPlan": "groupnoise.training.plan",
        "TrainingState": "groupnoise.training.state",
        "Workers": "groupnoise.training.workers",
        "make_optimizers": "groupnoise.training.optimizer",
        "stop_on_signals": "groupnoise.training.checkpoints",
        "train": "groupnoise.training.trainer",
        "training_alone": "groupnoise.training.saver",
    },
)

__all__ = [
    "Checkpoints",
    "History",
    "ObjectScores",
    "OneWorker",
    "RowAdam",
    "TrainingPlan",
    "TrainingState",
    "Workers",
    "make_optimizers",
    "stop_on_signals",
    "train",
    "training_alone",
]
