"""Filters over categories and attributes: what a caller asks, checked, and the items it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from groupnoise.core.arrays import BoolArray
from groupnoise.exceptions import ParameterError
from groupnoise.recall.items import ItemTable

MAX_DEPTH = 16
MAX_VALUES = 10_000
"""Values that all conditions of a filter may name together."""
_EXAMPLE = '{"category": "kitchen", "not": {"brand": ["Acme", "Bolt"]}}'

Filter = tuple[str, Any]
"""("and" or "or", filters), ("not", filter), or (attribute, values): hashable, once checked."""


def checked_filter(given: Any) -> Filter:
    """Return a filter in its hashable form; what is none is refused.

    Parameters
    ----------
    given : mapping
        Names attributes with the value, or the values of which one is enough, that an item must
        have; several names must all hold. `and` and `or` hold lists of filters, `not` holds one.

    Returns
    -------
    tuple

    Examples
    --------
    >>> checked_filter({"category": "kitchen", "not": {"brand": ["Acme", "Bolt"]}})
    ('and', (('category', ('kitchen',)), ('not', ('brand', ('Acme', 'Bolt')))))
    """
    if isinstance(given, tuple):
        return given  # checked before
    checked = _checked(given, 1)
    n_values = _n_values(checked)
    if n_values > MAX_VALUES:
        raise ParameterError(f"filter names {n_values} values; at most {MAX_VALUES} are looked up.")
    return checked


def _checked(given: Any, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise ParameterError(f"filter is nested deeper than {MAX_DEPTH} levels.")
    if not isinstance(given, Mapping) or not given:
        raise ParameterError(f"filter must be an object such as {_EXAMPLE}; got {_short(given)}.")
    parts = tuple(_condition(str(name), value, depth) for name, value in given.items())
    return parts[0] if len(parts) == 1 else ("and", parts)


def _condition(name: str, value: Any, depth: int) -> Filter:
    if name == "not":
        return ("not", _checked(value, depth + 1))
    if name in ("and", "or"):
        if not isinstance(value, list) or not value:
            raise ParameterError(f"filter: {name!r} needs a list of filters; got {_short(value)}.")
        return (name, tuple(_checked(part, depth + 1) for part in value))
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(one, str) for one in values):
        raise ParameterError(
            f"filter: {_short(name)} needs a text or a list of texts; got {_short(value)}."
        )
    return (name, tuple(values))


def _n_values(checked: Filter) -> int:
    name, value = checked
    if name == "not":
        return _n_values(value)
    return sum(map(_n_values, value)) if name in ("and", "or") else len(value)


def _short(value: Any) -> str:
    return repr(value)[:40]


def items_passing(checked: Filter, items: ItemTable) -> BoolArray:
    """Return which items a filter leaves, shape (n_items,); unknown names are refused.

    Parameters
    ----------
    checked : tuple
        From :func:`checked_filter`.
    items : ItemTable
        The items there are.

    Returns
    -------
    bool ndarray of shape (n_items,)
    """
    name, value = checked
    if name == "not":
        return ~items_passing(value, items)
    if name in ("and", "or"):
        combine = np.logical_and if name == "and" else np.logical_or
        return np.asarray(combine.reduce([items_passing(part, items) for part in value]))
    return items.having(name, value)
