"""What a reader of bags is asked for, whether they lie in one table or in a file each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupnoise.bags.label_words import KnownLabels
from groupnoise.io.missing_numbers import Fill
from groupnoise.io.sources import Report


@dataclass(frozen=True)
class BagRequest:
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
