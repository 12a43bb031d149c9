"""Pages that the navigation does not place are listed last under Guides, by their own titles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig

SECTION = "Guides"


def on_config(config: MkDocsConfig, **_: Any) -> None:
    """Add the pages that stand nowhere yet."""
    nav: list[dict[str, Any]] = config.nav or []
    placed = set(_pages(nav))
    pages = sorted(path.name for path in Path(config.docs_dir).glob("*.md"))
    guides = next(entry[SECTION] for entry in nav if SECTION in entry)
    guides += [page for page in pages if page not in placed]


def _pages(entry: Any) -> Iterator[str]:
    """Yield the paths named anywhere in a part of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from _pages(part)
