"""Draw for `docs/unseen.md` how far a plain fit is ahead of the best baseline on every set.

python benchmarks/unseen_picture.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from _unseen_tables import DRAWS, MAX_BEHIND, OURS, figures_of_draw, figures_of_recipe, lead

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "unseen.svg"
LIMIT = 0.3
"""What lies further out is drawn as an arrow at the border."""


def main() -> None:
    """Read the result files and write the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "groupnoise"  # the same drawing from the same figures
    import matplotlib.pyplot as plt

    recipe = figures_of_recipe()
    drawn = figures_of_draw([name for names in DRAWS.values() for name in names])
    figure, axes = plt.subplots(figsize=(9, 5), layout="constrained")
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
    figure.savefig(PICTURE, metadata={"Date": None})
    print(PICTURE.name)


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


if __name__ == "__main__":
    main()
