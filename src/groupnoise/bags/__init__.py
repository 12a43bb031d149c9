"""Multiple-instance learning: labelled bags in, labels of single instances out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.digits import load_digit_bags
    from groupnoise.bags.embedding.folder import embed_folder
    from groupnoise.bags.estimator import MaxMatchingMILClassifier
    from groupnoise.bags.files import read_bags
    from groupnoise.bags.mipl import MaxMatchingMIPLClassifier

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "groupnoise.bags.digits": "load_digit_bags",
        "groupnoise.bags.embedding.folder": "embed_folder",
        "groupnoise.bags.estimator": "MaxMatchingMILClassifier",
        "groupnoise.bags.files": "read_bags",
        "groupnoise.bags.mipl": "MaxMatchingMIPLClassifier",
    },
)

__all__ = [
    "MaxMatchingMILClassifier",
    "MaxMatchingMIPLClassifier",
    "embed_folder",
    "load_digit_bags",
    "read_bags",
]
