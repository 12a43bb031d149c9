"""Option: one setting of the parameters that are "auto", and how explicit values narrow a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from groupnoise.exceptions import ParameterError


@dataclass(frozen=True)
class Option:
    """One setting worth trying.

    `name`: short and unique in its portfolio, such as "linear, power".
    `parameters`: parameters of the estimator: numbers, texts, None, and sequences and mappings of
        these.
    `why`: when this setting is expected to win, in half a sentence.
    `complexity`: of two settings that held-out data cannot tell apart the one of lower complexity
        is kept.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    complexity: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", plain(dict(self.parameters)))


def narrow(options: Sequence[Option], explicit: Mapping[str, Any]) -> list[Option]:
    """Return the options that agree with explicit values.

    One explicit parameter after the other: options that ask for another value are left out; if
    none asks for this value it replaces theirs, since a value outside the portfolio is the
    user's to give. Options that become equal are tried once.

    At least one, in the order of the portfolio. `explicit`: parameters the user set to something
    else than "auto".
    """
    if not options:
        raise ParameterError("a portfolio needs at least one option.")
    left = list(options)
    for name, value in explicit.items():
        wanted = plain(value) if is_plain(value) else value
        agreeing = [each for each in left if each.parameters.get(name, wanted) == wanted]
        left = agreeing or [_with_value(each, name, value) for each in left]
    distinct: dict[str, Option] = {}
    for option in left:
        distinct.setdefault(repr(sorted(option.parameters.items())), option)
    return list(distinct.values())


def _with_value(option: Option, name: str, value: Any) -> Option:
    """Return an option with another value, or without it where JSON cannot hold the value."""
    rest = {key: each for key, each in option.parameters.items() if key != name}
    return replace(option, parameters={**rest, name: value} if is_plain(value) else rest)


def is_plain(value: Any) -> bool:
    """Tell whether a value can stand in JSON."""
    try:
        plain(value)
    except ParameterError:
        return False
    return True


def plain(value: Any) -> Any:
    """Return a value as JSON gives it back, with tuples for sequences so that it stays fixed."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(plain(each) for each in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ParameterError(
        f"a recorded value must be a number, a text, None or a sequence of these; got {value!r}."
    )
