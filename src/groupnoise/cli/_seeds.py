"""Seeds as they are typed: a range, a list, or a single number."""

from __future__ import annotations

import re

from groupnoise.exceptions import ParameterError


def parse_seeds(text: str) -> list[int]:
    """Return the seeds that a text names.

    Parameters
    ----------
    text : str
        "0:5" for 0 to 4, "1,4,9" for these three, or one number.

    Examples
    --------
    >>> parse_seeds("0:3"), parse_seeds("7,2"), parse_seeds("4")
    ([0, 1, 2], [7, 2], [4])
    """
    if match := re.fullmatch(r"(\d+):(\d+)", text):
        seeds = list(range(int(match[1]), int(match[2])))
    elif re.fullmatch(r"\d+(,\d+)*", text):
        seeds = [int(seed) for seed in text.split(",")]
    else:
        raise ParameterError(
            f"--seeds takes a range like 0:5 or a list like 1,4,9 of whole numbers; got {text!r}."
        )
    if not seeds or len(set(seeds)) < len(seeds):
        raise ParameterError(f"--seeds must name at least one seed, each once; got {text!r}.")
    return seeds
