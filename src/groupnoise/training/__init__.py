"""One readable loop that trains a matching model on groups."""

from groupnoise.training._history import History
from groupnoise.training._optimizer import RowAdam, make_optimizers
from groupnoise.training._plan import TrainingPlan
from groupnoise.training._trainer import train

__all__ = ["History", "RowAdam", "TrainingPlan", "make_optimizers", "train"]
