"""Names that load their module on first use."""

import importlib
import sys

import pytest

PACKAGE = """
from typing import TYPE_CHECKING

from groupnoise._lazy import lazy_names

if TYPE_CHECKING:
    from fractions import Fraction as Fraction
    from json import dumps as dumps, loads as loads
    from no_such_module import anything as anything

__getattr__, __dir__, __all__ = lazy_names(__name__)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    (tmp_path / "lazy_package").mkdir()
    (tmp_path / "lazy_package" / "__init__.py").write_text(PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("lazy_package")
    del sys.modules["lazy_package"]


def test_a_name_is_looked_up_where_it_lives(package):
    import fractions

    assert package.Fraction is fractions.Fraction


def test_nothing_is_imported_before_it_is_asked_for(package):
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        _ = package.anything


def test_an_unknown_name_is_an_attribute_error(package):
    with pytest.raises(AttributeError, match="module 'lazy_package' has no attribute 'Fractoin'"):
        _ = package.Fractoin


def test_names_are_listed(package):
    assert dir(package) == package.__all__ == ["Fraction", "anything", "dumps", "loads"]
