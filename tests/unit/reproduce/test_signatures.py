"""Parameters read from the source are those that the classes have."""

import inspect

import pytest

from groupnoise.reproduce.methods import (
    METHODS,
    declared_parameters,
    import_class,
    parameters_of_class,
)

CLASSES = sorted({entry.home: entry for entry in METHODS}.items())


@pytest.mark.parametrize(("home", "entry"), CLASSES, ids=[home for home, _ in CLASSES])
def test_names_defaults_and_order_are_those_of_the_class(home, entry):
    signature = inspect.signature(import_class(entry))
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = {p.name: p.default for p in signature.parameters.values() if p.kind in by_name}
    module, _, name = home.partition(":")
    stated = declared_parameters(module, name)
    assert stated == found
    assert list(stated) == list(found)
    assert parameters_of_class(name) == found


def test_a_class_of_no_method_has_none():
    assert parameters_of_class("Nobody") == {}
