"""History: one record per epoch, readable as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class History:
    """Records of a training run, one dictionary per epoch.

    Examples
    --------
    >>> history = History()
    >>> history.append({"epoch": 1, "loss": 0.7})
    >>> history.append({"epoch": 2, "loss": 0.5})
    >>> history.column("loss")
    [0.7, 0.5]
    """

    def __init__(self, records: list[dict[str, Any]] | None = None) -> None:
        self.records = list(records or [])
        self.best_epoch: int | None = None

    def append(self, record: dict[str, Any]) -> None:
        """Add the record of an epoch."""
        self.records.append(record)

    def column(self, name: str) -> list[Any]:
        """Return one value per epoch, None where it was not recorded."""
        return [record.get(name) for record in self.records]

    def as_columns(self) -> dict[str, list[Any]]:
        """Return the table by columns, as polars.DataFrame and pandas.DataFrame take it."""
        names = dict.fromkeys(name for record in self.records for name in record)
        return {name: self.column(name) for name in names}

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.records)

    def __repr__(self) -> str:
        last = self.records[-1] if self.records else {}
        return f"History({len(self)} epochs, last {last})"
