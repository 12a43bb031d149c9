"""Votes of annotators in, one label per row out, with a probability and an order to look."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.votes.ballots import Votes, krippendorff_alpha
    from groupnoise.votes.dawid_skene import DawidSkene, Reliability
    from groupnoise.votes.files import VotedRows, read_votes
    from groupnoise.votes.resolution import Resolution, resolve

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "DawidSkene": "groupnoise.votes.dawid_skene",
        "Reliability": "groupnoise.votes.dawid_skene",
        "Resolution": "groupnoise.votes.resolution",
        "VotedRows": "groupnoise.votes.files",
        "Votes": "groupnoise.votes.ballots",
        "krippendorff_alpha": "groupnoise.votes.ballots",
        "read_votes": "groupnoise.votes.files",
        "resolve": "groupnoise.votes.resolution",
    },
)

__all__ = [
    "DawidSkene",
    "Reliability",
    "Resolution",
    "VotedRows",
    "Votes",
    "krippendorff_alpha",
    "read_votes",
    "resolve",
]
