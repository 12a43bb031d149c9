"""Whatever a reader is given, opened: a table of rows or named arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from groupnoise.datasets.readers._arrays import ARRAY_FORMATS, NamedArrays, load_arrays
from groupnoise.datasets.readers._sources import Report, find_source
from groupnoise.datasets.readers._tables import Table, read_table
from groupnoise.datasets.readers._text import read_history_text


def read_input(
    source: Any,
    *,
    report: Report,
    format: str | None = None,
    filesystem: Any = None,
    separator: str | None = None,
    header: bool | None = None,
) -> Table | NamedArrays:
    """Open a path, folder, glob, address or frame; see `read_table` for the parameters."""
    if isinstance(source, (str, Path)):
        source = find_source(source, format=format, filesystem=filesystem)
        if source.format in ARRAY_FORMATS:
            return load_arrays(source)
        if source.format == "text":
            return read_history_text(source, report)
    return read_table(source, separator=separator, header=header, report=report)
