"""Data frames of other libraries to polars, without importing those libraries."""

from __future__ import annotations

from typing import Any

from groupnoise.datasets.readers._polars import pl
from groupnoise.exceptions import DataError


def as_polars(source: Any) -> pl.DataFrame:
    """Return a polars frame of any frame that speaks the Arrow or the interchange protocol.

    Polars frames (also lazy ones), pandas frames and pyarrow tables are such; a plain dictionary
    of columns is taken as well.
    """
    try:
        if isinstance(source, pl.DataFrame):
            frame = source
        elif isinstance(source, pl.LazyFrame):
            frame = source.collect()
        elif isinstance(source, dict) or hasattr(source, "__arrow_c_stream__"):
            frame = pl.DataFrame(source)
        elif hasattr(source, "__dataframe__"):
            frame = pl.from_dataframe(source)
        else:
            raise DataError(
                f"a {type(source).__name__} is neither a path nor a data frame; pass a frame of "
                "pandas, polars or pyarrow, or a dictionary of columns."
            )
    except DataError:
        raise
    except Exception as error:  # whatever the other library raises while it exports
        reason = str(error).split("\n", 1)[0]
        raise DataError(
            f"the {type(source).__name__} could not be read as a table ({reason}); give each "
            "column one type."
        ) from None
    unnamed = next((name for name in frame.columns if not isinstance(name, str)), None)
    if unnamed is not None:
        raise DataError(f"column names must be text; got {unnamed!r}.")
    return frame
