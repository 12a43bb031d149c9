"""Tables of the page of evidence: parts, the folds of others, and how sure a difference is."""

from __future__ import annotations

from typing import Any

import numpy as np
from _record import markdown
from _reproduction_tables import NAMES, OURS_IN_SOME_FORM, UNSMOOTHED

from groupnoise.reproduce.files import read_trial_line
from groupnoise.reproduce.report import PairedDifference, corrected_t_test, holm

MAX_P = 0.05
TEST_TO_TRAIN = 1 / 8
"""Of splits 8:1:1."""


def ablation_table(result: dict[str, Any]) -> str:
    """Return a line per part and a column per data set: what the figure loses without it."""
    rows = result["rows"]
    sets = list(dict.fromkeys(row["set"] for row in rows))
    found = {(row["set"], row["part"]): row for row in rows}
    parts = [part for part in dict.fromkeys(row["part"] for row in rows) if part != "whole"]
    lines = [["the whole", *(f"{found[name, 'whole']['mean']:.3f}" for name in sets), ""]]
    for part in parts:
        own = [found.get((name, part)) for name in sets]
        cells = ["" if row is None else _points(row) for row in own]
        known = [row["brings"] for row in own if row is not None]
        lines.append([part, *cells, f"{100 * sum(known) / len(known):+.1f}"])
    seeds = result["seeds"]
    n_seeds = {row["n_seeds"] for row in rows}
    note = (
        "Below the first line: points of accuracy (shop: NDCG@10) that are lost when the part is "
        "replaced as said; a minus says that it is better without. Bold: "
        f"p < {MAX_P} ({result['test']}). Seeds {seeds[0]} to {seeds[-1]}, at least "
        f"{min(n_seeds)} on every set. `{result['command']}`"
    )
    return markdown(["", *sets, "mean"], lines, note)


def _points(row: dict[str, Any]) -> str:
    text = f"{100 * row['brings']:+.1f}"
    return f"**{text}**" if row["p"] < MAX_P else text


def folds_table(result: dict[str, Any]) -> str:
    """Return accuracy on new and training rows under the folds of VI-PLL, and what is in print."""
    names = {"recipe": "`ours`, the recipe", "plain": "`ours`, a plain fit"}
    rows = result["rows"]
    sets = list(result["published"])
    lines = []
    for method, words in names.items():
        own = {row["set"]: row for row in rows if row["method"] == method}
        if not own:
            continue
        new = [_fold_cell(own.get(name)) for name in sets]
        seen = [f"{own[name]['training rows']:.3f}" if name in own else "" for name in sets]
        lines += [[words, *new], [f"{words}, on training rows", *seen]]
    methods = dict.fromkeys(
        method for figures in result["published"].values() for method in figures
    )
    for method in methods:
        cells = [result["published"][name].get(method) for name in sets]
        shown = ["" if cell is None else f"{cell:.3f}" for cell in cells]
        lines.append([f"*{method}, published*", *shown])
    note = f"{result['protocol']}. Published: {result['published_source']}. `{result['command']}`"
    return markdown(["", *sets], lines, note)


def _fold_cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['accuracy']:.3f} ± {row['std']:.3f}"


def wider_grids_table(result: dict[str, Any]) -> str:
    """Return a line per baseline that stood at the end of its grid: whether it wants more."""
    ends: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for split in result["splits"]:
        ends.setdefault((split["set"], split["method"]), []).append(split)
    lines = []
    for row in result["rows"]:
        own = ends[row["set"], row["method"]]
        end, beyond = own[0]["end"], own[0]["values"]
        n_end = sum(split["chosen"] == end for split in own)
        words = own[0]["parameter"].replace("_", " ")
        lines.append(
            [
                f"{NAMES.get(row['method'], row['method'])} on {row['set']}",
                f"{words} {end:g}: {n_end} of {len(own)}",
                ", ".join(f"{value:g}" for value in beyond),
                f"on {row['taken']} of {row['splits']} splits",
                f"{row['accuracy']:.3f}",
                f"{row['accuracy with the wider grid']:.3f}",
            ]
        )
    head = ["", "the end, and how often it was taken", "tried beyond it", "validation prefers that"]
    return markdown(
        [*head, "accuracy", "with the wider grid"],
        lines,
        "Of the splits that were run; validation rows decide, and test figures follow. "
        f"`{result['command']}`",
    )


def difference_table(result: dict[str, Any], *, metric: str = "accuracy") -> str:
    """Return how far `ours` is from the best baseline of every set, and how sure that is.

    Of random splits 8:1:1.
    """
    tests = _differences(result, metric)
    places = {" | ".join(place): place for place in tests}
    p_values = holm({words: tests[place].p_value for words, place in places.items()})
    adjusted = {place: p_values[words] for words, place in places.items()}
    lines = []
    for name in dict.fromkeys(name for name, _ in tests):
        own = {method: test for (each, method), test in tests.items() if each == name}
        closest, test = min(own.items(), key=lambda pair: pair[1].mean)
        p_value = adjusted[name, closest]
        interval = f"{test.low:+.3f} to {test.high:+.3f}"
        sure = "< .001" if p_value < 0.001 else f"{p_value:.3f}"
        baseline = NAMES.get(closest, closest)
        lines.append([name, baseline, f"{test.mean:+.3f}", interval, sure, test.n_trials])
    n_sure = sum(p < MAX_P and tests[place].mean > 0 for place, p in adjusted.items())
    n_lost = sum(p < MAX_P and tests[place].mean < 0 for place, p in adjusted.items())
    head = ["", "closest baseline", "`ours` is ahead by", "95 % interval", "p", "splits"]
    return markdown(
        head,
        lines,
        f"Corrected resampled t-test, p adjusted by Holm over all {len(tests)} pairs of a set and "
        f"a baseline: `ours` is ahead at p < {MAX_P} in {n_sure}, behind in {n_lost}, and not to "
        f"be told apart in {len(tests) - n_sure - n_lost}.",
    )


def _differences(result: dict[str, Any], metric: str) -> dict[tuple[str, str], PairedDifference]:
    """Return the test of `ours` against every baseline on every set, over the seeds of both."""
    found: dict[str, dict[str, dict[int, float]]] = {}
    for line in result["trials"]:
        trial = read_trial_line("", line)
        if trial.criterion == result["criteria"][0] and metric in trial.metrics:
            methods = found.setdefault(trial.dataset, {})
            methods.setdefault(trial.method, {})[trial.seed] = trial.metrics[metric]
    tests = {}
    for name, methods in found.items():
        ours = methods.get("ours", {})
        for method, figures in methods.items():
            seeds = sorted(set(ours) & set(figures))
            is_baseline = method not in OURS_IN_SOME_FORM and not method.endswith(UNSMOOTHED)
            if is_baseline and len(seeds) > 1:
                gaps = np.array([ours[seed] - figures[seed] for seed in seeds])
                tests[name, method] = corrected_t_test(gaps, TEST_TO_TRAIN)
    return tests
