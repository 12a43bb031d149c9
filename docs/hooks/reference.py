"""The reference: one page per public folder, and a build that fails if a public name is missing.

The pages are made from the package, so that a new folder or name needs no edit here; what cannot
be made is a docstring, and a public name without one stops the build.
"""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocstrings import Inventory

import groupnoise

FOLDER = "reference"


def public_names() -> dict[str, list[str]]:
    """Return the public names of each room, the package itself first."""
    modules = {"groupnoise": groupnoise}
    for info in pkgutil.walk_packages(groupnoise.__path__, "groupnoise."):
        if info.ispkg or info.name == "groupnoise.exceptions":
            modules[info.name] = importlib.import_module(info.name)
    found = {name: _names_of(module) for name, module in modules.items()}
    return {name: names for name, names in found.items() if names}


def _names_of(module: ModuleType) -> list[str]:
    """Return what `__all__` of a room lists; the errors are a module of their own."""
    if module.__name__ == "groupnoise.exceptions":
        return [name for name, value in vars(module).items() if isinstance(value, type)]
    return [name for name in getattr(module, "__all__", ()) if not name.startswith("_")]


def on_config(config: MkDocsConfig, **_: Any) -> None:
    """List the pages of the reference where the navigation asks for them."""
    for entry in config.nav or []:
        if entry.get("Reference") == FOLDER:
            entry["Reference"] = [{name: _uri(name)} for name in public_names()]


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages."""
    for module, names in public_names().items():
        summary = (importlib.import_module(module).__doc__ or "").strip().splitlines()[0]
        blocks = [f"# `{module}`", summary, *(f"::: {module}.{name}" for name in names)]
        files.append(File.generated(config, _uri(module), content="\n\n".join(blocks)))
    return files


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Refuse a site that leaves out a public name."""
    with (Path(config.site_dir) / "objects.inv").open("rb") as stream:
        documented = set(Inventory.parse_sphinx(stream))
    missing = [
        f"{module}.{name}"
        for module, names in public_names().items()
        for name in names
        if f"{module}.{name}" not in documented
    ]
    if missing:
        raise PluginError(f"public names without documentation: {', '.join(missing)}")


def _uri(module: str) -> str:
    return f"{FOLDER}/{module}.md"
