"""Draw pictures of the docs from the result files.

python benchmarks/pictures.py unseen          # docs/unseen.md: how far a plain fit is ahead
python benchmarks/pictures.py what_was_tried  # docs/reproduction.md: the three searches
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from _record import recorded, svg_plots
from _unseen_tables import DRAWS, MAX_BEHIND, OURS, figures_of_draw, figures_of_recipe, lead

IMAGES = Path(__file__).parents[1] / "docs" / "images"
LIMIT = 0.3
"""What lies further out is drawn as an arrow at the border."""
BEAUTY = "amazon-beauty-5core"


def main() -> None:
    """Read the result files and write a picture."""
    pictures = {"unseen": draw_unseen, "what_was_tried": draw_searches}
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("picture", choices=pictures)
    name = parser.parse_args().picture
    figure = pictures[name](svg_plots())
    figure.savefig(IMAGES / f"{name}.svg", metadata={"Date": None})
    print(f"{name}.svg")


def draw_unseen(plots: Any) -> Any:
    """Draw how far a plain fit is ahead of the best baseline on every set."""
    recipe = figures_of_recipe()
    drawn = figures_of_draw([name for names in DRAWS.values() for name in names])
    figure, axes = plots.subplots(figsize=(9, 5), layout="constrained")
    for place, title in enumerate(recipe):
        draw_figure(axes, place, recipe[title], filled=False)
        draw_figure(axes, place, drawn[title], filled=True)
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.axvspan(-LIMIT - 0.02, -MAX_BEHIND, color="tab:red", alpha=0.08, linewidth=0)
    axes.set(
        xlim=(-LIMIT - 0.02, LIMIT + 0.02),
        xlabel="plain fit minus best baseline; hollow: the recipe, filled: drawn later",
        yticks=range(len(recipe)),
        yticklabels=list(recipe),
    )
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_figure(
    axes: Any, place: int, figures: dict[str, dict[str, float]], *, filled: bool
) -> None:
    """Draw one figure of every set as a row of dots, side by side where they would cover others."""
    leads = np.sort([lead(each) for each in figures.values() if OURS in each and len(each) > 1])
    heights = place + (0.14 if filled else -0.22) + 0.09 * (np.arange(len(leads)) % 3 - 1)
    markers = {"<": leads < -LIMIT, ">": leads > LIMIT, "o": np.abs(leads) <= LIMIT}
    for marker, chosen in markers.items():
        axes.scatter(
            np.clip(leads[chosen], -LIMIT, LIMIT),
            heights[chosen],
            s=16,
            marker=marker,
            edgecolors="tab:blue",
            facecolors="tab:blue" if filled else "none",
            linewidths=0.8,
        )


def draw_searches(plots: Any) -> Any:
    """Draw what the three searches tried."""
    figure, (bags, clicks, ages) = plots.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    draw_epochs(bags, recorded("bag_search_hja-birdsong"))
    draw_negatives(clicks, recorded("recall_search"))
    draw_spreads(ages, recorded("ordinal_smoothing_validation"))
    return figure


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
