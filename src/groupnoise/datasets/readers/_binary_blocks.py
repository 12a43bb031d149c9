"""Parquet and Arrow files in blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator

from groupnoise._checks import require
from groupnoise.datasets.readers._polars import pl
from groupnoise.datasets.readers._sources import Source, name_of
from groupnoise.datasets.readers._tables import Table
from groupnoise.exceptions import DataError


def binary_blocks(
    source: Source, path: str, columns: list[str] | None, n_rows: int
) -> Iterator[Table]:
    """Yield the record batches of a Parquet or Arrow file."""
    arrow = require("pyarrow", extra="data")
    ipc, parquet = require("pyarrow.ipc", extra="data"), require("pyarrow.parquet", extra="data")
    if source.size_of(path)[0] == 0:
        raise DataError(f"{path} is empty; give a file with at least one row.")
    first_row = 0
    with source.open_binary(path) as stream:
        try:
            if source.format == "parquet":
                batches = parquet.ParquetFile(stream).iter_batches(n_rows, columns=columns)
            else:
                reader = ipc.open_file(stream)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            for batch in batches:
                frame = pl.from_arrow(batch)
                if not isinstance(frame, pl.DataFrame):
                    raise DataError(f"{path} holds no columns.")
                frame = frame if columns is None else frame.select(columns)
                for start in range(0, frame.height, n_rows):
                    begin = first_row + start
                    yield Table(
                        frame[start : start + n_rows],
                        name_of(path),
                        path,
                        lambda row, begin=begin: f"{path}, row {begin + row}",  # type: ignore[misc]
                    )
                first_row += frame.height
        except (arrow.ArrowInvalid, OSError) as error:
            reason = str(error).split("\n", 1)[0]
            raise DataError(
                f"{path} is not a whole {source.format.title()} file: it is cut off or damaged "
                f"({reason}); fetch or write it again."
            ) from None
