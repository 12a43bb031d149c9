"""What averaging over neighbouring ages, and softer selection, do on FG-NET.

    python benchmarks/ordinal_smoothing.py --seeds 30:42        # chooses: validation rows
    python benchmarks/ordinal_smoothing.py --seeds 50:60 --test # confirms: test rows, other seeds

One fit serves every spread. Accuracy, and the share of rows at most three years off (MAE3), go to
`benchmarks/results/ordinal_smoothing_<part>.json`.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from _record import write_result

from groupnoise import MaxMatchingPartialLabelClassifier
from groupnoise.cli.demo import parse_seeds
from groupnoise.io import PartialLabelDataset, load_dataset
from groupnoise.io.datasets import split_rows, subset_rows

SPREADS = (0.0, 1.0, 2.0, 3.0, 4.0, 6.0)
YEARS_OFF = 3
# As in the recipe `pll`.
SETTINGS: dict[str, Any] = {
    "scaling": "l2",
    "weighting_strength": 1.0,
    "max_epochs": 30,
    "n_members": 4,
}
TEMPERATURES = ((1.0, 0.3), (10.0, 1.0), (10.0, 3.0))


def main() -> None:
    """Fit per seed and course of the temperature, and keep the figures of every spread."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", default="30:42", help="FIRST:LAST, the last left out")
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args()
    data = load_dataset("fg-net")
    assert isinstance(data, PartialLabelDataset)
    seeds = parse_seeds(options.seeds)
    part = "test" if options.test else "validation"
    trials = [
        {"seed": seed, "temperature": temperature, **trial}
        for temperature in TEMPERATURES
        for seed in seeds
        for trial in measure(data, part, temperature, seed)
    ]
    rows = [
        mean_of(trials, temperature, spread) for temperature in TEMPERATURES for spread in SPREADS
    ]
    for row in rows:
        print(row)
    write_result(
        f"ordinal_smoothing_{part}",
        {
            "settings": SETTINGS,
            "part": part,
            "seeds": [*seeds],
            "rows": rows,
            "trials": trials,
        },
    )


def measure(
    data: PartialLabelDataset, part: str, temperature: tuple[float, float], seed: int
) -> list[dict[str, Any]]:
    """Return accuracy and MAE3 of one fit under every spread."""
    training, validation, test = split_rows(len(data.features), (0.8, 0.1, 0.1), random_state=seed)
    train = subset_rows(data, training)
    held_out = subset_rows(data, test if part == "test" else validation)
    assert held_out.truth is not None
    model = MaxMatchingPartialLabelClassifier.fixed(
        **SETTINGS, temperature=temperature, random_state=seed
    )
    model.fit(train.features, train.candidates.astype(np.int64))
    figures = []
    for spread in SPREADS:
        years_off = np.abs(
            model.set_params(ordinal_smoothing=spread).predict(held_out.features) - held_out.truth
        )
        figures.append(
            {
                "ordinal_smoothing": spread,
                "accuracy": float(np.mean(years_off == 0)),
                "MAE3": float(np.mean(years_off <= YEARS_OFF)),
            }
        )
    return figures


def mean_of(
    trials: list[dict[str, Any]], temperature: tuple[float, float], spread: float
) -> dict[str, Any]:
    """Return the mean over the seeds of one setting, with its standard error."""
    mine = [
        trial
        for trial in trials
        if trial["temperature"] == temperature and trial["ordinal_smoothing"] == spread
    ]
    row: dict[str, Any] = {"temperature": temperature, "ordinal_smoothing": spread}
    for metric in ("accuracy", "MAE3"):
        values = np.array([trial[metric] for trial in mine])
        row[metric] = round(float(values.mean()), 4)
        row[f"{metric} standard error"] = round(float(values.std(ddof=1) / len(values) ** 0.5), 4)
    return row


if __name__ == "__main__":
    main()
