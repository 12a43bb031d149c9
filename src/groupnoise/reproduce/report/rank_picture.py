"""A critical-difference picture: mean ranks on a line, and bars over what cannot be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groupnoise.pages.charts import Scale, Tick
from groupnoise.reproduce.statistics import critical_difference

WIDTH, LEFT, RIGHT = 720, 190, 190
AXIS, ROW, BAR = 30, 18, 8
"""Height of the axis, of a name, and of a bar."""


@dataclass(frozen=True)
class Mark:
    """A method: the line from its mean rank to its name."""

    method: str
    rank: float
    line: str
    x: float
    y: float
    anchor: str


@dataclass(frozen=True)
class Bar:
    """Methods that cannot be told apart, from the best to the worst of them."""

    low: float
    high: float
    y: float


@dataclass(frozen=True)
class RankPicture:
    """Where everything of a critical-difference picture lies."""

    distance: float
    ticks: list[Tick]
    marks: list[Mark]
    bars: list[Bar]
    height: int
    width: int = WIDTH
    left: int = LEFT
    right: int = WIDTH - RIGHT
    axis: int = AXIS


def rank_picture(ranks: Mapping[str, Sequence[float]]) -> RankPicture | None:
    """Lay out the picture; None where there are too few methods or data sets for the test.

    Parameters
    ----------
    ranks : mapping of str to sequence of float
        For each method its rank on every data set.
    """
    found = critical_difference(ranks)
    if found is None:
        return None
    n_methods = len(found.ranks)
    scale = Scale(1, n_methods, LEFT, WIDTH - RIGHT)
    bars = [
        Bar(
            scale(found.ranks[clique[0]]) - 3,
            scale(found.ranks[clique[-1]]) + 3,
            AXIS + BAR * (number + 1),
        )
        for number, clique in enumerate(found.cliques)
    ]
    top = AXIS + BAR * (len(bars) + 2)
    n_left = (n_methods + 1) // 2
    marks = []
    for number, (method, rank) in enumerate(found.ranks.items()):
        # The better half is named on the left, the other on the right, nearest the axis first.
        on_left = number < n_left
        level = number if on_left else n_methods - 1 - number
        x, y = (LEFT - 8 if on_left else WIDTH - RIGHT + 8), top + ROW * level
        line = f"{scale(rank)},{AXIS} {scale(rank)},{y} {x},{y}"
        marks.append(
            Mark(method, rank, line, x - 4 if on_left else x + 4, y, "end" if on_left else "start")
        )
    ticks = [Tick(scale(rank), str(rank)) for rank in range(1, n_methods + 1)]
    return RankPicture(found.distance, ticks, marks, bars, top + ROW * n_left)
