"""A description as one self-contained HTML page: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from groupnoise.io.description import Description
from groupnoise.io.files import write_text
from groupnoise.io.registry import DatasetEntry


def format_fact(value: int | float | str) -> str:
    """Write a count with thousands apart, a mean with three digits or none, text as it is.

    Examples
    --------
    >>> format_fact(47355), format_fact(0.13999), format_fact("keep")
    ('47,355', '0.14', 'keep')
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def description_page(description: Description, entry: DatasetEntry | None = None) -> str:
    """Return a description as the text of an HTML page.

    Parameters
    ----------
    description : Description
        What `describe` returned.
    entry : DatasetEntry, optional
        Adds the citation, terms and origin of a named set.
    """
    import jinja2

    folder = resources.files("groupnoise.io")
    template = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True
    ).from_string(folder.joinpath("describe.html").read_text("utf-8"))
    return template.render(description=description, entry=entry, format_fact=format_fact)


def write_description(
    path: str | Path, description: Description, entry: DatasetEntry | None = None
) -> None:
    """Write `description_page` to a file, whole or not at all.

    Parameters
    ----------
    path : path
        The HTML file to write.
    description : Description
        What :func:`describe` returned.
    entry : DatasetEntry, optional
        Adds the citation, terms and origin of a named set.
    """
    write_text(Path(path), description_page(description, entry))
