"""One readable loop that trains a matching model on groups, and what it saves."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.training.checkpoints import (
        Checkpoints as Checkpoints,
        stop_on_signals as stop_on_signals,
    )

__getattr__, __dir__, __all__ = lazy_names(__name__)
