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
    shared_targets : Tensor of shape (all groups, ...), optional
        Targets of the whole batch, where this is one worker's share of it.
    """

    objects: Tensor
    mask: Tensor
    targets: Tensor
    rows: Tensor
    shared_targets: Tensor | None = None

    def __len__(self) -> int:
        return len(self.mask)

    @property
    def all_targets(self) -> Tensor:
        """Targets of the whole batch, whether or not this worker has all its groups."""
        return self.targets if self.shared_targets is None else self.shared_targets

    def to(self, device: torch.device | str) -> GroupBatch:
        """Return the batch on another device."""
        return replace(
            self,
            objects=self.objects.to(device),
            mask=self.mask.to(device),
            targets=self.targets.to(device),
            rows=self.rows.to(device),
            shared_targets=self.shared_targets.to(device)
            if self.shared_targets is not None
            else None,
        )
