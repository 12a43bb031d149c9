"""Tables of the page of evidence: what each part brings, and figures under the folds of others."""

from __future__ import annotations

from typing import Any

MAX_P = 0.05


def ablation_table(result: dict[str, Any]) -> str:
    """Return a line per part and a column per data set: what the figure loses without it.

    Parameters
    ----------
    result : dict
        What `ablation.py` wrote.
    """
    rows = result["rows"]
    sets = list(dict.fromkeys(row["set"] for row in rows))
    found = {(row["set"], row["part"]): row for row in rows}
    parts = [part for part in dict.fromkeys(row["part"] for row in rows) if part != "whole"]
    lines = [f"| | {' | '.join(sets)} | mean |", "|---|" + "---|" * (len(sets) + 1)]
    whole = " | ".join(f"{found[name, 'whole']['mean']:.3f}" for name in sets)
    lines.append(f"| the whole | {whole} | |")
    for part in parts:
        own = [found.get((name, part)) for name in sets]
        cells = ["" if row is None else _points(row) for row in own]
        known = [row["brings"] for row in own if row is not None]
        lines.append(f"| {part} | {' | '.join(cells)} | {100 * sum(known) / len(known):+.1f} |")
    seeds = result["seeds"]
    n_seeds = {row["n_seeds"] for row in rows}
    note = (
        "Below the first line: points of accuracy (shop: NDCG@10) that are lost when the part is "
        "replaced as said; a minus says that it is better without. Bold: "
        f"p < {MAX_P} ({result['test']}). Seeds {seeds[0]} to {seeds[-1]}, at least "
        f"{min(n_seeds)} on every set. `{result['command']}`"
    )
    return "\n".join([*lines, "", note])


def _points(row: dict[str, Any]) -> str:
    text = f"{100 * row['brings']:+.1f}"
    return f"**{text}**" if row["p"] < MAX_P else text


def folds_table(result: dict[str, Any]) -> str:
    """Return accuracy on new and on training rows under the folds of VI-PLL, with what is in print.

    Parameters
    ----------
    result : dict
        What `published_folds.py` wrote.
    """
    names = {"recipe": "`ours`, the recipe", "plain": "`ours`, a plain fit"}
    rows = result["rows"]
    sets = list(result["published"])
    lines = [f"| | {' | '.join(sets)} |", "|---|" + "---|" * len(sets)]
    for method, words in names.items():
        own = {row["set"]: row for row in rows if row["method"] == method}
        if not own:
            continue
        new = [_fold_cell(own.get(name)) for name in sets]
        seen = [f"{own[name]['training rows']:.3f}" if name in own else "" for name in sets]
        lines.append(f"| {words} | {' | '.join(new)} |")
        lines.append(f"| {words}, on training rows | {' | '.join(seen)} |")
    methods = dict.fromkeys(
        method for figures in result["published"].values() for method in figures
    )
    for method in methods:
        cells = [result["published"][name].get(method) for name in sets]
        shown = ["" if cell is None else f"{cell:.3f}" for cell in cells]
        lines.append(f"| *{method}, published* | {' | '.join(shown)} |")
    note = f"{result['protocol']}. Published: {result['published_source']}. `{result['command']}`"
    return "\n".join([*lines, "", note])


def _fold_cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['accuracy']:.3f} ± {row['std']:.3f}"
