"""A parameter is described where it is defined: no subclass writes its description out again."""

import ast
import inspect
from pathlib import Path

import groupnoise
from groupnoise.core.words import _read

PACKAGE = Path(groupnoise.__path__[0])


def written(folder):
    """Return of each class the names of its bases, and its entries as the source has them."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                sections = _read(inspect.cleandoc(ast.get_docstring(node) or ""))[1]
                entries = {**sections.get("Attributes", {}), **sections.get("Parameters", {})}
                texts = {name: entry.partition("\n")[2] for name, entry in entries.items()}
                bases = [ast.unparse(base).partition("[")[0] for base in node.bases]
                found.setdefault(node.name, (bases, texts))
    return found


def ancestors(name, classes):
    for base in classes.get(name, ((), {}))[0]:
        if base in classes and base != name:
            yield base
            yield from ancestors(base, classes)


def repeated(classes):
    return [
        f"{name}.{parameter} is described in {base}"
        for name, (_, texts) in classes.items()
        for base in dict.fromkeys(ancestors(name, classes))
        for parameter, text in texts.items()
        if text and classes[base][1].get(parameter) == text
    ]


def test_no_class_repeats_what_its_base_says_of_a_parameter():
    assert not repeated(written(PACKAGE))


def test_the_gate_sees_a_repetition(tmp_path):
    said = '"""A.\n\nParameters\n----------\nrate : float, default={}\n    Step.\n"""'
    base, child = (said.format(default).replace("\n", "\n    ") for default in (1, 2))
    (tmp_path / "module.py").write_text(
        f"class Base:\n    {base}\n\nclass Child(Base):\n    {child}\n"
    )
    assert repeated(written(tmp_path)) == ["Child.rate is described in Base"]
