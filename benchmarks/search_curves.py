"""Draw what was tried for `docs/reproduction.md`, from the result files of the three searches.

python benchmarks/search_curves.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _record import RESULTS

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "what_was_tried.svg"
BEAUTY = "amazon-beauty-5core"


def main() -> None:
    """Read the searches and write the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "groupnoise"  # the same drawing from the same figures
    import matplotlib.pyplot as plt

    figure, (bags, clicks, ages) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    draw_epochs(bags, rows_of("bag_search_hja-birdsong"))
    draw_negatives(clicks, rows_of("recall_search"))
    draw_spreads(ages, rows_of("ordinal_smoothing_validation"))
    figure.savefig(PICTURE, metadata={"Date": None})
    print(PICTURE.name)


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the rows of a result file."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return content["rows"]


def draw_epochs(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw accuracy on HJA birdsong over epochs, for each course of the temperature."""
    draw_temperatures(axes, rows, "max_epochs", "standard_error")
    axes.set(xscale="log", xlabel="epochs", title="HJA birdsong, instance accuracy")
    axes.set_xticks(sorted({row["max_epochs"] for row in rows}))
    axes.get_xaxis().set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.legend()


def draw_negatives(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw NDCG@10 over Beauty's catalogue against the number of negatives, for both starts."""
    for start in ("random", "spectral"):
        mine = sorted(
            (row["settings"]["n_negatives"], row["validation"]["full NDCG@10"])
            for row in rows
            if row["dataset"] == BEAUTY
            and row["change"].startswith(f"{start} start")
            and row["seed"] == 0
        )
        axes.plot(*zip(*mine, strict=True), marker="o", label=f"{start} start")
    axes.set(xscale="log", xlabel="negatives of a batch", title="Beauty, whole catalogue, NDCG@10")
    axes.set_xticks([256, 1024, 4096])
    axes.get_xaxis().set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.legend()


def draw_spreads(axes: Any, rows: list[dict[str, Any]]) -> None:
    """Draw accuracy on FG-NET against how far answers are averaged over ages."""
    draw_temperatures(axes, rows, "ordinal_smoothing", "accuracy standard error")
    axes.axhline(0.075, color="grey", linewidth=0.8, linestyle="--")
    axes.set(xlabel="ordinal_smoothing, years", title="FG-NET, accuracy (dashed: wanted)")
    axes.legend()


def draw_temperatures(axes: Any, rows: list[dict[str, Any]], over: str, error: str) -> None:
    """Draw accuracy and its standard error over a setting, for each course of the temperature."""
    for temperature in sorted({tuple(row["temperature"]) for row in rows}):
        mine = [row for row in rows if tuple(row["temperature"]) == temperature]
        places, values, errors = ([row[key] for row in mine] for key in (over, "accuracy", error))
        label = "temperature {:g} to {:g}".format(*temperature)
        axes.errorbar(places, values, errors, marker="o", capsize=3, label=label)


if __name__ == "__main__":
    main()
