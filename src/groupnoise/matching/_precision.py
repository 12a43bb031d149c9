"""Mixed precision: which reduced precision a device really computes in, if any."""

from __future__ import annotations

import torch


def reduced_precision(device: torch.device | str) -> torch.dtype | None:
    """Return the precision in which encoders run faster on a device, or None if there is none.

    Only hardware counts: a processor that merely emulates bfloat16 is many times slower in it
    than in float32.

    Examples
    --------
    >>> import torch
    >>> reduced_precision("cpu") in (torch.bfloat16, None)
    True
    """
    kind = torch.device(device).type
    if kind == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    # torch has no public question for this, and older versions none at all.
    asked = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return torch.bfloat16 if kind == "cpu" and asked is not None and asked() else None
