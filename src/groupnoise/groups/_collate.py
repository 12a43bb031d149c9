"""From rows of Groups to padded batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from groupnoise.exceptions import DataError
from groupnoise.groups._batch import GroupBatch
from groupnoise.groups._ragged import Groups


def collate(
    groups: Groups,
    rows: NDArray[np.integer[Any]],
    batch_rows: NDArray[np.integer[Any]] | None = None,
) -> GroupBatch:
    """Pad the groups at `rows` to the size of the largest of them.

    Padding repeats an object of the same group: a valid id or a finite feature row, so that
    encoders never meet a value that could not occur; the mask alone says what is real.

    Parameters
    ----------
    groups : Groups
        The collection, with targets.
    rows : int ndarray of shape (groups,)
        Which of its groups to take.
    batch_rows : int ndarray of shape (all groups,), optional
        The whole batch, if `rows` are one worker's share of it.
    """
    if groups.targets is None:
        raise DataError("these groups have no targets; a batch for training needs them.")
    if groups.targets.dtype.kind not in "fiub":
        raise DataError(
            f"targets must be integer ids or feature rows; got dtype {groups.targets.dtype}."
        )
    starts, sizes = groups.offsets[rows], groups.offsets[rows + 1] - groups.offsets[rows]
    position = np.arange(sizes.max())
    index = starts[:, None] + np.minimum(position, sizes[:, None] - 1)  # (groups, size)
    return GroupBatch(
        objects=torch.from_numpy(np.ascontiguousarray(groups.objects[index])),
        mask=torch.from_numpy(position < sizes[:, None]),
        targets=torch.from_numpy(np.ascontiguousarray(groups.targets[rows])),
        rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
        shared_targets=(
            None
            if batch_rows is None or batch_rows is rows
            else torch.from_numpy(np.ascontiguousarray(groups.targets[batch_rows]))
        ),
    )
