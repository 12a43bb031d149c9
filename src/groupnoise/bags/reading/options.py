"""What a reader of bags is asked for, whether they lie in one table or in a file each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupnoise.bags.reading.labels import KnownLabels
from groupnoise.io.tables.missing_numbers import Fill
from groupnoise.io.tables.sources import Report


@dataclass(frozen=True)
class BagReadOptions:
    """What `read_bags` was asked for, by the names of its parameters.

    `form`: of tables, as `read_table` takes it; of a table of labels the encoding alone.
    """

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
    fill: Fill | None
    form: Mapping[str, Any]

    @property
    def split_file(self) -> Path | None:
        """The table of a split, where `split` names one and no column."""
        is_file = self.split is not None and Path(self.split).is_file()
        return Path(self.split) if is_file and self.split is not None else None
