"""What a case can be shown with: pictures in the data, picture files, and text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from groupnoise._typing import FloatArray
from groupnoise.audit.report._pictures import picture_of_array, picture_of_file


@dataclass(frozen=True)
class Attachments:
    """Pictures and text of what is audited, by instance (bags), row (candidates) or item (clicks).

    Attributes
    ----------
    arrays : float ndarray of shape (n, height, width), optional
        Darkness in [0, 1].
    files : sequence of sequences of Path, optional
        The picture files of each; some may have none.
    texts : sequence of str, optional
        A text or title of each.
    """

    arrays: FloatArray | None = None
    files: Sequence[Sequence[Path]] | None = None
    texts: Sequence[str] | None = None

    @classmethod
    def of_dataset(cls, dataset: Any) -> Attachments:
        """Return what a data set itself brings: its pictures, or the titles of its items."""
        return cls(arrays=getattr(dataset, "images", None), texts=getattr(dataset, "titles", None))

    def pictures(self, number: int) -> list[str]:
        """Return the pictures of one as data addresses; files come before arrays."""
        if self.files is not None:
            return [picture_of_file(path) for path in self.files[number]]
        if self.arrays is not None:
            return [picture_of_array(self.arrays[number])]
        return []

    def text(self, number: int) -> str:
        """Return the text of one, empty if it has none."""
        return "" if self.texts is None else str(self.texts[number])
