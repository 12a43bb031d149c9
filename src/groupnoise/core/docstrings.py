"""Docstrings of subclasses: what is said of a parameter stands once, where it is defined."""

from __future__ import annotations

import inspect
import re
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)

HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)
LITERALS = (str, int, float, bool, tuple, type(None))


def inherit_docstring(cls: Class) -> Class:
    """Complete the numpydoc of a class, and of the methods it overrides, from its bases.

    The class gets the Parameters of its signature and the Attributes that it does not describe
    itself; a method that opens with a sentence of its own gets Parameters and Returns. Defaults
    are those of this class, so a new default is no reason to describe a parameter again.

    Parameters
    ----------
    cls : type
        The class. A dataclass is made one first: the signature says what the parameters are.

    Returns
    -------
    type
        The same class.
    """
    bases = [base for base in reversed(cls.__mro__[1:]) if base is not object]
    _complete(cls, bases)
    for name, value in vars(cls).items():
        method = _function(value)
        if inspect.isfunction(method) and not name.startswith("_"):
            _complete(method, [_function(vars(base)[name]) for base in bases if name in vars(base)])
    return cls


def _function(value: Any) -> Any:
    return value.__func__ if isinstance(value, (classmethod, staticmethod)) else value


def _complete(definition: Any, bases: list[Any]) -> None:
    """Add what the docstrings of the bases, the most remote first, say beside its own."""
    if not definition.__doc__ or not bases:
        return
    summary, sections = _read(definition.__doc__)
    inherited: dict[str, dict[str, str]] = {}
    for base in bases:
        for heading, entries in _read(base.__doc__ or "")[1].items():
            inherited[heading] = {**inherited.get(heading, {}), **entries}
    own, parameters = sections.pop("Parameters", {}), {}
    for name, parameter in inspect.signature(definition).parameters.items():
        if name in own:
            parameters[name] = own.pop(name)
        elif name in inherited.get("Parameters", {}):
            parameters[name] = _with_default(inherited["Parameters"][name], parameter.default)
    complete = {"Parameters": {**parameters, **own}}
    if inspect.isclass(definition):
        attributes = sections.pop("Attributes", {})
        complete["Attributes"] = {**inherited.get("Attributes", {}), **attributes}
    elif "Returns" in inherited:
        complete["Returns"] = sections.pop("Returns", inherited["Returns"])
    definition.__doc__ = summary + "".join(
        f"\n\n{heading}\n{'-' * len(heading)}\n" + "\n".join(entries.values())
        for heading, entries in {**complete, **sections}.items()
        if entries
    )


def _read(docstring: str) -> tuple[str, dict[str, dict[str, str]]]:
    """Return what stands before the sections, and of each section its entries by name."""
    summary, *parts = HEADING.split(inspect.cleandoc(docstring))
    sections = {}
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        in_entries = heading in ("Parameters", "Attributes")
        entries = ENTRY.split(text)[1:] if in_entries else [text]
        sections[heading] = {_name(entry): entry.rstrip() for entry in entries}
    return summary.rstrip(), sections


def _name(entry: str) -> str:
    return entry.partition("\n")[0].partition(" : ")[0].lstrip("*")


def _with_default(entry: str, default: Any) -> str:
    """Return an entry whose first line names this default, and that "auto" is allowed."""
    head, newline, text = entry.partition("\n")
    kind, says_default, _ = head.partition(", default=")
    if not says_default or not isinstance(default, LITERALS):
        return entry
    name, colon, values = kind.partition(" : ")
    if default == "auto" and '"auto"' not in values:
        values = f'"auto" or {values}'
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{name}{colon}{values}{says_default}{shown}{newline}{text}"
