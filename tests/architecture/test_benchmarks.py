"""Benchmarks and examples run seldom, so what they import is looked at by every test run."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted(
    path
    for folder in ("benchmarks", "examples", "deploy")
    for path in (ROOT / folder).rglob("*.py")
)


def programs(text: str) -> Iterator[ast.Module]:
    """Give a script, and the programs that it holds as text to start in other processes."""
    script = ast.parse(text)
    yield script
    for node in ast.walk(script):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value:
            try:
                yield ast.parse(node.value)
            except SyntaxError:  # prose
                continue


def is_there(module: str, name: str) -> bool:
    if hasattr(importlib.import_module(module), name):
        return True
    return importlib.util.find_spec(f"{module}.{name}") is not None


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_script_imports_from_the_package_is_there(script: Path) -> None:
    missing = [
        f"{node.module}.{each.name}"
        for program in programs(script.read_text())
        for node in ast.walk(program)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("groupnoise")
        for each in node.names
        if not is_there(str(node.module), each.name)
    ]
    assert missing == []
