"""Reading numpydoc: what a docstring says about parameters, defaults and results."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

NOT_GIVEN = object()
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def sections_of(docstring: str) -> dict[str, str]:
    """Return the text of each section by its heading."""
    parts = SECTION.split(docstring)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def entries_of(section: str) -> dict[str, str]:
    """Return the type line of each name of a Parameters or Attributes section."""
    heads = re.findall(r"^([\w*][\w*, ]*?)(?: : (.*))?$", section, re.MULTILINE)
    return {
        name.strip().lstrip("*"): kind for head, kind in heads for name in head.split(",") if name
    }


def described_by(definition: Any) -> dict[str, str]:
    """Return what the docstring that `help` shows says of parameters."""
    sections = sections_of(inspect.getdoc(definition) or "")
    return entries_of(sections.get("Attributes", "")) | entries_of(sections.get("Parameters", ""))


def defaults_of(definition: Any) -> dict[str, Any]:
    """Return the parameters of a definition with their defaults, `NOT_GIVEN` where none is."""
    if is_dataclass(definition):
        return {
            field.name: NOT_GIVEN
            if field.default is MISSING or field.default_factory is not MISSING
            else field.default
            for field in fields(definition)
            if field.init and not field.name.startswith("_")
        }
    skipped = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {
        name: NOT_GIVEN if each.default is inspect.Parameter.empty else each.default
        for name, each in inspect.signature(definition).parameters.items()
        if name not in ("self", "cls") and each.kind not in skipped
    }


def names_the_default(kind: str, default: Any) -> bool:
    """Whether a type line says what happens where nothing is given."""
    if default is None and re.search(r"\boptional\b", kind):
        return True
    said = re.search(r"default=(.+)$", kind)
    if said is None:
        return False
    if not isinstance(default, (str, int, float, bool, tuple, type(None))):
        return True  # an object: its name is for the reader alone
    return bool(ast.literal_eval(said.group(1)) == default)


def public_methods(definition: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods of a class that this package wrote, whichever base holds them."""
    for name in dir(definition):
        if name.startswith("_"):
            continue
        value = inspect.getattr_static(definition, name)
        function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if not inspect.isfunction(function) or not function.__module__.startswith("groupnoise"):
            continue
        yield name, getattr(definition, name)


def returns_something(definition: Any) -> bool:
    """Whether the annotation of the result says that there is one."""
    said = inspect.signature(definition).return_annotation
    return said not in (None, "None", "NoReturn", inspect.Signature.empty)


def missing_in(definition: Any) -> list[str]:
    """Return what the numpydoc of a definition leaves out, in words."""
    described = described_by(definition)
    missing = []
    for name, default in defaults_of(definition).items():
        if name not in described:
            missing.append(f"parameter {name} is not described")
        elif default is not NOT_GIVEN and not names_the_default(described[name], default):
            missing.append(f"parameter {name}: its default {default!r} is not named")
    if not inspect.isclass(definition):
        headings = sections_of(inspect.getdoc(definition) or "")
        if returns_something(definition) and not {"Returns", "Yields"} & headings.keys():
            missing.append("Returns is missing")
        missing += [
            f"{name} is described and no parameter"
            for name in entries_of(headings.get("Parameters", ""))
            if name not in inspect.signature(definition).parameters
        ]
    return missing
