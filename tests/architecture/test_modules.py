"""Modules stay short enough to be read, and a name stands for one class or function."""

import ast
from collections import defaultdict
from pathlib import Path

import groupnoise

PACKAGE = Path(groupnoise.__path__[0])
MAX_LINES = 400


def sources():
    """Text of each module, by its path inside the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def test_no_module_is_longer_than_four_hundred_lines():
    lengths = {name: text.count("\n") for name, text in sources().items()}
    assert not {name: n for name, n in lengths.items() if n > MAX_LINES}


def test_no_name_stands_for_two_classes_or_functions():
    """A command may be called as what it runs: people type its name."""
    homes = defaultdict(list)
    for name, text in sources().items():
        for node in ast.parse(text).body:
            is_class = isinstance(node, ast.ClassDef)
            is_function = isinstance(node, ast.FunctionDef) and not name.startswith("cli/")
            if (is_class or is_function) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert not {name: where for name, where in homes.items() if len(where) > 1}
