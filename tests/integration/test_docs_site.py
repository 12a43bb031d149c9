"""What the documentation build adds to mkdocs: formulas, links in docstrings, complete pages."""

import importlib.util
import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest

import groupnoise

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")

from griffe import visit
from mkdocs.exceptions import PluginError
from mkdocstrings import Inventory

DOCS = Path(__file__).parents[2] / "docs"


def hook(name):
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / "hooks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_formulas_become_mathml_and_code_stays_code():
    page = (
        '<p><span class="arithmatex">\\(a &lt; b\\)</span> <code>\\(c\\)</code></p>'
        '<div class="arithmatex">\n\\[\nx_i\n\\]</div>'
    )
    shown = hook("formulas").on_page_content(page)
    assert "arithmatex" not in shown
    assert shown.count("<math") == 2
    assert "<mi>a</mi>" in shown
    assert "<code>\\(c\\)</code>" in shown


@pytest.mark.parametrize(
    ("role", "link"),
    [
        (":func:`groupnoise.core.hit_at_k`", "[`groupnoise.core.hit_at_k`]"),
        (":class:`~groupnoise.Groups`", "[`Groups`][groupnoise.Groups]"),
        (":meth:`every`", "[`every`][groupnoise.training.Checkpoints.every]"),
        (":meth:`inherited`", "`inherited`"),
        (":class:`torch.nn.Module`", "`torch.nn.Module`"),
    ],
)
def test_roles_of_docstrings_become_links_where_there_is_a_page(role, link):
    roles = hook("roles")
    code = f'class Checkpoints:\n    """See {role} first."""\n    def every(self): ...\n'
    module = visit("groupnoise.training", filepath=Path("training.py"), code=code)
    checkpoints = module["Checkpoints"]
    roles.LinkedRoles().on_object(obj=checkpoints)
    assert f"See {link}" in checkpoints.docstring.value


def test_a_bare_function_is_looked_for_in_its_public_folder():
    code = 'def save():\n    """See :func:`stop_on_signals`."""\n'
    module = visit("groupnoise.training.files", filepath=Path("_files.py"), code=code)
    hook("roles").LinkedRoles().on_object(obj=module["save"])
    shown = "[`stop_on_signals`][groupnoise.training.stop_on_signals]"
    assert module["save"].docstring.value == f"See {shown}."


def test_the_default_of_choices_comes_first_as_the_reference_reads_it():
    entry = 'encoder : {"linear", "mlp"}, default="mlp"'
    lines = ["Say.", "", "Parameters", "----------", entry, "    Text."]
    code = 'class Model:\n    """' + "\n    ".join(lines) + '\n    """\n'
    module = visit("groupnoise.training", filepath=Path("training.py"), code=code)
    docstring = module["Model"].docstring
    assert docstring.parse("numpy")[1].value[0].default == '"linear"'  # what the hook is for
    hook("roles").LinkedRoles().on_object(obj=module["Model"])
    assert 'encoder : {"mlp", "linear"}, default="mlp"' in docstring.value


def test_the_reference_shows_what_a_class_and_its_methods_inherit():
    from groupnoise.candidates.baselines import CCClassifier

    source = Path(inspect.getsourcefile(CCClassifier))
    module = visit(CCClassifier.__module__, filepath=source, code=source.read_text())
    roles = hook("roles").LinkedRoles()
    shown = module["CCClassifier"]
    roles.on_object(obj=shown)
    assert "hidden : int or tuple of int, default=300" in shown.docstring.value
    fit = module["NeuralPartialLabelClassifier.fit"]
    assert "X : array-like" not in fit.docstring.value
    roles.on_object(obj=fit)
    assert "X : array-like of shape (n_rows, n_features)" in fit.docstring.value


def test_a_site_without_a_public_name_is_refused(tmp_path):
    reference = hook("reference")
    names = [
        f"{module}.{name}" for module, names in reference.public_names().items() for name in names
    ]
    assert f"groupnoise.{groupnoise.__all__[0]}" in names
    assert "groupnoise.exceptions.DataError" in names
    config = SimpleNamespace(site_dir=str(tmp_path))

    def write(documented):
        inventory = Inventory()
        for name in documented:
            inventory.register(name=name, domain="py", role="class", uri="x.html")
        (tmp_path / "objects.inv").write_bytes(inventory.format_sphinx())

    write(names)
    reference.on_post_build(config)
    write([name for name in names if name != "groupnoise.GroupLoss"])
    with pytest.raises(PluginError, match=r"documentation: groupnoise\.GroupLoss$"):
        reference.on_post_build(config)


def test_a_page_that_the_navigation_forgets_is_listed_under_guides(tmp_path):
    for name in ("index.md", "known.md", "new.md"):
        (tmp_path / name).write_text("# Title\n")
    nav = [{"Home": "index.md"}, {"Guides": [{"Known": "known.md"}]}]
    hook("navigation").on_config(SimpleNamespace(nav=nav, docs_dir=str(tmp_path)))
    assert nav[1] == {"Guides": [{"Known": "known.md"}, "new.md"]}
