"""Self-contained HTML pages from templates, charts, and Markdown tables."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from groupnoise.core.arrays import FloatArray
from groupnoise.core.words import counted

if TYPE_CHECKING:
    import jinja2

WIDTH, HEIGHT = 720, 260
LEFT, RIGHT, TOP, BOTTOM = 44, 150, 12, 34
"""Margins of a chart; names of curves are in the right one."""
LABEL_STEP = 15
"""Least distance between two names."""
GREY_LEVELS = 16
HERE = "groupnoise.pages"
SIGNATURE = b"\x89PNG\r\n\x1a\n"
LEAST_RISK = 0.1
TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Coverages marked on the axis."""


@dataclass(frozen=True)
class Scale:
    """A linear map from values to positions; an empty range maps to the middle."""

    low: float
    high: float
    start: float
    stop: float

    def __call__(self, value: float) -> float:
        """Return the position of a value."""
        if self.high == self.low:
            return round((self.start + self.stop) / 2, 2)
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.stop - self.start), 2)


class Tick(NamedTuple):
    """A position on an axis and the text beside it."""

    position: float
    text: str


@dataclass(frozen=True)
class Curve:
    """The mean of one method over its trials, one deviation to each side, and its name."""

    method: str
    line: str
    band: str
    end: float
    label_position: float


@dataclass(frozen=True)
class CurveChart:
    """Learning curves of several methods on common axes."""

    curves: list[Curve]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    x_title: str = "epoch"
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    bottom: int = HEIGHT - BOTTOM


def curve_chart(
    values: Mapping[str, Sequence[Sequence[float]]],
    *,
    positions: Sequence[float] | None = None,
    ticks: Sequence[float] | None = None,
    x_title: str = "epoch",
    least_span: float = 0.0,
) -> CurveChart | None:
    """Lay out curves of several methods; None if there is none.

    `values`: for each method and each of its trials, the value after every epoch. Trials that
    stopped early shorten the curve of their method. `positions`: where the values stand on the x
    axis, each with a tick; the number of the epoch by default. `ticks`: where the x axis is marked
    instead. `least_span`: what the y axis spans at least, so that nothing is not drawn large.
    """
    means, deviations = {}, {}
    for method, trials in values.items():
        n_epochs = min((len(trial) for trial in trials), default=0)
        if n_epochs:
            table = np.array([trial[:n_epochs] for trial in trials])  # (trials, epochs)
            means[method], deviations[method] = table.mean(axis=0), table.std(axis=0)
    if not means:
        return None
    most_epochs = max(len(mean) for mean in means.values())
    at = [float(position) for position in positions or range(1, most_epochs + 1)]
    lowest = min(float((means[each] - deviations[each]).min()) for each in means)
    highest = max(float((means[each] + deviations[each]).max()) for each in means)
    highest = max(highest, lowest + least_span)
    x = Scale(at[0], at[-1], LEFT, WIDTH - RIGHT)
    y = Scale(lowest, highest, HEIGHT - BOTTOM, TOP)
    ends = {method: y(mean[-1]) for method, mean in means.items()}
    label_positions = _spread_labels(ends)
    curves = [
        Curve(
            method=method,
            line=_points(x, y, at, mean),
            band=f"{_points(x, y, at, mean + deviations[method])} "
            + " ".join(reversed(_points(x, y, at, mean - deviations[method]).split())),
            end=ends[method],
            label_position=label_positions[method],
        )
        for method, mean in means.items()
    ]
    ticked = at if positions is not None else _some_epochs(most_epochs)
    ticked = ticked if ticks is None else list(ticks)
    return CurveChart(
        curves,
        [Tick(x(position), f"{position:g}") for position in ticked],
        [Tick(y(value), f"{value:.2f}") for value in round_values(lowest, highest)],
        x_title,
    )


