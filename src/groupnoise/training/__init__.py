"""One readable loop that trains a matching model on groups, and what it saves."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.training.checkpoints import Checkpoints, stop_on_signals

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.training.checkpoints": "Checkpoints stop_on_signals",
    },
)

__all__ = [
    "Checkpoints",
    "stop_on_signals",
]
