"""What a group is: ragged objects tied to a target, padded only inside a batch."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names
from groupnoise.groups._order import batch_rows, pooled_batch_rows
from groupnoise.groups._ragged import Groups, ragged_rows
from groupnoise.groups._windows import SlidingWindows, large_enough, sliding_windows

if TYPE_CHECKING:
    from groupnoise.groups._batch import GroupBatch
    from groupnoise.groups._collate import collate

# Groups needs numpy alone; what makes tensors loads torch only when it is asked for.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Groups": "groupnoise.groups._ragged",
        "ragged_rows": "groupnoise.groups._ragged",
        "SlidingWindows": "groupnoise.groups._windows",
        "sliding_windows": "groupnoise.groups._windows",
        "GroupBatch": "groupnoise.groups._batch",
        "batch_rows": "groupnoise.groups._order",
        "pooled_batch_rows": "groupnoise.groups._order",
        "large_enough": "groupnoise.groups._windows",
        "collate": "groupnoise.groups._collate",
    },
)

__all__ = [
    "GroupBatch",
    "Groups",
    "SlidingWindows",
    "batch_rows",
    "collate",
    "large_enough",
    "pooled_batch_rows",
    "ragged_rows",
    "sliding_windows",
]
