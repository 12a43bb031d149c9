"""A parameter is described where it is defined; subclasses show it, with their own default."""

import inspect
from dataclasses import dataclass

from groupnoise.core.words import inherit_docstring


@inherit_docstring
@dataclass(kw_only=True)
class Base:
    """A base.

    Parameters
    ----------
    rate : float, default=0.1
        Step size.
    name : str, default="a"
        A name
        on two lines.

    Attributes
    ----------
    size_ : int
        Found in `fit`.
    """

    rate: float = 0.1
    name: str = "a"

    def fit(self, rows, groups=None):
        """Learn.

        Parameters
        ----------
        rows : list
            What is learned.
        groups : list, optional
            Of the rows.

        Returns
        -------
        Base
            Itself.
        """

    def predict(self, rows, groups, top=5):
        """Answer.

        Returns
        -------
        list
            Answers.
        """

    def best(self, top):
        """Answer with the best.

        Parameters
        ----------
        top : int
            How many.

        Returns
        -------
        list
            Answers.
        """


@inherit_docstring
@dataclass(kw_only=True)
class Child(Base):
    """A child.

    It says more.

    Parameters
    ----------
    depth : int, default=2
        Layers.

    Attributes
    ----------
    layers_ : list
        Trained.

    Examples
    --------
    >>> 1 + 1
    2
    """

    depth: int = 2
    rate: object = "auto"

    def fit(self, rows, *, depth=None):
        """Learn in depth.

        Parameters
        ----------
        depth : int, optional
            Instead of the parameter.
        """


def test_a_subclass_shows_what_its_base_describes_with_its_own_default():
    assert inspect.getdoc(Child) == inspect.cleandoc(
        """
        A child.

        It says more.

        Parameters
        ----------
        depth : int, default=2
            Layers.
        rate : "auto" or float, default="auto"
            Step size.
        name : str, default="a"
            A name
            on two lines.

        Attributes
        ----------
        size_ : int
            Found in `fit`.
        layers_ : list
            Trained.

        Examples
        --------
        >>> 1 + 1
        2
        """
    )


def test_an_overriding_method_shows_the_parameters_of_its_own_signature_and_the_result():
    assert inspect.getdoc(Child.fit) == inspect.cleandoc(
        """
        Learn in depth.

        Parameters
        ----------
        rows : list
            What is learned.
        depth : int, optional
            Instead of the parameter.

        Returns
        -------
        Base
            Itself.
        """
    )


def test_a_method_shows_a_parameter_that_another_method_describes():
    assert "rows : list\n    What is learned." in inspect.getdoc(Base.predict)


def test_such_a_parameter_has_the_default_of_the_method_or_none():
    assert "groups : list\n    Of the rows." in inspect.getdoc(Base.predict)
    assert "top : int, default=5\n    How many." in inspect.getdoc(Base.predict)


def test_a_class_without_docstring_stays_without():
    @inherit_docstring
    class Silent(Base):
        pass

    assert Silent.__doc__ is None
