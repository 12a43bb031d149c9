"""Multiple-instance learning: labelled bags in, labels of single instances out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.digits import load_digit_bags
    from groupnoise.bags.embedding.folder import embed_folder
    from groupnoise.bags.estimator import MaxMatchingMILClassifier
    from groupnoise.bags.files import read_bags
    from groupnoise.bags.mipl import ChosenPairs, MaxMatchingMIPLClassifier
    from groupnoise.bags.sival import make_sival_like

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.bags.digits": "load_digit_bags",
        "groupnoise.bags.embedding.folder": "embed_folder",
        "groupnoise.bags.estimator": "MaxMatchingMILClassifier",
        "groupnoise.bags.files": "read_bags",
        "groupnoise.bags.mipl": "ChosenPairs MaxMatchingMIPLClassifier",
        "groupnoise.bags.sival": "make_sival_like",
    },
)

__all__ = [
    "ChosenPairs",
    "MaxMatchingMILClassifier",
    "MaxMatchingMIPLClassifier",
    "embed_folder",
    "load_digit_bags",
    "make_sival_like",
    "read_bags",
]
