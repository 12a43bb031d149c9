"""Decisions as a few lines and a table for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from groupnoise.decisions.record import Decisions

if TYPE_CHECKING:
    from rich.console import Group


def render_decisions(decisions: Decisions, *, max_rows: int = 8) -> Group:
    """Return what a console of rich prints: the summary, then what was tried.

    Parameters
    ----------
    decisions : Decisions
        Of a fitted estimator.
    max_rows : int, default=8
        Options shown at most; 0 prints the summary alone.

    Returns
    -------
    rich.console.Group
        To be given to `console.print`.
    """
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    rows = decisions.table()
    parts: list[Text | Table] = [Text(decisions.summary())]
    if max_rows and decisions.trials:
        table = Table(title=f"settings by {decisions.criterion}", title_justify="left")
        for column in ("setting", "weight", "score", "seconds", "note"):
            table.add_column(column, justify="left" if column in ("setting", "note") else "right")
        for row in rows[:max_rows]:
            score = "" if row["score"] is None else f"{row['score']:.4f} ± {row['std_error']:.4f}"
            weight = f"{row['weight']:.2f}" if row["weight"] else ""
            cells = (row["option"], weight, score, f"{row['seconds']:.1f}", row["note"])
            table.add_row(*(escape(cell) for cell in cells))
        if len(rows) > max_rows:
            table.caption = f"and {len(rows) - max_rows} more"
        parts.append(table)
    return Group(*parts)
