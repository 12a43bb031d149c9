"""Modules and names that the documentation speaks of exist."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import groupnoise

ROOT = Path(__file__).parents[2]
PACKAGE = Path(groupnoise.__file__).parent
ROOMS = {info.name for info in pkgutil.iter_modules(groupnoise.__path__) if info.ispkg}
FILE_ENDINGS = {"py", "csv", "json", "jsonl", "parquet", "tsv", "txt", "toml"}
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md")])


def resolves(dotted: str) -> bool:
    """Whether a dotted name leads through modules to a name that is there."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            if not hasattr(found, name):
                return False
            found = getattr(found, name)
        return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_of_the_package_resolve(page):
    text = page.read_text(encoding="utf-8")
    dotted = set(re.findall(r"\bgroupnoise(?:\.[A-Za-z_]\w*)+", text))
    rooms = "|".join(sorted(ROOMS))
    dotted |= {f"groupnoise.{name}" for name in re.findall(rf"`((?:{rooms})\.[A-Za-z_]\w*)", text)}
    names = [name for name in sorted(dotted) if name.rpartition(".")[2] not in FILE_ENDINGS]
    assert not [name for name in names if not resolves(name)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_package_exist(page):
    rooms = "|".join(sorted(ROOMS))
    named = re.findall(rf"`((?:{rooms})/[\w/.]*)", page.read_text(encoding="utf-8"))
    assert not [name for name in named if not (PACKAGE / name).exists()]
