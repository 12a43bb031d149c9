"""Votes of annotators in, one label per row out, with a probability and an order to look."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.votes.ballots import Votes as Votes, krippendorff_alpha as krippendorff_alpha
    from groupnoise.votes.dawid_skene import DawidSkene as DawidSkene
    from groupnoise.votes.files import read_votes as read_votes
    from groupnoise.votes.resolution import Resolution as Resolution, resolve as resolve

__getattr__, __dir__, __all__ = lazy_names(__name__)
