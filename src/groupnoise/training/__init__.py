"""One readable loop that trains a matching model on groups."""

from groupnoise.training._checkpoints import Checkpoints
from groupnoise.training._history import History
from groupnoise.training._optimizer import RowAdam, make_optimizers
from groupnoise.training._plan import TrainingPlan
from groupnoise.training._saver import training_alone
from groupnoise.training._signals import stop_on_signals
from groupnoise.training._state import TrainingState
from groupnoise.training._trainer import train
from groupnoise.training._workers import OneWorker, Workers

__all__ = [
    "Checkpoints",
    "History",
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
