"""One readable loop that trains a matching model on groups, and what it saves."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.core.objective import ObjectScores
    from groupnoise.training.checkpoints import Checkpoints, stop_on_signals
    from groupnoise.training.plan import History, TrainingPlan
    from groupnoise.training.trainer import train

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.core.objective": "ObjectScores",
        "groupnoise.training.checkpoints": "Checkpoints stop_on_signals",
        "groupnoise.training.plan": "History TrainingPlan",
        "groupnoise.training.trainer": "train",
    },
)

__all__ = [
    "Checkpoints",
    "History",
    "ObjectScores",
    "TrainingPlan",
    "stop_on_signals",
    "train",
]
