"""Multiple-instance learning: labelled bags in, labels of single instances out."""

from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from groupnoise.bags.digits import load_digit_bags
    from groupnoise.bags.estimator import MaxMatchingMILClassifier
    from groupnoise.bags.files import read_bags
    from groupnoise.bags.letter_words import draw_letter_words, words_of
    from groupnoise.bags.mipl import ChosenPairs, MaxMatchingMIPLClassifier
    from groupnoise.bags.sival import load_amil, make_sival_like
    from groupnoise.bags.witnesses import set_witness_rate

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ChosenPairs": "groupnoise.bags.mipl",
        "MaxMatchingMILClassifier": "groupnoise.bags.estimator",
        "MaxMatchingMIPLClassifier": "groupnoise.bags.mipl",
        "draw_letter_words": "groupnoise.bags.letter_words",
        "load_amil": "groupnoise.bags.sival",
        "load_digit_bags": "groupnoise.bags.digits",
        "make_sival_like": "groupnoise.bags.sival",
        "read_bags": "groupnoise.bags.files",
        "set_witness_rate": "groupnoise.bags.witnesses",
        "words_of": "groupnoise.bags.letter_words",
    },
)

__all__ = [
    "ChosenPairs",
    "MaxMatchingMILClassifier",
    "MaxMatchingMIPLClassifier",
    "draw_letter_words",
    "load_amil",
    "load_digit_bags",
    "make_sival_like",
    "read_bags",
    "set_witness_rate",
    "words_of",
]
