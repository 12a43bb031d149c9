"""Templates rendered to pages that need nothing beside them, and the page of an evaluation."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from groupnoise.pages.charts import curve_chart, grey_cells

HERE = "groupnoise.pages"
SIGNATURE = b"\x89PNG\r\n\x1a\n"
TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Coverages that are marked on the axis."""


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


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Return pixels as a PNG file.

    `pixels` (height, width, 4): red, green, blue and opacity.
    """
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 4 * width), dtype=np.uint8)  # each row begins with its filter, 0
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def data_address(content: bytes, kind: str = "image/png") -> str:
    """Return a file as an address that holds it.

    For the `src` of an image. `kind`: its media type.
    """
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


class Figures(Protocol):
    """What is shown of an evaluation beside its other attributes."""

    @property
    def per_class(self) -> Mapping[str, Mapping[str, float]]:
        """Figures of single classes."""
        ...

    @property
    def curves(self) -> Mapping[str, Mapping[str, list[float]]]:
        """Risk-coverage curves."""
        ...


def evaluation_page(evaluation: Figures, *, title: str, about: str) -> str:
    """Return an evaluation as the text of an HTML page that loads nothing from elsewhere.

    `evaluation`: what `Setting.evaluate` returned. `about`: on what: a sentence.
    """
    charts = []
    for name, curve in evaluation.curves.items():
        coverage = curve["coverage"]
        chart = curve_chart(
            {"max_matching": [curve["risk"]]},
            positions=coverage,
            ticks=[each for each in TICKS if coverage[0] <= each <= coverage[-1]],
            x_title=f"share of {name} answered, the surest first",
        )
        if chart is not None:
            charts.append((name, chart))
    figures = dict.fromkeys(name for found in evaluation.per_class.values() for name in found)
    return render_page(
        "evaluation.html",
        package=HERE,
        evaluation=evaluation,
        title=title,
        about=about,
        charts=charts,
        figures=list(figures),
    )
