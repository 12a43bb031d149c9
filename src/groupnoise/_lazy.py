"""Public names that load their module on first use, so that imports stay quick."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` of a package whose names live in modules.

    The names are those that its `__init__.py` imports under `if TYPE_CHECKING`: type checkers read
    them there, and here they are read from its text, since Python passes them over.

    `package`: `__name__` of the package.
    """
    loader: Any = sys.modules[package].__loader__
    home = {
        alias.name: imports.module
        for block in ast.parse(loader.get_source(package)).body
        if isinstance(block, ast.If)
        for imports in block.body
        if isinstance(imports, ast.ImportFrom) and imports.module is not None
        for alias in imports.names
    }

    def __getattr__(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(home[name]), name)

    def __dir__() -> list[str]:
        return sorted(home)

    return __getattr__, __dir__, sorted(home)
