"""Templates rendered to pages that need nothing beside themselves."""

from __future__ import annotations

from typing import Any

from groupnoise.pages.charts import grey_cells

HERE = "groupnoise.pages"


def render_page(template: str, *, package: str, **values: Any) -> str:
    """Return a template as the text of a page.

    `template`: file name of the template. `package`: the package whose folder holds it; files that
    it does not have come from this folder. `values`: what the template speaks of; a name it does
    not get is an error.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader(package, "."), jinja2.PackageLoader(HERE, ".")]
        ),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["grey_cells"] = grey_cells
    return environment.get_template(template).render(**values)