def _some_epochs(n_epochs: int) -> list[float]:
    """Return the first epoch and about five more, or all of a few."""
    step = max(1, n_epochs // 5)
    ticked = [1, *range(step, n_epochs + 1, step)] if step > 1 else range(1, n_epochs + 1)
    return [float(epoch) for epoch in ticked]


def round_values(low: float, high: float) -> list[float]:
    """Return three to eight round numbers between two bounds.

    Examples
    --------
    >>> round_values(0.41, 0.97)
    [0.5, 0.6, 0.7, 0.8, 0.9]
    """
    if high <= low:
        return [low]
    power = 10.0 ** np.floor(np.log10(high - low))
    step = next(s for s in (0.1, 0.2, 0.5, 1, 2) if (high - low) / (s * power) <= 8) * power
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    return [round(float(step * position), 6) for position in range(first, last + 1)]


def grey_cells(image: FloatArray) -> list[tuple[float, str]]:
    """Return a small picture as one SVG path per grey level, darkness in (0, 1] first.

    `image` (height, width): darkness in [0, 1]; empty cells are left out.
    """
    levels = np.rint(np.asarray(image) * GREY_LEVELS).astype(int)
    cells = []
    for level in range(1, GREY_LEVELS + 1):
        positions = np.argwhere(levels == level)
        if len(positions):
            path = "".join(f"M{column} {row}h1v1h-1z" for row, column in positions)
            cells.append((round(level / GREY_LEVELS, 2), path))
    return cells


def _points(x: Scale, y: Scale, at: Sequence[float], values: FloatArray) -> str:
    return " ".join(
        f"{x(position)},{y(value)}" for position, value in zip(at, values, strict=False)
    )


def _spread_labels(ends: Mapping[str, float]) -> dict[str, float]:
    """Return positions of names that do not overlap, in the same order."""
    order = sorted(ends, key=lambda method: ends[method])
    steps = LABEL_STEP * np.arange(len(order))
    pushed_down = np.maximum.accumulate([ends[method] for method in order] - steps)
    lifted = np.minimum(pushed_down, HEIGHT - BOTTOM - steps[-1]) + steps
    return {
        method: round(float(position), 2) for method, position in zip(order, lifted, strict=True)
    }


def render_page(template: str, *, package: str, **values: Any) -> str:
    """Return a template as the text of a page."""
    return _environment(package).get_template(template).render(**values)


@cache
def _environment(package: str) -> jinja2.Environment:
    """Return the template environment of a package, made once."""
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
    environment.filters["counted"] = counted
    environment.filters["with_code"] = with_code
    return environment


def with_code(sentence: str) -> str:
    """Return a sentence as HTML with text between backticks as code."""
    from markupsafe import Markup, escape

    parts = [escape(part) for part in sentence.split("`")]
    if len(parts) % 2 == 0:  # an unclosed backtick is literal
        return escape(sentence)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part
        for number, part in enumerate(parts)
    )


def markdown_table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    """Return a table as Markdown has it.

    >>> print(markdown_table(["", "hit"], [["ours", 0.5]]))
    |  | hit |
    |---|---|
    | ours | 0.5 |
    """
    titles = list(head)
    lines = [f"| {' | '.join(map(str, cells))} |" for cells in (titles, *rows)]
    lines.insert(1, "|---" * len(titles) + "|")
    return "\n".join(lines)


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Return pixels as a PNG file.

    `pixels` (height, width, 4): red, green, blue and opacity; or (height, width, 2): grey and
    opacity.
    """
    height, width, depth = pixels.shape
    rows = np.zeros((height, 1 + depth * width), dtype=np.uint8)  # a row begins with its filter, 0
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, {4: 6, 2: 4}[depth], 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(name, content) for name, content in parts)


def data_address(content: bytes, kind: str = "image/png") -> str:
    """Return a file as a data address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def _chunk(name: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(name + content)
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", checksum)


class Figures(Protocol):
    """The parts of an evaluation that the page draws."""

    @property
    def per_class(self) -> Mapping[str, Mapping[str, float]]:
        """Figures of single classes."""
        ...

    @property
    def curves(self) -> Mapping[str, Mapping[str, list[float]]]:
        """Risk-coverage curves."""
        ...


def evaluation_page(evaluation: Figures, *, title: str, about: str) -> str:
    """Return an evaluation as the text of an HTML page that loads nothing from elsewhere."""
    charts = []
    for name, curve in evaluation.curves.items():
        coverage = curve["coverage"]
        chart = curve_chart(
            {"max_matching": [curve["risk"]]},
            positions=coverage,
            ticks=[each for each in TICKS if coverage[0] <= each <= coverage[-1]],
            x_title=f"share of {name} answered, the surest first",
            least_span=LEAST_RISK,
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
