"""Parameters of a class as its source states them: loading it would load torch, for seconds."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any

import groupnoise

ROOT = Path(groupnoise.__path__[0]).parent


def stated_parameters(module: str, name: str) -> dict[str, Any]:
    """Return the parameters of a dataclass, or of an `__init__`, and their defaults.

    As `inspect.signature` has them. `module`: where the class is defined, or is imported to.
    """
    found = _defined(module, name)
    return {} if found is None else _of_class(*found)


def _of_class(module: str, node: ast.ClassDef) -> dict[str, Any]:
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == "__init__":
            only = dict(zip(each.args.kwonlyargs, each.args.kw_defaults, strict=True))
            return {argument.arg: _value(module, default) for argument, default in only.items()}
    parameters: dict[str, Any] = {}
    for base in reversed(node.bases):
        found = _defined(module, ast.unparse(base).partition("[")[0])
        parameters |= {} if found is None else _of_class(*found)
    if any("dataclass" in ast.unparse(each) for each in node.decorator_list):
        for each in node.body:
            if not isinstance(each, ast.AnnAssign) or "ClassVar" in ast.unparse(each.annotation):
                continue
            name = ast.unparse(each.target)
            if isinstance(each.value, ast.Call):  # field(init=False): learned, or fixed
                parameters.pop(name, None)
            else:
                parameters[name] = _value(module, each.value)
    return parameters


def _value(module: str, node: ast.expr | None) -> Any:
    """Return a default: a literal, or a constant of the module."""
    if node is None:
        return None
    if isinstance(node, ast.Name):
        for each in _tree(module).body:
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == node.id:
                return _value(module, each.value)
            if isinstance(each, ast.ImportFrom) and node.id in {a.name for a in each.names}:
                return _value(str(each.module), node)
    return ast.literal_eval(node)


def _defined(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """Return the class of a name and the module that defines it; None for other packages' own."""
    if not module.startswith("groupnoise"):
        return None
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if name == (alias.asname or alias.name):
                    return _defined(str(node.module), alias.name)
    return None


@functools.cache
def _tree(module: str) -> ast.Module:
    path = ROOT.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
