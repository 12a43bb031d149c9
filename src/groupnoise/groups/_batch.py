"""GroupBatch: a padded batch of groups as tensors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class GroupBatch:
    """Groups padded to one size.

    Attributes
    ----------
    objects : Tensor of shape (groups, size, ...)
        Feature rows or ids; what stands at padded places has no meaning.
    mask : bool Tensor of shape (groups, size)
        True where an object is real.
    targets : Tensor of shape (groups, ...)
        Ids or feature rows.
    rows : int64 Tensor of shape (groups,)
        Which rows of the collection the groups came from.
    """

    objects: Tensor
    mask: Tensor
    targets: Tensor
    rows: Tensor

    def __len__(self) -> int:
        return len(self.mask)

    def to(self, device: torch.device | str) -> GroupBatch:
        """Return the batch on another device."""
        return replace(
            self,
            objects=self.objects.to(device),
            mask=self.mask.to(device),
            targets=self.targets.to(device),
            rows=self.rows.to(device),
        )
