"""Turn the formulas of a page into MathML, so that a reader needs neither scripts nor a network."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

# What pymdownx.arithmatex leaves in the page under `generic: true`.
INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def on_page_content(content: str, **_: Any) -> str:
    """Replace every formula of a rendered page."""
    content = INLINE.sub(lambda found: _mathml(found[1], "inline"), content)
    return BLOCK.sub(
        lambda found: f'<div class="formula">{_mathml(found[1], "block")}</div>', content
    )


def _mathml(escaped: str, display: str) -> str:
    return convert(html.unescape(escaped).strip(), display=display)
