"""Names that load their module on first use."""

import pytest

from groupnoise._lazy import lazy_names

NAMES = {"fractions": "Fraction", "json": "dumps loads"}


def test_a_name_is_looked_up_where_it_lives():
    import fractions

    get, *_ = lazy_names("package", NAMES)
    assert get("Fraction") is fractions.Fraction


def test_nothing_is_imported_before_it_is_asked_for():
    get, *_ = lazy_names("package", {"no_such_module": "anything"})
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        get("anything")


def test_an_unknown_name_is_an_attribute_error():
    get, *_ = lazy_names("package", NAMES)
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'Fractoin'"):
        get("Fractoin")


def test_names_are_listed():
    _, names, listed = lazy_names("package", NAMES)
    assert names() == listed == ["Fraction", "dumps", "loads"]
