"""Counts and names in sentences."""

from __future__ import annotations

from collections.abc import Sequence

ENDINGS = (("ies", "y"), ("sses", "ss"), ("s", ""))


def counted(number: int, things: str, form: str = "") -> str:
    """Return a number of things; of one the last word loses its plural.

    `things`: in the plural, which ends in s. `form`: how the number is written, such as ",".

    >>> counted(1, "new histories"), counted(1, "classes"), counted(0, "bags")
    ('1 new history', '1 class', '0 bags')
    """
    if number == 1:
        ending, alone = next(pair for pair in ENDINGS if things.endswith(pair[0]))
        things = things.removesuffix(ending) + alone
    return f"{number:{form}} {things}"


def quoted(names: Sequence[str]) -> str:
    """Return names as they stand in a sentence."""
    return " and ".join(map(repr, names))
