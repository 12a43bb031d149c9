"""Counts and lists in messages, and docstrings that inherit parameter descriptions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import cache
from typing import Any, TypeVar

ENDINGS = (("ies", "y"), ("sses", "ss"), ("s", ""))
MAX_PARTS, FEW_PARTS = 12, 3
"""Parts that all stand in a sentence, and how many stand there of more."""


class Topic(Enum):
    """What a message is about, for callers that treat some messages differently."""

    TYPO = "typo"
    UNITS = "units"
    CLICKS = "clicks"
    ORDER = "order"


class Message(str):
    """A sentence for a report with a topic, by which it is recognized whatever its wording."""

    topic: Topic | None

    def __new__(cls, sentence: str, topic: Topic | None = None) -> Message:  # noqa: D102
        message = super().__new__(cls, sentence)
        message.topic = topic
        return message


def topic_of(sentence: str) -> Topic | None:
    """Return the topic of a message; None for plain text.

    >>> topic_of(Message("clicks of a bot", Topic.CLICKS)), topic_of("a note")
    (<Topic.CLICKS: 'clicks'>, None)
    """
    return getattr(sentence, "topic", None)


def counted(number: int, things: str, form: str = "") -> str:
    """Return a number of things as text, in the singular if it is one.

    `things`: plural that ends in s. `form`: format of the number, such as ",".

    >>> counted(1, "new histories"), counted(1, "classes"), counted(0, "bags")
    ('1 new history', '1 class', '0 bags')
    """
    if number == 1:
        ending, alone = next(pair for pair in ENDINGS if things.endswith(pair[0]))
        things = things.removesuffix(ending) + alone
    return f"{number:{form}} {things}"


def quoted(names: Sequence[str]) -> str:
    """Return quoted names joined by "and"."""
    return " and ".join(map(repr, names))


def join_with_and(parts: Iterable[str]) -> str:
    """Join parts with commas and "and"; only the first few if there are many.

    >>> join_with_and(["a"]), join_with_and(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    shown = list(parts)
    if len(shown) > MAX_PARTS:
        shown = [*shown[:FEW_PARTS], f"{len(shown) - FEW_PARTS} more"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def error_text(error: Exception) -> str:
    """Return the first line of the message of an exception."""
    return str(error).split("\n", 1)[0] or type(error).__name__


Class = TypeVar("Class", bound=type)

HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)
LITERALS = (str, int, float, bool, tuple, type(None))


def inherit_docstring(cls: Class, like: type | None = None) -> Class:
    """Complete the numpydoc of a class and of its methods.

    Parameters and Attributes that a class does not describe come from its bases. A method inherits
    Parameters and Returns of the method it overrides, then parameters described by other methods
    of the class. Defaults are taken from the signature.

    `cls`: apply `dataclass` first, which makes the signature. `like`: a further class to inherit
    the descriptions of methods from.
    """
    bases = (*cls.__mro__[1:-1], *([] if like is None else [like]))
    _complete(cls, [base.__doc__ for base in bases], [])
    docstrings = [method.__doc__ for base in cls.__mro__[:-1] for method in _methods(base).values()]
    for name, method in _methods(cls).items():
        overridden = [_methods(base)[name].__doc__ for base in bases if name in _methods(base)]
        _complete(method, overridden, docstrings)
    return cls


def _methods(cls: type) -> dict[str, Any]:
    """Return the public methods that a class itself defines."""
    members = {
        name: value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        for name, value in vars(cls).items()
        if not name.startswith("_")
    }
    return {name: value for name, value in members.items() if inspect.isfunction(value)}


def _complete(definition: Any, inherited: list[str | None], beside: list[str | None]) -> None:
    """Add to a docstring what those say that it inherits from, and those that stand beside it."""
    if not definition.__doc__:  # nothing said, or run without docstrings
        return
    summary, sections = _read(definition.__doc__)
    bases = [_read(docstring)[1] for docstring in inherited if docstring]
    own, parameters = sections.get("Parameters", {}), {}
    for name, parameter in inspect.signature(definition).parameters.items():
        if name in own:
            parameters[name] = own[name]
        elif entry := _first_entry([*inherited, *beside], name):
            parameters[name] = _with_default(entry, parameter.default)
    complete = {"Parameters": {**parameters, **own}}
    if inspect.isclass(definition):
        complete["Parameters"] = {**own, **parameters}  # what is its own comes first
        attributes: dict[str, str] = {}
        for each in (*reversed(bases), sections):
            attributes |= each.get("Attributes", {})
        complete["Attributes"] = attributes
    else:
        results = [each["Returns"] for each in (sections, *bases) if "Returns" in each]
        complete["Returns"] = results[0] if results else {}
    definition.__doc__ = summary + "".join(
        f"\n\n{heading}\n{'-' * len(heading)}\n" + "\n".join(entries.values())
        for heading, entries in {**complete, **sections, **complete}.items()
        if entries
    )


def _first_entry(docstrings: list[str | None], name: str) -> str | None:
    found = (_read(each)[1].get("Parameters", {}).get(name) for each in docstrings if each)
    return next(filter(None, found), None)


@cache
def _read(docstring: str) -> tuple[str, dict[str, dict[str, str]]]:
    """Return what stands before the sections, and of each section its entries by name."""
    summary, *parts = HEADING.split(inspect.cleandoc(docstring))
    sections = {}
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        has_names = heading in ("Parameters", "Attributes")
        entries = ENTRY.split(text)[1:] if has_names else [text]
        sections[heading] = {_name(entry): entry.rstrip() for entry in entries}
    return summary.rstrip(), sections


def _name(entry: str) -> str:
    return entry.partition("\n")[0].partition(" : ")[0].lstrip("*")


def _with_default(entry: str, default: Any) -> str:
    """Return an entry whose first line names this default, and "auto" if it is that."""
    head, newline, text = entry.partition("\n")
    kind, says_default, before = head.partition(", default=")
    kind = kind.removesuffix(", optional")
    if default is inspect.Parameter.empty:
        return f"{kind}{newline}{text}"
    if not isinstance(default, LITERALS) or (default is None and not says_default):
        return entry
    name, colon, values = kind.partition(" : ")
    if default == "auto" and '"auto"' not in before + values:
        values = f'"auto" or {values}'
    shown = f'"{default}"' if isinstance(default, str) else repr(default)
    return f"{name}{colon}{values}, default={shown}{newline}{text}"


def describe_fact(name: str, value: Any) -> str:
    """Return a fact as a list of facts says it; nothing for what the data lacks.

    >>> describe_fact("labels per bag", 1.0), describe_fact("fraction of zeros", 0.433)
    ('1 label per bag', '43% zeros')
    """
    if not value:
        return ""
    if value is True:
        return name
    if isinstance(value, str):
        return f"{name}: {value}"
    if name.startswith("fraction of "):
        return f"{value:.0%} {name.removeprefix('fraction of ')}"
    first, *rest = name.split(" ")
    named = " ".join([first.removesuffix("s") if value == 1 else first, *rest])
    return f"{value:.3g} {named}" if isinstance(value, float) else f"{value:,} {named}"
