"""What averaging over neighbouring ages does on FG-NET.

    python benchmarks/label_spread.py --seeds 0:10            # chooses: validation rows
    python benchmarks/label_spread.py --seeds 10:20 --test    # confirms: test rows, other seeds

One fit serves every spread. Accuracy, and the share of rows at most three years off (MAE3), go to
`benchmarks/results/label_spread_<part>.json`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from _record import write_result

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.datasets import PartialLabelDataset, load_dataset, split_rows, subset_rows

SPREADS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
YEARS_OFF = 3
# As in benchmarks/recipes/pll.toml.
SETTINGS: dict[str, Any] = {"scaling": "l2", "max_epochs": 30, "n_members": 4}
STRENGTHS = (0.0, 1.0)


def main() -> None:
    """Fit per seed and weighting strength, and keep the figures of every spread."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default="0:10", help="FIRST:LAST, the last left out")
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args()
    data = load_dataset("fg-net")
    assert isinstance(data, PartialLabelDataset)
    first, last = (int(part) for part in options.seeds.split(":"))
    part = "test" if options.test else "validation"
    trials = [
        {"seed": seed, "weighting_strength": strength, **trial}
        for strength in STRENGTHS
        for seed in range(first, last)
        for trial in measure(data, part, strength, seed)
    ]
    rows = [mean_of(trials, strength, spread) for strength in STRENGTHS for spread in SPREADS]
    for row in rows:
        print(row)
    write_result(
        f"label_spread_{part}",
        {
            "settings": SETTINGS,
            "part": part,
            "seeds": [*range(first, last)],
            "rows": rows,
            "trials": trials,
        },
    )


def measure(
    data: PartialLabelDataset, part: str, strength: float, seed: int
) -> list[dict[str, float]]:
    """Return accuracy and MAE3 of one fit under every spread."""
    training, validation, test = split_rows(len(data.features), (0.8, 0.1, 0.1), random_state=seed)
    train = subset_rows(data, training)
    held_out = subset_rows(data, test if part == "test" else validation)
    assert held_out.truth is not None
    model = MaxMatchingPartialLabelClassifier(
        **SETTINGS, weighting_strength=strength, random_state=seed
    )
    model.fit(train.features, train.candidates.astype(np.int64))
    figures = []
    for spread in SPREADS:
        years_off = np.abs(
            model.set_params(label_spread=spread).predict(held_out.features) - held_out.truth
        )
        figures.append(
            {
                "label_spread": spread,
                "accuracy": float(np.mean(years_off == 0)),
                "MAE3": float(np.mean(years_off <= YEARS_OFF)),
            }
        )
    return figures


def mean_of(trials: list[dict[str, float]], strength: float, spread: float) -> dict[str, float]:
    """Return the mean over the seeds of one setting, with its standard error."""
    mine = [
        trial
        for trial in trials
        if trial["weighting_strength"] == strength and trial["label_spread"] == spread
    ]
    row = {"weighting_strength": strength, "label_spread": spread}
    for metric in ("accuracy", "MAE3"):
        values = np.array([trial[metric] for trial in mine])
        row[metric] = round(float(values.mean()), 4)
        row[f"{metric} standard error"] = round(float(values.std(ddof=1) / len(values) ** 0.5), 4)
    return row


if __name__ == "__main__":
    main()
