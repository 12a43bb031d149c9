"""Label aggregation: from the votes of annotators to one label per row, with probabilities."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.votes.data import Votes as Votes, krippendorff_alpha as krippendorff_alpha
    from groupnoise.votes.dawid_skene import DawidSkene as DawidSkene
    from groupnoise.votes.files import read_votes as read_votes
    from groupnoise.votes.resolution import Resolution as Resolution, resolve as resolve

__getattr__, __dir__, __all__ = lazy_names(__name__)
