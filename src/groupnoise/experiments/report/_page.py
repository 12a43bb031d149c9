"""Templates of this folder, rendered to pages that need nothing beside themselves."""

from __future__ import annotations

from typing import Any

from groupnoise.experiments.report._charts import grey_cells


def render_page(template: str, **values: Any) -> str:
    """Return a template of this folder as the text of a page.

    Parameters
    ----------
    template : str
        File name of the template.
    **values
        What the template speaks of; a name it does not get is an error.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("groupnoise.experiments.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["grey_cells"] = grey_cells
    return environment.get_template(template).render(**values)
