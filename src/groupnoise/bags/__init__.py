"""Multiple-instance learning: labelled bags in, labels of single instances out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.digits import load_digit_bags as load_digit_bags
    from groupnoise.bags.embedding.folder import embed_folder as embed_folder
    from groupnoise.bags.reading.reader import read_bags as read_bags

__getattr__, __dir__, __all__ = lazy_names(__name__)
