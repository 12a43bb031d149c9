"""Feature scaling learned from the training rows alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from groupnoise._checks import check_choice

SCALINGS = ("standard", "l2", "none")


class Scaler:
    """Scales feature rows to float32.

    Parameters
    ----------
    kind : {"standard", "l2", "none"}
        Zero mean and unit deviation per feature; one length for all rows, features as they are
        (for components whose spread tells how much they matter); or nothing.
    """

    def __init__(self, kind: str) -> None:
        check_choice("scaling", kind, SCALINGS)
        self.kind = kind
        self.centre: NDArray[np.float64] = np.zeros(0)
        self.spread: NDArray[np.float64] = np.ones(0)

    def fit(self, rows: NDArray[Any]) -> Scaler:
        """Learn centre and spread from rows of shape (n_rows, n_features)."""
        n_features = rows.shape[1]
        self.centre, self.spread = np.zeros(n_features), np.ones(n_features)
        if self.kind == "standard":
            self.centre = rows.mean(axis=0, dtype=np.float64)
            deviation = rows.std(axis=0, dtype=np.float64)
            # A constant feature says nothing; dividing by one keeps it at zero.
            self.spread = np.where(deviation > 0, deviation, 1.0)
        return self

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return the rows scaled, as float32; without scaling nothing need be copied."""
        if self.kind == "none":
            return rows.astype(np.float32, copy=False)
        scaled = (rows - self.centre) / self.spread
        if self.kind == "l2":
            length = np.linalg.norm(scaled, axis=1, keepdims=True)
            # Unit length would leave features near zero; sqrt(width) gives them the size of scores.
            scaled *= np.sqrt(rows.shape[1]) / np.where(length > 0, length, 1.0)
        return scaled.astype(np.float32)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the learned state for a model file."""
        return {"scaler.centre": self.centre, "scaler.spread": self.spread}

    @classmethod
    def from_arrays(cls, kind: str, arrays: dict[str, NDArray[Any]]) -> Scaler:
        """Restore what :meth:`arrays` returned."""
        scaler = cls(kind)
        scaler.centre, scaler.spread = arrays["scaler.centre"], arrays["scaler.spread"]
        return scaler
