"""Reliability of instance and label probabilities before and after calibration on held-out groups.

Each set is split 70:15:15 into training, calibration and test groups. The temperature is fitted on
the bag labels or candidate labels of the middle part; the truth of the test part is only used to
measure. Writes the result file and the plot in docs/images.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _record import svg_plots, write_result
from numpy.typing import NDArray

from groupnoise import MaxMatchingMILClassifier, MaxMatchingPartialLabelClassifier
from groupnoise.bags import load_digit_bags
from groupnoise.candidates import load_digit_candidates
from groupnoise.cli.demo import parse_seeds
from groupnoise.core import expected_calibration_error
from groupnoise.core.metrics import accuracy, reliability
from groupnoise.io import load_dataset
from groupnoise.io.datasets import split_rows, subset_bags

PLOT = Path(__file__).parents[1] / "docs" / "images" / "calibration.svg"
PARTS = (0.7, 0.15, 0.15)
N_BINS = 10


class Answers(NamedTuple):
    """The truth of test objects, and their probabilities before and after calibration."""

    truth: NDArray[Any]
    before: NDArray[Any]
    after: NDArray[Any]
    temperature: float


def bags(load: Callable[[int], Any], **settings: Any) -> Callable[[int], Answers]:
    def answer(seed: int) -> Answers:
        data = load(seed)
        parts = split_rows(len(data.bags), PARTS, random_state=seed)
        train, held_out, test = (subset_bags(data, rows) for rows in parts)
        model = MaxMatchingMILClassifier(random_state=seed, **settings)
        model.fit(train.bags, train.labels.astype(np.int64))
        known = test.instance_labels >= 0
        instances = test.bags.objects[known]
        before = model.predict_proba(instances)
        model.calibrate(held_out.bags, held_out.labels.astype(np.int64))
        after, temperature = model.predict_proba(instances), model.calibration_temperature_
        return Answers(test.instance_labels[known], before, after, temperature)

    return answer


def rows(load: Callable[[int], Any], **settings: Any) -> Callable[[int], Answers]:
    def answer(seed: int) -> Answers:
        data = load(seed)
        train, held_out, test = split_rows(len(data.features), PARTS, random_state=seed)
        candidates = data.candidates.astype(np.int64)
        model = MaxMatchingPartialLabelClassifier.fixed(random_state=seed, **settings)
        model.fit(data.features[train], candidates[train])
        before = model.predict_proba(data.features[test])
        model.calibrate(data.features[held_out], candidates[held_out])
        after = model.predict_proba(data.features[test])
        return Answers(data.truth[test], before, after, model.calibration_temperature_)

    return answer


def named(name: str) -> Callable[[int], Any]:
    return lambda seed: load_dataset(name)


BACKGROUND = {"background": True, "absent_strength": 1.0}
SETS: dict[str, Callable[[int], Answers]] = {
    "digit bags": bags(lambda seed: load_digit_bags(600, random_state=seed)),
    "digit bags, background": bags(
        lambda seed: load_digit_bags(600, random_state=seed), **BACKGROUND
    ),
    "HJA birdsong": bags(named("hja-birdsong")),
    "HJA birdsong, background": bags(named("hja-birdsong"), **BACKGROUND),
    "digit candidates": rows(lambda seed: load_digit_candidates(random_state=seed)),
    "Lost": rows(named("lost")),
    "MSRCv2": rows(named("msrcv2")),
    "BirdSong": rows(named("birdsong"), max_epochs=30),
}


def measure(answers: list[Answers]) -> dict[str, Any]:
    """Return the figures of each trial, and the reliability of all trials together."""
    truth = np.concatenate([each.truth for each in answers])
    figures: dict[str, Any] = {"temperature": [each.temperature for each in answers]}
    figures["accuracy"] = [accuracy(a.truth, a.before.argmax(axis=1)) for a in answers]
    for when in ("before", "after"):
        figures[f"ece_{when}"] = [
            expected_calibration_error(a.truth, getattr(a, when)) for a in answers
        ]
        pooled = reliability(truth, np.concatenate([getattr(a, when) for a in answers]), N_BINS)
        figures[f"reliability_{when}"] = {
            name: [None if np.isnan(value) else round(float(value), 4) for value in values]
            for name, values in pooled._asdict().items()
        }
    return figures


def draw(figures: dict[str, dict[str, Any]]) -> None:
    """Draw claimed against observed frequencies, one panel per set."""
    plt = svg_plots()
    n_columns = 4
    n_rows = -(-len(figures) // n_columns)
    figure, axes = plt.subplots(
        n_rows, n_columns, figsize=(11, 2.9 * n_rows), sharex=True, sharey=True, squeeze=False
    )
    for panel in axes.flat[len(figures) :]:
        panel.axis("off")
    for panel, (name, found) in zip(axes.flat, figures.items(), strict=False):
        panel.plot([0, 1], [0, 1], color="#999999", linewidth=0.8)
        for when, colour in (("before", "#c4611b"), ("after", "#1f5fd0")):
            curve = found[f"reliability_{when}"]
            ece = np.mean(found[f"ece_{when}"])
            filled = [i for i, count in enumerate(curve["counts"]) if count >= 10]
            panel.plot(
                [curve["claimed"][i] for i in filled],
                [curve["right"][i] for i in filled],
                marker="o",
                markersize=3.5,
                color=colour,
                label=f"{when}: ECE {ece:.3f}",
            )
        panel.set_title(name, fontsize=9)
        panel.legend(fontsize=7, frameon=False, loc="upper left")
    figure.supxlabel("probability claimed", fontsize=9)
    figure.supylabel("share that came true", fontsize=9)
    figure.tight_layout()
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=parse_seeds, default=[10, 11, 12])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--keep", action="store_true", help="write the result file and the plot")
    options = parser.parse_args()
    figures = {}
    for name in options.sets:
        found = figures[name] = measure([SETS[name](seed) for seed in options.seeds])
        means = {
            k: np.mean(found[k]) for k in ("accuracy", "temperature", "ece_before", "ece_after")
        }
        print(f"{name:<26}", *(f"{k} {v:.3f}" for k, v in means.items()), flush=True)
    if options.keep:
        config = {"parts": PARTS, "n_bins_ece": 15, "n_bins_plot": N_BINS}
        write_result("calibration", {"config": config, "seeds": options.seeds, "figures": figures})
        draw(figures)


if __name__ == "__main__":
    main()
