"""What the settings that `fit` decides between are, in words for people who know none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WORDS: dict[str, dict[Any, str]] = {
    "likelihood": {
        "noisy_or": "some instance carries each label of its bag",
        "max": "the strongest instance speaks for its bag",
        "soft_max": "the strongest instances speak for their bag",
        "odds": "the odds of all instances are added",
        "average": "all instances are averaged",
        "mixture": "a share of the instances of a bag carries its label",
        "inherited": "every instance has the label of its bag",
        "label_set": "the exact chance of the labels of a bag",
        "matching": "the paper's max-matching",
        "statistics": "the bag as a whole: mean, spread and range",
    },
    "encoder": {
        "identity": "linear",
        "linear": "linear",
        "mlp": "a small network",
        "kernel": "a kernel",
        "recurrence": "a network that reads clicks in order",
        "deep recurrence": "a deeper network that reads clicks in order",
        None: "vectors of items",
    },
    "shared": {True: "one table of items", False: "items have two vectors: clicked, and to come"},
    "scaling": {
        "standard": "standardized features",
        "power": "features bent to a bell curve",
        "pieces": "features cut to pieces",
        "rms": "features that keep their zeros",
        "l2": "rows of one length",
    },
    "background": {True: "instances may be of no class"},
}
"""Parameter, value, and what that means."""


def explained(parameters: Mapping[str, Any]) -> str:
    """Return what a setting is, in a few words; empty where none of its parameters has any.

    >>> explained({"likelihood": "max", "encoder": "mlp", "scaling": "l2", "weight_decay": 0.1})
    'the strongest instance speaks for its bag; a small network; rows of one length'
    >>> explained({"encoder": ("recurrence", None)})
    'the average of a network that reads clicks in order and vectors of items'
    """
    parts = []
    for name, words in WORDS.items():
        value = parameters.get(name, "")
        if name == "encoder" and parameters.get("likelihood") == "statistics":
            continue  # it sees no instance
        if name == "encoder" and isinstance(value, tuple):
            kinds = [words[each] for each in dict.fromkeys(value) if each in words]
            parts.append(f"the average of {' and '.join(kinds)}")
        elif name != "shared" or parameters.get("encoder", "") is None:
            parts += [words[value]] if value in words else []
    return "; ".join(parts)
