"""Options of the readers of bags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupnoise.bags.reading.labels import KnownLabels
from groupnoise.io.tables.imputation import Imputer
from groupnoise.io.tables.sources import Report


@dataclass(frozen=True)
class BagReadOptions:
    """Parameters of `read_bags`. `form`: keyword arguments of `read_table`."""

    report: Report
    group: str | None
    label: str | Sequence[str] | None
    features: str | Sequence[str] | None
    truth: str | None
    label_separator: str | None
    patient: str | None
    split: str | None
    feature_names: Sequence[str] | None
    labels_needed: bool
    known: KnownLabels
    fill: Imputer | None
    form: Mapping[str, Any]

    @property
    def split_file(self) -> Path | None:
        """The table of a split, where `split` names one and no column."""
        is_file = self.split is not None and Path(self.split).is_file()
        return Path(self.split) if is_file and self.split is not None else None
