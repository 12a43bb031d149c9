"""What the cells of the trade-off study say: maps, choices, and their distance to the oracle.

And the tables of the page on it, from its result file.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _record import markdown

from groupnoise.decisions.trade_off import (
    STRENGTHS as AUTO_STRENGTHS,
    GroupCriteria,
    TradeOffTrial,
    best_trial,
)

AUTO_SELECTIONS = ("1 to 0.5", "1", "1 to 0.2")
"""The temperatures that "auto" tries, in its order, as the study calls them."""
CRITERIA = ("log_likelihood", "covering_rate", "approximated_accuracy")
FIXED = {
    "λ 1, max": (1.0, "max"),
    "λ 0, 1 to 0.5": (0.0, "1 to 0.5"),
    "λ 0.1, 1 to 0.5": (0.1, "1 to 0.5"),
    "λ 1, 1 to 0.5": (1.0, "1 to 0.5"),
}

Cell = dict[str, Any]


def summarise_cells(cells: list[Cell]) -> dict[str, Any]:
    """Return a map and the choices of every set, and what the choices cost on average.

    A run counts once all of its cells are there.
    """
    runs: dict[tuple[str, int], list[Cell]] = {}
    automatic: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell["strength"] == "auto":
            automatic.setdefault(cell["set"], []).append(cell)
        else:
            runs.setdefault((cell["set"], cell["seed"]), []).append(cell)
    n_cells = max(map(len, runs.values()))
    sets = {}
    for name in dict.fromkeys(name for name, _ in runs):
        whole = [r for (owner, _), r in runs.items() if owner == name and len(r) == n_cells]
        if whole:
            sets[name] = summarise_set(whole)
            sets[name]["refitted"] = {
                key: round(float(np.mean([cell[key] for cell in automatic[name]])), 4)
                for key in ("test", "oracle_test")
                if name in automatic
            }
    chosen = {way: [found["choices"][way] for found in sets.values()] for way in CHOICES}
    oracle = np.array(chosen["oracle"])
    refitted = [found["refitted"] for found in sets.values() if found["refitted"]]
    return {
        "seeds": sorted({seed for _, seed in runs}),
        "maps": sets,
        "refitted_sets": len(refitted),
        "refitted_points_below_oracle": round(
            100 * float(np.mean([pair["oracle_test"] - pair["test"] for pair in refitted])), 2
        ),
        "points_below_oracle": {
            way: round(100 * float(np.mean(oracle - np.array(values))), 2)
            for way, values in chosen.items()
        },
    }


def summarise_set(runs: list[list[Cell]]) -> dict[str, Any]:
    """Return the mean test figures of every cell, and of what each way to choose picked."""
    strengths, selections = _axes(runs[0])
    table = {
        (strength, selection): float(np.mean([_at(run, strength, selection) for run in runs]))
        for strength in strengths
        for selection in selections
    }
    shares = [run[0]["matching_share"] for run in runs]
    return {
        "strengths": strengths,
        "selections": selections,
        "test": [[round(table[s, t], 4) for t in selections] for s in strengths],
        "runs": len(runs),
        "matching_share": None if None in shares else round(float(np.mean(shares)), 3),
        "weighting_gain": round(
            float(np.mean([table[1.0, t] - table[0.0, t] for t in AUTO_SELECTIONS])), 4
        ),
        "choices": {
            way: round(float(np.mean([choose(run)["test"] for run in runs])), 4)
            for way, choose in CHOICES.items()
        },
    }


def _by(figure: str) -> Callable[[list[Cell]], Cell]:
    """Return how to choose a cell by a figure."""
    return lambda run: max(run, key=lambda cell: cell[figure])


def _as_auto(run: list[Cell]) -> Cell:
    """Choose as the estimators do, among what they try."""
    offered = [_fixed(s, t)(run) for s in AUTO_STRENGTHS for t in AUTO_SELECTIONS]
    trials = [
        TradeOffTrial(c["strength"], c["selection"], GroupCriteria(*(c[key] for key in CRITERIA)))
        for c in offered
    ]
    return offered[trials.index(best_trial(trials))]


def _fixed(strength: float, selection: str) -> Callable[[list[Cell]], Cell]:
    return lambda run: next(
        c for c in run if (c["strength"], c["selection"]) == (strength, selection)
    )


CHOICES: dict[str, Callable[[list[Cell]], Cell]] = {
    "best on test": _by("test"),
    "oracle": _by("oracle"),
    "auto": _as_auto,
    **{figure: _by(figure) for figure in CRITERIA},
    **{name: _fixed(*cell) for name, cell in FIXED.items()},
}


def _axes(run: list[Cell]) -> tuple[list[float], list[str]]:
    return (
        list(dict.fromkeys(cell["strength"] for cell in run)),
        list(dict.fromkeys(cell["selection"] for cell in run)),
    )


def _at(run: list[Cell], strength: float, selection: str) -> float:
    return float(_fixed(strength, selection)(run)["test"])


def draw_maps(summary: dict[str, Any], path: Path) -> None:
    """Draw a heat map per set: points below its best cell, dark where little is lost."""
    from matplotlib.figure import Figure

    maps = summary["maps"]
    n_columns = 3
    n_rows = -(-len(maps) // n_columns)
    figure = Figure(figsize=(3.3 * n_columns, 2.7 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for panel, (name, found) in zip(panels, maps.items(), strict=False):
        points = 100 * np.array(found["test"])
        panel.imshow(points - points.max(), cmap="YlGnBu", vmin=-12, vmax=0, aspect="auto")
        for row, line in enumerate(points):
            for column, value in enumerate(line):
                ink = "white" if value > points.max() - 5 else "black"
                panel.text(column, row, f"{value:.1f}", ha="center", va="center", color=ink, size=8)
        panel.set_title(name, size=10)
        panel.set_xticks(range(len(found["selections"])), _short(found["selections"]), size=7)
        panel.set_yticks(range(len(found["strengths"])), found["strengths"], size=7)
    for panel in panels[: len(maps)]:
        panel.set_ylabel("λ", size=9)
    for panel in panels[len(maps) :]:
        panel.set_axis_off()
    figure.savefig(path, dpi=110)


def _short(selections: list[str]) -> list[str]:
    return [name.replace(" to ", "→") for name in selections]


def trade_off_sets(result: dict[str, Any]) -> str:
    """One line per data set: the gain of weighting, and the result of each criterion."""
    ways = ["best on test", "oracle", "auto", *_fixed_cells(result)]
    names = ["best cell", "oracle", "**auto**", *_fixed_cells(result), "oracle, refitted"]
    names.append("**auto, refitted**")
    rows = []
    for name, found in result["maps"].items():
        share = found["matching_share"]
        cells = [
            str(found["runs"]),
            "unknown" if share is None else f"{share:.0%}",
            f"{100 * found['weighting_gain']:+.1f}",
            *(f"{100 * found['choices'][way]:.1f}" for way in ways),
            *(_points(found["refitted"].get(key)) for key in ("oracle_test", "test")),
        ]
        rows.append([name, *cells])
    head = ["data", "seeds", "objects that match", "gain of λ = 1 over 0", *names]
    return markdown(head, rows)


def trade_off_choices(result: dict[str, Any]) -> str:
    """One line per way to choose: points below the oracle, on average over the sets."""
    words = {
        "auto": "**auto**: held-out covering rate, weaker weighting at a tie",
        "covering_rate": "held-out covering rate, of all cells",
        "log_likelihood": "held-out group likelihood",
        "approximated_accuracy": "held-out approximated accuracy",
        "best on test": "the best cell on the test part, in hindsight",
        "oracle": "true labels of the held-out part (oracle)",
        "λ 1, max": "always λ 1, max: the paper",
    }
    rows = [
        [words.get(way, f"always {way}"), f"{points:+.1f}"]
        for way, points in sorted(result["points_below_oracle"].items(), key=lambda pair: pair[1])
    ]
    n_runs = sorted({found["runs"] for found in result["maps"].values()})
    counts = " to ".join(map(str, dict.fromkeys([n_runs[0], n_runs[-1]])))
    note = (
        f"Mean over {len(result['maps'])} sets, {counts} seeds each; `{result['command']}`. "
        f"Refitted on the first two parts together, as the estimators do, auto is "
        f"{result['refitted_points_below_oracle']:.1f} points below the oracle "
        f"({result['refitted_sets']} sets)."
    )
    return markdown(["chosen by", "points below the oracle"], rows, note)


def _points(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _fixed_cells(result: dict[str, Any]) -> list[str]:
    return [way for way in result["points_below_oracle"] if way.startswith("λ")]
