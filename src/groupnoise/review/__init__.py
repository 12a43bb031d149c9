"""The review desk: a local page that shows the most doubtful rows and keeps every answer."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.review.desk import Desk as Desk

__getattr__, __dir__, __all__ = lazy_names(__name__)
