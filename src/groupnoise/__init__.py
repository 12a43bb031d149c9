"""Learning with group noise: one objective for bags, candidate labels and click histories."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.groups import Groups

__version__ = "0.1.0"

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Groups": "groupnoise.groups",
    },
)

__all__ = ["Groups", "__version__"]
