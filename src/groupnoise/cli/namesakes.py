"""Bags that a model may have learned from, told by their names and those of their patients."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from groupnoise.cli.options import say_aside
from groupnoise.cli.sources import Found
from groupnoise.core.words import counted

if TYPE_CHECKING:
    from groupnoise.io.training_record import TrainingRecord


def count_namesakes(
    found: Found, n_trained: int | None, model: Path, record: TrainingRecord | None
) -> dict[str, int]:
    """Return how many groups have "names" or "patients" of those learned from, and warn of them."""
    if record is None:
        return {}
    marked = record.named_as_trained(found.setting, found.dataset)
    counts = {part: int(is_so.sum()) for part, is_so in marked.items()}
    units = counted(found.setting.n_groups(found.dataset), found.setting.units)
    n_named, n_of_patients = (counts.get(part, 0) for part in ("names", "patients"))
    if (n_others := n_named - (n_trained or 0)) > 0:
        say_aside(
            f"warning: {n_others} of the {units} scored have names of those that {model} learned "
            "from, and other values; if they are the same, these figures flatter it."
        )
    if n_of_patients > max(n_named, n_trained or 0):
        say_aside(
            f"warning: {n_of_patients} of the {units} scored come from patients that {model} "
            "learned from, so these figures flatter it."
        )
    return counts
