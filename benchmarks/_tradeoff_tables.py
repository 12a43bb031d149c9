"""The tables of the page on the trade-off, from its result file."""

from __future__ import annotations

from typing import Any


def trade_off_sets(result: dict[str, Any]) -> str:
    """One line per data set: what weighting gains, and what each way to choose reached."""
    ways = ["best on test", "oracle", "auto", *_fixed_cells(result)]
    names = ["best cell", "oracle", "**auto**", *_fixed_cells(result), "oracle, refitted"]
    names.append("**auto, refitted**")
    lines = [
        "| data | seeds | objects that match | gain of λ = 1 over 0 | " + " | ".join(names) + " |",
        "|---|---|---|---|" + "---|" * len(names),
    ]
    for name, found in result["maps"].items():
        share = found["matching_share"]
        cells = [
            str(found["runs"]),
            "unknown" if share is None else f"{share:.0%}",
            f"{100 * found['weighting_gain']:+.1f}",
            *(f"{100 * found['choices'][way]:.1f}" for way in ways),
            *(_points(found["refitted"].get(key)) for key in ("oracle_test", "test")),
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


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
    lines = ["| chosen by | points below the oracle |", "|---|---|"]
    for way, points in sorted(result["points_below_oracle"].items(), key=lambda pair: pair[1]):
        lines.append(f"| {words.get(way, 'always ' + way)} | {points:+.1f} |")
    n_runs = sorted({found["runs"] for found in result["maps"].values()})
    counts = " to ".join(map(str, dict.fromkeys([n_runs[0], n_runs[-1]])))
    note = (
        f"Mean over {len(result['maps'])} sets, {counts} seeds each; `{result['command']}`. "
        f"Refitted on the first two parts together, as the estimators do, auto is "
        f"{result['refitted_points_below_oracle']:.1f} points below the oracle "
        f"({result['refitted_sets']} sets)."
    )
    return "\n".join([*lines, "", note])


def _points(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _fixed_cells(result: dict[str, Any]) -> list[str]:
    return [way for way in result["points_below_oracle"] if way.startswith("λ")]
