"""Public names that load their module on first use, so that imports stay quick."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(
    package: str, names: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose names live in modules.

    Type checkers do not run it: they read the same names from imports for them alone.

    `package`: `__name__` of the package. `names`: for each module, by its absolute name, the public
    names that it defines, parted by blanks.
    """
    home = {name: module for module, listed in names.items() for name in listed.split()}

    def __getattr__(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home[name]), name)

    def __dir__() -> list[str]:
        return sorted(home)

    return __getattr__, __dir__, sorted(home)
