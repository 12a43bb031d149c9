"""Aliases and protocols shared across folders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ProgressCallback = Callable[[dict[str, Any]], None]
"""Called with one record per epoch; the library itself never prints."""
