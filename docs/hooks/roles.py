"""Docstrings for the reference: completed from the bases, :func:`name` read as a link."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import re
from typing import Any

from griffe import Extension, Object

import groupnoise

CHOICES = re.compile(r"^( *[\w, ]+ : \{)([^}\n]*)(\}[^\n]*, default=([^\n]+))$", re.MULTILINE)
"""A parameter with choices: griffe takes the first of them for the default, whatever follows."""
ROLE = re.compile(r":(?:func|class|meth|attr|mod|data|exc):`(~?)([\w.]+)`")


class LinkedRoles(Extension):
    """Rewrites the docstring of every object once it is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Put a link in place of every role; `~` shows the last word of the name alone."""
        if obj.docstring is not None:
            if _inherits(obj) or (obj.parent is not None and _inherits(obj.parent)):
                obj.docstring.value = _docstring_at_run_time(obj)
            text = CHOICES.sub(_with_default_first, obj.docstring.value)
            obj.docstring.value = ROLE.sub(lambda found: _link(found[1], found[2], obj), text)


def _with_default_first(found: re.Match[str]) -> str:
    choices = [choice.strip() for choice in found[2].split(",")]
    if found[4] not in choices:
        return found[0]
    others = [choice for choice in choices if choice != found[4]]
    return found[1] + ", ".join([found[4], *others]) + found[3]


def _inherits(obj: Object) -> bool:
    """Whether a class takes what its docstring leaves out from its bases."""
    return obj.is_class and any(
        str(decorator.value) == "inherit_docstring" for decorator in obj.decorators
    )


def _docstring_at_run_time(obj: Object) -> str:
    """Return the docstring that `help` shows; the source of a subclass has a part of it."""
    definition: Any = importlib.import_module(obj.module.path)
    for name in obj.path.removeprefix(f"{obj.module.path}.").split("."):
        definition = inspect.getattr_static(definition, name)
    return inspect.getdoc(getattr(definition, "__func__", definition)) or obj.docstring.value


def _link(short: str, name: str, owner: Object) -> str:
    shown = name.rpartition(".")[2] if short else name
    target = name if "." in name else _neighbour(name, owner)
    has_page = target is not None and any(
        target == name or target.startswith(f"{name}.") for name in _public_paths()
    )
    return f"[`{shown}`][{target}]" if has_page else f"`{shown}`"


@functools.cache
def _public_paths() -> frozenset[str]:
    """Return the paths of all public names, which alone have a place in the reference."""
    rooms = ["groupnoise", *_rooms()]
    return frozenset(
        f"{room}.{name}"
        for room in rooms
        for name in getattr(importlib.import_module(room), "__all__", ())
    )


def _rooms() -> list[str]:
    found = pkgutil.walk_packages(groupnoise.__path__, "groupnoise.")
    return [info.name for info in found if info.ispkg]


def _neighbour(name: str, owner: Object) -> str | None:
    """Return the full path of a bare name: a method of the same class, or of the same folder.

    None if it is inherited: the page of the class shows it, but under no path of its own.
    """
    home = owner if owner.is_class else owner.parent
    if home is not None and home.is_class:
        return f"{home.path}.{name}" if name in home.members else None
    module = owner.module
    room = module.path if module.is_init_module else module.path.rpartition(".")[0]
    return f"{room}.{name}"
