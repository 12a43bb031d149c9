"""The polars library, or a sentence that names the extra which brings it."""

from typing import TYPE_CHECKING

from groupnoise.core.checks import require

if TYPE_CHECKING:
    import polars as pl
else:
    pl = require("polars", extra="data")

__all__ = ["pl"]
